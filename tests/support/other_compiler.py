"""Programs in the place of iree-compile: real ones that a test writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autotuner.iree.tools import Tools


def instead_of_compiler(tools: Tools, folder: Path, script: str) -> Tools:
    """The programs with another iree-compile: it tells its version truly and else does what the script says."""
    wrapper = folder / "iree-compile"
    real = tools.iree_compile
    wrapper.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && exec "{real}" --version\n{script.replace("REAL", str(real))}\n'
    )
    wrapper.chmod(0o755)
    return replace(tools, iree_compile=wrapper)
