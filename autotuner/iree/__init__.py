"""IREE's programs and bindings: which build is used, how it is called, what it prints."""
