"""A against B: two ways to compile the same program, proven, checked and raced."""
