"""Settings from the environment, and files that come with autotune. The only module that reads the environment."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any


def cache_dir() -> Path:
    """The user's cache; `AUTOTUNE_CACHE_DIR` puts it elsewhere."""
    override = os.environ.get("AUTOTUNE_CACHE_DIR")
    return Path(override) if override else _user_caches() / "autotune"


def _user_caches() -> Path:
    """The folder of a user's caches."""
    named = os.environ.get("XDG_CACHE_HOME", "").strip()
    return Path(named) if named else Path.home() / ".cache"


def iree_tools() -> Path | None:
    """`AUTOTUNE_IREE_TOOLS`: the folder of a build of IREE, as `--iree-tools` names it."""
    folder = os.environ.get("AUTOTUNE_IREE_TOOLS")
    return Path(folder) if folder else None


def packaged(folder: str) -> Path:
    """A folder that comes with autotune: inside the installed package, beside it in a checkout."""
    package = Path(__file__).parent.parent
    return package / folder if (package / folder).is_dir() else package.parent / folder


def shipped_registry() -> Path | None:
    """The registry that comes with autotune; `AUTOTUNE_REGISTRY` names another folder in its place, or `none`."""
    named = os.environ.get("AUTOTUNE_REGISTRY")
    return None if named == "none" else Path(named) if named else packaged("registry/entries")


def loaded(home: str) -> Any:
    """Imports `package.module:name`, so that tables can name what only some runs use."""
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


def usable_cores() -> int:
    """The cores that this process may use, which a container may limit."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# --- The words of the command that runs, without passwords ----------------------------------------------------------

_LOGIN = re.compile(r"(://[^:/@]*):.*@")
"""A URL's login, up to the last @, so that an unencoded password is hidden, too."""
_OPTIONS = re.compile(r"(sql[^:]*://[^?]*)\?.*")
"""The options of a database's URL, any of which may be secret."""


def given_command() -> tuple[str, ...]:
    """The command line without passwords; its URLs still work where ~/.pgpass has them."""
    return without_passwords(sys.argv)


def without_passwords(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(_OPTIONS.sub(r"\1", _LOGIN.sub(r"\1@", word)) for word in words)
