"""What a problem can be timed on: IREE by default and tuned, and other libraries, each in a process of its own."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.errors import UsageError
from autotuner.targets import Target

IREE, TUNED, HIPBLASLT = "iree", "tuned", "hipblaslt"
HIPBLASLT_BENCH, HIPBLASLT_INSTALL = "hipblaslt-bench", "apt install hipblaslt-benchmarks"
"""AMD's program, and what brings it where ROCm's packages come from AMD."""
_ROCM = Path("/opt/rocm/bin")


@dataclass(frozen=True)
class Library:
    """Another library: the script that its process runs, and how a user gets it."""

    name: str
    install: str
    """The line that brings it."""
    on_host: bool = True
    """It computes on processors."""
    on_gpu: bool = True

    @property
    def script(self) -> Path:
        return Path(__file__).with_name("libraries") / f"{self.name}_library.py"

    def objection(self, target: Target) -> str:
        """Why it does not run there, whatever is installed; empty where it may."""
        on_host = target.backend.on_host
        if on_host and not self.on_host:
            return f"{self.name} computes on GPUs, and the target is {target.name}"
        if not on_host and not self.on_gpu:
            return f"{self.name} computes on the processor, and the target is {target.name}"
        return ""


LIBRARIES: Mapping[str, Library] = {
    one.name: one
    for one in (
        Library("numpy", "pip install numpy", on_gpu=False),
        Library("torch", "pip install torch"),
        Library("triton", "pip install torch triton", on_host=False),
        Library("onnxruntime", "pip install onnxruntime onnx", on_gpu=False),
    )
}
NAMES: tuple[str, ...] = (IREE, TUNED, *LIBRARIES, HIPBLASLT)


@dataclass(frozen=True)
class LeftOut:
    """A backend that takes no part, with the reason and, where something would bring it, that line."""

    name: str
    reason: str
    install: str = ""

    def __str__(self) -> str:
        return f"{self.name} is left out: {self.reason}{f'. Run: {self.install}' if self.install else ''}"

    def to_json(self) -> dict[str, Any]:
        return {"backend": self.name, "reason": self.reason, "install": self.install or None}


@dataclass(frozen=True)
class Chosen:
    """The backends that a user wants."""

    names: tuple[str, ...] = NAMES
    named: bool = False
    """By the user: one that is not there is an error then, and is left out otherwise."""
    pythons: Mapping[str, Path] | None = None
    """In which Python a library is, where it is not this one."""

    @classmethod
    def parse(cls, text: str | None, pythons: Sequence[str] = ()) -> Chosen:
        """`--backends iree,torch` and `--python torch=/opt/torch/bin/python`."""
        names = NAMES if text is None else tuple(dict.fromkeys(word.strip() for word in text.split(",")))
        for name in names:
            if name not in NAMES:
                raise UsageError(f"there is no backend {name!r}.", remedy=f"Choose from: {', '.join(NAMES)}.")
        found = dict(_python(word, names) for word in pythons)
        return cls(names, named=text is not None, pythons=found)

    def python(self, name: str) -> Path:
        return (self.pythons or {}).get(name, Path(sys.executable))


def _python(text: str, chosen: Sequence[str]) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if name not in LIBRARIES or not path:
        names = ", ".join(LIBRARIES)
        raise UsageError(f"--python {text} is not LIBRARY=PYTHON.", remedy=f"The libraries are: {names}.")
    if name not in chosen:
        raise UsageError(f"--python {text}: {name} is not among the backends.", remedy="Add it to --backends.")
    file = Path(path).absolute()  # not resolved: a virtual environment is found by the link's own place
    if not file.is_file() or not os.access(file, os.X_OK):
        raise UsageError(f"--python {text}: there is no program {path}.", remedy="Name an interpreter.")
    return name, file


def hipblaslt_bench() -> Path | None:
    """AMD's own program, where ROCm has brought it."""
    found = shutil.which(HIPBLASLT_BENCH) or shutil.which(HIPBLASLT_BENCH, path=str(_ROCM))
    return Path(found) if found else None
