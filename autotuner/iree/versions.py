"""What versions of IREE look like, which are supported, and which the Python bindings are: all of that is here."""

from __future__ import annotations

import re
from importlib import metadata

from autotuner._version import IREE_NEWEST, IREE_OLDEST

_COMPILER = re.compile(r"IREE compiler version (\S+)(?: @ ([0-9a-f]+))?")
_RELEASE = re.compile(r"(\d+\.\d+\.\d+)rc\d+")
_NUMBERS = re.compile(r"(\d+)\.(\d+)")
_REVISION = 12
"""Letters of a revision that are shown."""
SUPPORTED = f"{IREE_OLDEST} to {IREE_NEWEST}"


def compiler_version(answer: str) -> str:
    """`3.13.0rc20261016 @ 89ece87b8985`, from what a compiler says of itself; empty when it does not."""
    found = _COMPILER.search(answer)
    return _text(found[1], found[2]) if found else ""


def bindings_version() -> str:
    """The same of the Python bindings in use, which may be those of a build."""
    try:
        from iree.compiler import version

        return _text(str(version.VERSION), version.REVISIONS.get("IREE"))
    except (ImportError, AttributeError):
        return package("iree-base-compiler")


def _text(version: str, revision: str | None) -> str:
    return f"{version} @ {revision[:_REVISION]}" if revision else version


def release(version: str) -> str:
    """`3.13.0` of `3.13.0rc20261016 @ …`: a release is a candidate that was good. Other versions stay as they are."""
    word = version.partition(" ")[0]
    found = _RELEASE.fullmatch(word)
    return found[1] if found else word


def supported(version: str) -> bool | None:
    """Is it one of the releases that specs are written for? None: it has no release number, as one's own builds."""
    numbers = _NUMBERS.match(version)
    if numbers is None or numbers[1] == "0":
        return None
    return _pair(IREE_OLDEST) <= (int(numbers[1]), int(numbers[2])) <= _pair(IREE_NEWEST)


def _pair(text: str) -> tuple[int, int]:
    major, minor = text.split(".")
    return int(major), int(minor)


def package(name: str) -> str:
    """The version of an installed package; empty when there is none, or half of one."""
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, OSError, KeyError):
        return ""
