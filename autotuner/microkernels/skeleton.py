"""`autotune ab --new NAME`: a manifest to fill in; with `--c` or `--cuda`, a kernel that works as it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
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


def create(name: str, folder: Path, *, language: Language | None = None) -> tuple[Path, ...]:
    """Writes FOLDER/NAME/microkernel.toml, and a source where one is wanted; what is there already stays."""
    home = folder / checked_name(name)
    if is_shipped(name):
        raise UsageError(f"{name} is a microkernel that comes with autotune.", remedy="Choose another name.")
    files = {home / FILE: manifest_text(name, language=language)}
    if language is not None:
        ending = _ENDINGS[language]
        files[home / f"kernel.{ending}"] = (packaged("templates") / f"microkernel.{ending}").read_text(encoding="utf-8")
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


def manifest_text(name: str, *, language: Language | None) -> str:
    """A manifest with what each key means, or that of a kernel in this language."""
    return render(MANIFEST, name=name, language=language)
