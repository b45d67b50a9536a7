"""Hand-written kernels as candidates: what they need, whether they fit, and where they come from."""
