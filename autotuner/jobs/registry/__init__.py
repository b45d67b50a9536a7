"""The registry at work: applied to a problem, checked with a new IREE, exported for IREE's own tree."""
