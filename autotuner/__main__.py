"""`python -m autotuner` and the `autotune` script."""

import os

# Before numpy is imported: its BLAS threads spin for a while after each call, on the cores that are being timed.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from autotuner.cli.app import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
