"""Starts a module of this very package in a Python of its own: `python -P start.py MODULE WORD…`.

Whatever is in the folder that autotune is called in, and wherever the package itself lies: Python imports nothing from
there, only from its own library, from what is installed, and this package by its path.
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
