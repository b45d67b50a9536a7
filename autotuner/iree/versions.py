"""What versions of IREE look like, which are supported, and which the Python bindings are: all of that is here."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from autotuner._version import IREE
from autotuner.errors import INSTALL_IREE, ToolMissingError
from autotuner.system.digests import known_digest

_COMPILER = re.compile(r"IREE compiler version (\S+)(?: @ ([0-9a-f]+))?")
_RELEASE = re.compile(r"(\d+\.\d+\.\d+)rc\d+")
_NUMBERS = re.compile(r"\d+\.\d+")


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
    return f"{version} @ {revision[:12]}" if revision else version


def release(version: str) -> str:
    """`3.13.0` of `3.13.0rc20261016 @ …`: a release is a candidate that was good. Other versions stay as they are."""
    word = version.partition(" ")[0]
    found = _RELEASE.fullmatch(word)
    return found[1] if found else word


def supported(version: str) -> bool | None:
    """Is it the release that specs are written for? None: it has no release number, as one's own builds."""
    numbers = _NUMBERS.match(version)
    if numbers is None or numbers[0].startswith("0."):
        return None
    return numbers[0] == IREE


def package(name: str) -> str:
    """The version of an installed package; empty when there is none, or half of one."""
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, OSError, KeyError):
        return ""


# --- Which build a program is: its own bytes and those of the libraries that it brings along ------------------------

_HELPERS = ("iree-lld", "lld")
"""Programs beside the compiler that it calls."""


def program_digest(program: Path) -> str:
    """SHA-256 over a program, the libraries that its run path names, and theirs.

    A script is known by its text alone: what it calls is not followed.
    """
    files: dict[Path, None] = {}
    _collect(program, files)
    return _over(files)


def compiler_digest(compiler: Path) -> str:
    """The same with the linker beside it: the code in a module is made by both."""
    files: dict[Path, None] = {}
    for program in (compiler, *(compiler.resolve().with_name(name) for name in _HELPERS)):
        if program == compiler or program.is_file():
            _collect(program, files)
    return _over(files)


def _over(files: dict[Path, None]) -> str:
    whole = hashlib.sha256()
    for path in files:
        whole.update(known_digest(path).encode())
    return whole.hexdigest()


def _collect(path: Path, files: dict[Path, None]) -> None:
    real = path.resolve()  # as the loader does: $ORIGIN is where the file lies, not where a link to it does
    if real in files:
        return
    files[real] = None
    try:
        libraries = list(_own_libraries(real))
    except OSError as error:
        raise ToolMissingError(f"{path} cannot be read: {error.strerror}.", remedy=INSTALL_IREE) from error
    for library in libraries:
        _collect(library, files)


def _own_libraries(path: Path) -> Iterator[Path]:
    """What the loader finds by the file's own run path: the system's libraries are not part of a build of IREE."""
    # Where modules only run nobody asks, and the package that reads libraries is not there.
    from elftools.common.exceptions import ELFError
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        try:
            segments = [s for s in ELFFile(file).iter_segments() if isinstance(s, DynamicSegment)]
            tags = [tag for segment in segments for tag in segment.iter_tags()]
            needed = [name for tag in tags if (name := getattr(tag, "needed", ""))]
            paths = [getattr(tag, "runpath", "") or getattr(tag, "rpath", "") for tag in tags]
        except ELFError:
            return  # a script
    folders = [folder for text in paths for folder in text.split(":") if folder]
    for name in needed:
        places = (Path(f.replace("${ORIGIN}", "$ORIGIN").replace("$ORIGIN", str(path.parent))) / name for f in folders)
        if found := next((place for place in places if place.is_file()), None):
            yield found
