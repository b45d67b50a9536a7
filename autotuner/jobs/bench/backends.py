"""What a problem can be timed on: IREE by default and tuned, and other libraries, each in a process of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import Arm, FlagfileArm, SpecArm, parse_arm
from autotuner.store.rows import RunRow
from autotuner.targets import Target

IREE, TUNED, HIPBLASLT = "iree", "tuned", "hipblaslt"
BLOCKS, MOST_BLOCKS = 6, 1000
"""The fewest that give a median an interval of 95 %; and the most that can be meant."""


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
        where = "GPUs" if on_host and not self.on_host else "the processor" if not on_host and not self.on_gpu else ""
        if self.name == HIPBLASLT and HIPBLASLT not in target.backend.libraries:
            where = "AMD GPUs"
        return f"{self.name} computes on {where}, and the target is {target.name}" if where else ""


LIBRARIES: Mapping[str, Library] = {
    one.name: one
    for one in (
        Library("numpy", "pip install numpy", on_gpu=False),
        Library("torch", "pip install torch"),
        Library("triton", "pip install torch triton", on_host=False),
        Library("onnxruntime", "pip install onnxruntime onnx", on_gpu=False),
        Library(HIPBLASLT, "apt install hipblaslt-benchmarks", on_host=False),
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
        own = f"it {self.reason.removeprefix(self.name).lstrip()}" if self.reason.startswith(self.name) else self.reason
        return f"{self.name} is left out: {own}{f'. Run: {self.install}' if self.install else ''}"

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
    scripts = [library for library in LIBRARIES if library != HIPBLASLT]
    if name not in scripts or not path:
        names = ", ".join(scripts)
        raise UsageError(f"--python {text} is not LIBRARY=PYTHON.", remedy=f"The libraries are: {names}.")
    if name not in chosen:
        raise UsageError(f"--python {text}: {name} is not among the backends.", remedy="Add it to --backends.")
    file = Path(path).absolute()  # not resolved: a virtual environment is found by the link's own place
    if not file.is_file() or not os.access(file, os.X_OK):
        raise UsageError(f"--python {text}: there is no program {path}.", remedy="Name an interpreter.")
    return name, file


# --- what `tuned` is --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SpecFolder:
    """Specs of several problems, by the names under which they are shipped."""

    path: Path
    workspace: Path
    trust: bool

    @property
    def reads(self) -> tuple[Path, ...]:
        return (self.path,)

    def arm(self, problem: str, target: Target) -> Arm | str:
        """The one of this problem, or why there is none, in words."""
        shipped = [self.path / f"{problem}-{target.name}{ending}" for ending in (".mlir", ".flags")]
        for file in (file for file in shipped if file.is_file()):
            return parse_arm(str(file), workspace=self.workspace, trust=self.trust)
        return f"{self.path} has no {shipped[0].name} or .flags"


def given_arm(path: Path | None, *, workspace: Path, trust: bool) -> Arm | SpecFolder | None:
    """`--spec FILE`: a spec (.mlir) or a flagfile (.flags); or a folder of specs."""
    if path is None:
        return None
    if path.is_dir():
        return SpecFolder(path, workspace, trust)
    if path.suffix not in (".mlir", ".flags"):
        raise UsageError(
            f"--spec {path} is neither a spec (.mlir) nor a flagfile (.flags), nor a folder.",
            remedy="Name one of them.",
        )
    return parse_arm(str(path), workspace=workspace, trust=trust)


def won_arm(runs: Sequence[RunRow], target: Target) -> Arm | str:
    """What the last of these runs that won has shipped; or why there is nothing, in words."""
    won = [run for run in runs if run.target == target.name and (run.result or {}).get("verdict") == "win"]
    if not won:
        tuned = any(run.target == target.name for run in runs)
        return "it was tuned, and nothing won" if tuned else "it was not tuned in this workspace"
    for run in won:
        shipped = {name: (run.result or {}).get(name) for name in ("flagfile", "spec")}
        flagfile, spec = (Path(path) if path else None for path in shipped.values())
        if flagfile is not None and flagfile.is_file():
            return FlagfileArm(str(flagfile), flagfile.absolute())
        if spec is not None and spec.is_file():
            return SpecArm(str(spec), spec.absolute())
    return f"the files of run {won[0].id} are gone"


@dataclass(frozen=True)
class Terms:
    """How a user wants things compared, whatever they are."""

    chosen: Chosen = field(default_factory=Chosen)
    arm: Arm | SpecFolder | None = None
    """What `tuned` is made of; None: the last that won in the workspace."""
    blocks: int = BLOCKS
    csv: Path | None = None
    onnx: Path | None = None
    """The model as other libraries take it, where IREE is given another file."""

    def __post_init__(self) -> None:
        if self.onnx is not None and not (self.onnx.suffix == ".onnx" and self.onnx.is_file()):
            raise UsageError(f"--onnx {self.onnx} is no ONNX file.", remedy="Name the model's .onnx file.")
        if not 1 <= self.blocks <= MOST_BLOCKS:
            raise UsageError(
                f"--blocks {self.blocks} is not between 1 and {MOST_BLOCKS}.", remedy=f"{BLOCKS} is the default."
            )

    def tuned(self, problem: str, runs: Sequence[RunRow], target: Target) -> Arm | str:
        """What `tuned` is for a problem or a model that these runs tuned; or why there is nothing, in words."""
        if TUNED not in self.chosen.names:
            return "it is not asked for"
        if isinstance(self.arm, SpecFolder):
            return self.arm.arm(problem, target)
        return self.arm or won_arm(runs, target)
