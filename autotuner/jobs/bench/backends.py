"""What a problem can be timed on: IREE by default and tuned, and other libraries, each in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import Arm, file_arm
from autotuner.store.rows import RunRow
from autotuner.targets import Target

IREE, TUNED = "iree", "tuned"
Where = tuple[str, tuple[str, ...]]
"""Words for the devices that a library computes on, and IREE's drivers of these."""
HOST: Where = ("the processor", ("local-task",))
AMD: Where = ("AMD's GPUs", ("hip",))
GPUS: Where = ("GPUs", ("cuda", "hip"))
ANYWHERE: Where = ("all", (*HOST[1], *GPUS[1]))
_FILES = (".mlir", ".flags")
"""What `tuned` is compiled with, by the ends of names."""


@dataclass(frozen=True)
class Library:
    """Another library: the script that its process runs, and how a user gets it."""

    name: str
    install: str
    """The line that brings it; empty: it says so itself."""
    where: Where = ANYWHERE
    """What it computes on."""
    anchor: bool = False
    """It computes on inputs of its own and shows no results: its time is one to go by, and nothing is compared."""

    @property
    def script(self) -> Path:
        return Path(__file__).with_name("libraries") / f"{self.name}_library.py"

    def objection(self, target: Target) -> str:
        """Why it cannot run on that target; empty if it can."""
        words, drivers = self.where
        return (
            ""
            if target.backend.device in drivers
            else f"{self.name} computes on {words}, and the target is {target.name}"
        )


LIBRARIES: Mapping[str, Library] = {
    one.name: one
    for one in (
        Library("numpy", "pip install numpy", HOST),
        Library("torch", "pip install torch"),
        Library("triton", "pip install torch triton", GPUS),
        Library("hipblaslt", "", AMD, anchor=True),
        Library("rocblas", "", AMD, anchor=True),
        Library("onnxruntime", "pip install onnxruntime", HOST),
    )
}
NAMES: tuple[str, ...] = (IREE, TUNED, *LIBRARIES)


@dataclass(frozen=True)
class LeftOut:
    """A backend that takes no part, with the reason and, where something would bring it, that line."""

    name: str
    reason: str
    install: str = ""

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}{f'. Run: {self.install}' if self.install else ''}"

    def to_json(self) -> dict[str, Any]:
        return {"backend": self.name, "reason": self.reason, "install": self.install or None}


@dataclass(frozen=True)
class Terms:
    """What a user wants compared, and how."""

    names: tuple[str, ...] = NAMES
    named: bool = False
    """By the user: one that is not there is an error then, and is left out otherwise."""
    pythons: Mapping[str, Path] = field(default_factory=dict)
    """In which Python a library is, where it is not this one."""
    spec: Path | None = None
    """What `tuned` is compiled with, or a folder with a file of each problem's name; None: the last that won."""
    trust: bool = False
    """Whatever is in that file."""
    onnx: Path | None = None
    """The model as other libraries take it, where IREE is given another file."""
    blocks: int = 6
    """Of timings; fewer give a median no interval of 95 %."""

    def __post_init__(self) -> None:
        spec, onnx = self.spec, self.onnx
        if onnx is not None and not (onnx.suffix == ".onnx" and onnx.is_file()):
            raise UsageError(f"--onnx {onnx} is no ONNX file.", remedy="Name the model's .onnx file.")
        if spec is not None and not (spec.is_dir() or (spec.suffix in _FILES and spec.is_file())):
            raise UsageError(
                f"--spec {spec} is neither a spec (.mlir) nor a flagfile (.flags), nor a folder.",
                remedy="Name one that is there.",
            )

    @classmethod
    def parse(cls, backends: str | None, pythons: Sequence[str] = (), **more: Any) -> Terms:
        """`--backends iree,torch` and `--python torch=/opt/torch/bin/python`."""
        names = NAMES if backends is None else tuple(dict.fromkeys(word.strip() for word in backends.split(",")))
        for name in names:
            if name not in NAMES:
                raise UsageError(f"there is no backend {name!r}.", remedy=f"Choose from: {', '.join(NAMES)}.")
        return cls(names, backends is not None, dict(_python(word, names) for word in pythons), **more)

    def python(self, name: str) -> Path:
        return self.pythons.get(name, Path(sys.executable))

    def tuned(self, problem: str, runs: Sequence[RunRow], target: Target) -> Arm | str:
        """What `tuned` is for a problem or a model that these runs tuned; or why there is nothing, in words."""
        if self.spec is None:
            return _won(runs, target)
        files = [self.spec]
        if self.spec.is_dir():
            files = [self.spec / f"{problem}-{target.name}{ending}" for ending in _FILES]
        there = next((file for file in files if file.is_file()), None)
        return file_arm(there, trust=self.trust) if there else f"{self.spec} has no {files[0].name} or .flags"


def _python(text: str, names: Sequence[str]) -> tuple[str, Path]:
    name, _, path = text.partition("=")
    if name not in LIBRARIES or not path:
        raise UsageError(f"--python {text} is not LIBRARY=PYTHON.", remedy=f"Libraries are: {', '.join(LIBRARIES)}.")
    if name not in names:
        raise UsageError(f"--python {text}: {name} is not among the backends.", remedy="Add it to --backends.")
    file = Path(path).absolute()  # not resolved: a virtual environment is found by the link's own place
    if not file.is_file() or not os.access(file, os.X_OK):
        raise UsageError(f"--python {text}: there is no program {path}.", remedy="Name an interpreter.")
    return name, file


def _won(runs: Sequence[RunRow], target: Target) -> Arm | str:
    """What the last of these runs that won has shipped; or why there is nothing, in words."""
    results = {run.id: run.result or {} for run in runs if run.target == target.name}
    won = {run: result for run, result in results.items() if result.get("verdict") == "win"}
    if not won:
        return "it was tuned, and nothing won" if results else "it was not tuned in this workspace"
    shipped = (result.get(name) for result in won.values() for name in ("flagfile", "spec"))
    there = next((file for file in map(Path, filter(None, shipped)) if file.is_file()), None)
    return file_arm(there) if there else f"the files of run {next(iter(won))} are gone"
