"""Which build a program is: its own bytes and those of the libraries that it brings along."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from autotuner.errors import INSTALL_IREE, ToolMissingError
from autotuner.system.digests import known_digest

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
