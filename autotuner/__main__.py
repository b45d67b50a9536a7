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
    """The command line; without typer, that part of it which a machine with a device and no compiler needs."""
    try:
        import typer  # noqa: F401
    except ImportError:
        from autotuner.bundles.command import bare_main

        sys.exit(bare_main(sys.argv[1:]))
    from autotuner.cli.app import main as whole

    whole(BEGAN)


if __name__ == "__main__":
    main()
