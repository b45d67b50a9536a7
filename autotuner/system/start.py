"""Starts a module of this package in a new Python process: `python -P start.py MODULE WORD…`.

Python imports nothing from the current folder or from beside the package, only its own library, installed packages, and
this package by its path.
"""

import runpy
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

if __name__ == "__main__":
    del sys.argv[0]
    folder = Path(__file__).parents[1]
    spec = spec_from_file_location(folder.name, folder / "__init__.py")
    if spec is None or spec.loader is None:
        sys.exit(f"{folder} is no package")
    sys.modules[folder.name] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
