"""Objects of processors whose names are hidden, so that calls between them are direct.

A name that is visible from outside is called through a table that a dynamic loader fills. The loader of IREE's embedded
executables leaves that table as it is on aarch64: the first call of the kernel ends in SIGSEGV.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError

from autotuner.errors import UsageError
from autotuner.iree.objects import open_elf
from autotuner.microkernels.kept import keep, kept_folder

_SYMBOL_BYTES = 24
_INFO, _OTHER, _SECTION = 4, 5, slice(6, 8)
"""Where they stand in a symbol of a 64-bit ELF."""
_WEAK = 2
_OUTSIDE = {1, _WEAK, 10}
"""STB_GLOBAL, STB_WEAK, STB_GNU_UNIQUE."""
_DEFAULT, _HIDDEN, _PROTECTED = 0, 2, 3
_VISIBILITY = 3
"""The other bits of st_other are the architecture's own."""
_UNDEFINED = bytes(2)


def hidden_copies(objects: tuple[Path, ...]) -> tuple[Path, ...]:
    """The same objects where all names are hidden already, copies of the same file names otherwise."""
    return tuple(map(_hidden_copy, objects))


def _hidden_copy(path: Path) -> Path:
    data = path.read_bytes()
    try:
        changed = hide(data)
    except (ValueError, ELFError) as error:
        raise UsageError(f"{path} is a damaged object: {error}.", remedy="Make or copy it again.") from None
    if changed == data:
        return path
    final = kept_folder(hashlib.sha256(changed).hexdigest()) / path.name
    if not (final.is_file() and final.read_bytes() == changed):
        with keep(final) as making:
            making.write_bytes(changed)
    return final


def hide(data: bytes) -> bytes:
    """A relocatable ELF with hidden names; a ValueError where it is none, or damaged.

    Of those that are not defined here only the weak ones are hidden: a linker then leaves them at zero. The others take
    on the visibility of the object that defines them.
    """
    changed = bytearray(data)
    for at in _visible(data):
        changed[at + _OTHER] = changed[at + _OTHER] & ~_VISIBILITY | _HIDDEN
    return bytes(changed)


def shows_names(data: bytes) -> bool:
    """Some name of this relocatable ELF is visible from outside."""
    return any(True for _ in _visible(data))


def _visible(data: bytes) -> Iterator[int]:
    """The offsets of the symbols that others could bind to at run time."""
    elf = open_elf(data)
    if elf.elfclass != 64 or not elf.little_endian or elf["e_type"] != "ET_REL":
        raise ValueError("it is no relocatable object of 64 bits")
    for section in elf.iter_sections():
        if section["sh_type"] != "SHT_SYMTAB":
            continue
        start, end = section["sh_offset"], section["sh_offset"] + section["sh_size"]
        if section["sh_entsize"] != _SYMBOL_BYTES or end > len(data):
            raise ValueError("its symbols do not lie within it")
        for at in range(start, end - _SYMBOL_BYTES + 1, _SYMBOL_BYTES):
            symbol = data[at : at + _SYMBOL_BYTES]
            binding = symbol[_INFO] >> 4
            shown = symbol[_OTHER] & _VISIBILITY in (_DEFAULT, _PROTECTED)
            if shown and binding in _OUTSIDE and (binding == _WEAK or symbol[_SECTION] != _UNDEFINED):
                yield at
