"""Flagfiles: one flag a line, as iree-compile takes them by `@FILE`. `specfiles.flagfile` reads them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

SUBSTITUTIONS = "--iree-hal-substitute-executable-configurations-from"
"""The flag of substituted executables, with a folder: a model has several."""
KERNELS = ".kernels.mlir"
"""The suffix of a spec that calls microkernels, beside a tuning spec."""
_SPECIAL = "\\\"'"


def flagfile_text(flags: Sequence[str]) -> str:
    """One flag a line, quoted where LLVM would split or unescape it."""
    return "".join(f"{quoted(flag)}\n" for flag in flags)


def use_line(flagfile: Path, *, program: Path | None = None) -> str:
    """The command that compiles with what a flagfile names, ready to be pasted; without a program, for any model.

    The module has the flagfile's name.
    """
    if program is None:
        return shlex.join(["iree-compile", "your_program.mlir", f"@{flagfile}", "-o", "your_program.vmfb"])
    return shlex.join(["iree-compile", str(program), f"@{flagfile}", "-o", flagfile.with_suffix(".vmfb").name])


def quoted(flag: str) -> str:
    """A flag as a line of a flagfile."""
    if not any(c.isspace() or c in _SPECIAL for c in flag):
        return flag
    return '"' + flag.replace("\\", "\\\\").replace('"', '\\"') + '"'
