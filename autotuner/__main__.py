"""`python -m autotuner` and the `autotune` script."""

import atexit
import gc
import os
import sys
import time

BEGAN = time.monotonic()
"""What is imported from here on is part of a command's --budget: on a busy machine it takes seconds."""
# Before numpy is imported: its BLAS threads spin for a while after each call, on the cores that are being timed.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# What is imported stays: looking through it for garbage, and once more at the end, was a sixth of a short command.
gc.set_threshold(100_000)
atexit.register(gc.freeze)

__all__ = ["main"]


def main() -> None:
    """The command line."""
    try:
        from autotuner.cli.app import main as whole
    except ModuleNotFoundError as error:
        sys.stderr.write(f"autotune: the Python package {error.name} is not installed. Run: pip install typer\n")
        sys.exit(5)
    whole(BEGAN)


if __name__ == "__main__":
    main()
