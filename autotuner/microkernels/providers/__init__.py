"""Where microkernels come from: C, Triton, MISA."""
