"""What is compiled, called, checked and timed: a problem or a whole model."""
