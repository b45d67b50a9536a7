"""`python -m autotuner` and the `autotune` script."""

from autotuner.cli.app import main

if __name__ == "__main__":
    main()
