"""The same problems on other libraries, side by side."""
