"""The sides of an experiment, as users name them: a microkernel, a spec, a flagfile, a compiler, IREE's default."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from autotuner.carriers.flagfile import SPEC_FLAGS, name_of
from autotuner.carriers.flags import SUBSTITUTION, SUBSTITUTIONS
from autotuner.carriers.microkernel import OBJECTS_FLAG
from autotuner.errors import UsageError
from autotuner.microkernels.library import find, search_folders
from autotuner.microkernels.loader import FILE
from autotuner.microkernels.variants import Kernel
from autotuner.targets import Target

ArmKind = Literal["default", "microkernel", "spec", "flagfile", "compiler"]
DEFAULT = "default"
_CHIP = (
    "--iree-hal-target-device",
    "--iree-hal-local-target-device-backends",
    "--iree-rocm-target",
    "--iree-cuda-target",
)
"""Flags that say what is compiled for: both arms run on the same device."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One side."""

    name: str
    """As the user wrote it."""
    kind: ArmKind
    path: Path | None = None
    """The file of a spec, a flagfile or a compiler."""
    kernel: Kernel | None = None
    trust: bool = False
    """Compile a file with whatever is in it."""


def parse_arm(
    text: str, *, workspace: Path, objects: Sequence[Path] = (), symbol: str | None = None, trust: bool = False
) -> Arm:
    """`default`, `@FILE` or FILE.flags, FILE.mlir, the path of an iree-compile, or a microkernel's name."""
    if text == DEFAULT:
        return Arm(text, "default")
    if text.startswith("@") or text.endswith(".flags"):
        return Arm(text, "flagfile", _file(text.removeprefix("@"), "a flagfile"), trust=trust)
    if text.endswith(".mlir"):
        return Arm(text, "spec", _file(text, "a spec"), trust=trust)
    folders = search_folders(workspace)
    named = os.sep not in text and any((folder / text / FILE).is_file() for folder in folders)
    if not named and (os.sep in text or Path(text).is_file()):
        path = _file(text, "a compiler")
        if not os.access(path, os.X_OK):
            raise UsageError(
                f"{text} is not executable.", remedy="An arm is a microkernel, a .mlir, a .flags or an iree-compile."
            )
        return Arm(text, "compiler", path)
    find(text, folders)
    return Arm(text, "microkernel", kernel=Kernel(text, tuple(objects), symbol))


def _file(text: str, what: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise UsageError(f"there is no file {text or '(an empty name)'}, meant as {what}.", remedy="Is the path right?")
    return path.absolute()


def file_flags(target: Target, given: Sequence[str], *, path: Path) -> tuple[str, ...]:
    """The target's flags and the user's, with those of a file in the place of what has the same name."""
    own = {name_of(flag): flag for flag in target.compile_flags}
    for flag in given:
        name = name_of(flag)
        if name in _CHIP and own.get(name, flag) != flag:
            raise UsageError(f"{path} is for another target: {flag}, not {own[name]}.", remedy="Give its --target.")
    named = {name_of(flag) for flag in given}
    return (*(flag for name, flag in own.items() if name not in named), *map(absolute, given))


def absolute(flag: str) -> str:
    """The flag with the file that it names as iree-compile would find it from here."""
    name, _, value = flag.partition("=")
    if name == SUBSTITUTION:
        symbol, _, file = value.partition("=")
        return f"{name}={symbol}={Path(file).absolute()}"
    return f"{name}={Path(value).absolute()}" if name in (*SPEC_FLAGS, SUBSTITUTIONS, OBJECTS_FLAG) else flag
