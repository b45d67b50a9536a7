"""The one place that puts off an import: `autotune --help` must not wait for pandas, Optuna and IREE's bindings."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class Lazy:
    """A module that is imported when something of it is used; a type checker is shown the module itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def load(self) -> ModuleType:
        return import_module(self.name)

    def __getattr__(self, attribute: str) -> object:
        found: object = getattr(self.load(), attribute)
        return found
