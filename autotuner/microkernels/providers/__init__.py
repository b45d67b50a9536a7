"""Where microkernels come from: C, CUDA C++, Triton, MISA."""
