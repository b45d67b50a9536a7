"""Two sets of results side by side: which kernels became slower, which faster, and where each was measured."""
