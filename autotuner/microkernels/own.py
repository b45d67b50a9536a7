"""Creates the user's own microkernels: `autotune ab --new NAME`, or `autotune ab kernel.c`."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autotuner.errors import StorageError, UsageError
from autotuner.microkernels.library import is_shipped
from autotuner.microkernels.loader import FILE, checked_name
from autotuner.system.settings import packaged
from autotuner.system.templates import render

MANIFEST = "microkernel.toml.j2"
Language = Literal["c", "cuda"]
_ENDINGS: Mapping[Language, str] = {"c": "c", "cuda": "cu"}
_FORM = "void NAME(const float* a, const float* b, float* c, int m, int n, int k)"
_PRODUCT = re.compile(
    r"(?<!static )\bvoid\s+(\w+)\s*\(\s*const\s+float\s*\*[^,()]*,\s*const\s+float\s*\*[^,()]*,\s*float\s*\*[^,()]*"
    r"((?:,\s*(?:int|int32_t)\s+[mnkMNK]\s*)*)\)\s*\{"
)


@dataclass(frozen=True, slots=True)
class Function:
    """A product's C function, as its manifest describes it."""

    symbol: str = "gemm"
    sizes: tuple[str, ...] = ("m", "n", "k")
    grid: str = '[1, "m"]'
    source: str = "kernel.c"


def create(
    name: str, folder: Path, *, language: Language | None = None, source: Path | None = None
) -> tuple[Path, ...]:
    """Writes FOLDER/NAME/microkernel.toml, and a source if a language is named; existing files stay.

    With `source`, a product in C, the manifest describes its function.
    """
    home = folder / checked_name(name)
    if is_shipped(name):
        raise UsageError(f"{name} is a microkernel that comes with autotune.", remedy="Choose another name.")
    function = Function() if source is None else _function_in(source)
    files = {home / FILE: manifest_text(name, language=language, function=function)}
    if language is not None:
        ending = _ENDINGS[language]
        given = source or packaged("templates") / f"microkernel.{ending}"
        files[home / (function.source if ending == "c" else f"kernel.{ending}")] = given.read_text(encoding="utf-8")
    if there := [file for file in files if os.path.lexists(file)]:
        raise UsageError(f"{there[0]} is there already.", remedy="Edit it, or choose another name.")
    try:
        home.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            with file.open("x", encoding="utf-8") as handle:
                handle.write(text)
    except OSError as error:
        raise StorageError(f"cannot write {home}: {error.strerror}.", remedy="Choose another --workspace.") from error
    return tuple(files)


def adopt(source: Path, folder: Path) -> str:
    """The microkernel of a C source: that of the manifest beside it, else one in FOLDER, created if it is not there."""
    if (source.parent / FILE).is_file():
        return source.absolute().parent.name
    name = re.sub(r"[^a-z0-9_-]", "_", source.stem.lower())
    home = folder / name
    if not (home / FILE).is_file():
        create(name, folder, language="c", source=source)
    elif not (home / source.name).is_file():
        raise UsageError(f"{home} is another microkernel.", remedy="Rename the source, or the folder.")
    shutil.copyfile(source, home / source.name)
    return name


def _function_in(source: Path) -> Function:
    found = _PRODUCT.search(source.read_text(encoding="utf-8", errors="replace"))
    if found is None:
        new = f"`autotune ab --new {source.stem} --c` begins a manifest and a source to fill in."
        raise UsageError(f"how to call {source} cannot be read from it: it has no {_FORM}.", remedy=new)
    sizes = tuple(word.split()[-1].lower() for word in found[2].split(",")[1:])
    return Function(found[1], sizes, "[1]", source.name)


def manifest_text(name: str, *, language: Language | None, function: Function = Function()) -> str:
    """A manifest with comments on each key, or that of an example kernel in this language."""
    return render(MANIFEST, name=name, language=language, function=function)
