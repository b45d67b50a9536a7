"""Versions of IREE: how they are written, which are supported, and which one the Python bindings have."""

from __future__ import annotations

import hashlib
import re
from importlib import metadata
from pathlib import Path

from autotuner._version import IREE
from autotuner.errors import INSTALL_IREE, ToolMissingError
from autotuner.system.digests import known_digest

_COMPILER = re.compile(r"IREE compiler version (\S+)(?: @ ([0-9a-f]+))?")
_RELEASE = re.compile(r"(\d+\.\d+\.\d+)rc\d+")
_NUMBERS = re.compile(r"\d+\.\d+")


def compiler_version(answer: str) -> str:
    """The version in the output of `iree-compile --version`, such as `3.13.0rc20261016 @ 89ece87b8985`; empty: none."""
    found = _COMPILER.search(answer)
    return _text(found[1], found[2]) if found else ""


def bindings_version() -> str:
    """The version of the Python bindings in use, which may be of a user's build."""
    try:
        from iree.compiler import version

        return _text(str(version.VERSION), version.REVISIONS.get("IREE"))
    except (ImportError, AttributeError):
        return package("iree-base-compiler")


def _text(version: str, revision: str | None) -> str:
    return f"{version} @ {revision[:12]}" if revision else version


def release(version: str) -> str:
    """The release of a version: `3.13.0` of `3.13.0rc20261016 @ …`. Others stay as they are."""
    word = version.partition(" ")[0]
    found = _RELEASE.fullmatch(word)
    return found[1] if found else word


def supported(version: str) -> bool | None:
    """Whether autotune supports this version; None for builds without a release number."""
    numbers = _NUMBERS.match(version)
    if numbers is None or numbers[0].startswith("0."):
        return None
    return numbers[0] == IREE


def package(name: str) -> str:
    """The version of an installed package; empty: it is not installed, or broken."""
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, OSError, KeyError):
        return ""


# --- Which build a program is ---------------------------------------------------------------------------------------

_PARTS = re.compile(r"(iree-)?lld|lib.*(IREE|LLVM|MLIR).*")
"""Files of a build that determine its code: the compiler library and the linker."""


def program_digest(program: Path) -> str:
    """SHA-256 of a program and those files of its build: together they make a module's code."""
    real = program.resolve()  # as the loader does: libraries lie where the file is, not where a link to it is
    whole = hashlib.sha256()
    try:
        folders = [folder for folder in (real.parent, real.parent.parent / "lib") if folder.is_dir()]
        parts = {path.resolve() for folder in folders for path in folder.iterdir() if _PARTS.fullmatch(path.name)}
        for path in (real, *sorted(path for path in parts if path.is_file())):
            whole.update(known_digest(path).encode())
    except OSError as error:
        raise ToolMissingError(f"{program} cannot be read: {error.strerror}.", remedy=INSTALL_IREE) from error
    return whole.hexdigest()
