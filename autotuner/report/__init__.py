"""Results as tables, frames and pages, and the state of this machine."""
