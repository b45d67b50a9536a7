"""`autotune ab --new NAME`: a manifest to fill in; with `--c`, a kernel in C that works as it is."""

from __future__ import annotations

import os
from pathlib import Path

import jinja2

from autotuner.errors import StorageError, UsageError
from autotuner.microkernels.library import is_shipped
from autotuner.microkernels.loader import FILE, checked_name
from autotuner.system.templates import templates

MANIFEST, C_FILE = "microkernel.toml.j2", "kernel.c"
_C_SOURCE = "microkernel.c"


def create(name: str, folder: Path, *, in_c: bool = False) -> tuple[Path, ...]:
    """Writes FOLDER/NAME/microkernel.toml, and a source where one is wanted; what is there already stays."""
    home = folder / checked_name(name)
    if is_shipped(name):
        raise UsageError(f"{name} is a microkernel that comes with autotune.", remedy="Choose another name.")
    files = {home / FILE: manifest_text(name, in_c=in_c)}
    if in_c:
        files[home / C_FILE] = (templates() / _C_SOURCE).read_text(encoding="utf-8")
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


def manifest_text(name: str, *, in_c: bool) -> str:
    """A manifest with what each key means, or that of a kernel in C."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates()),
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
    return environment.get_template(MANIFEST).render(name=name, in_c=in_c)
