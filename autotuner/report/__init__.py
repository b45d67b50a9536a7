"""What is told of results: tables, frames, the state of this machine."""
