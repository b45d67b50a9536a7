"""The sides of an experiment, as users name them: a microkernel, a spec, a flagfile, IREE's default.

Each is an object that says how it is compiled and what it is made of. Nobody else asks which kind it is.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

from autotuner.carriers.carrier import FLAGS
from autotuner.errors import UsageError
from autotuner.jobs.ab.kernels import with_kernel
from autotuner.jobs.ab.recipe import ArmSite, Recipe, read_arm_spec
from autotuner.microkernels.instance import own_folder, search_folders
from autotuner.microkernels.library import find
from autotuner.microkernels.own import adopt
from autotuner.microkernels.variants import Kernel
from autotuner.problems.operations import OPERATIONS
from autotuner.specfiles.check import objects_folder, refuse_executables
from autotuner.specfiles.flagfile import Flagfile, name_of

ArmKind = Literal["default", "microkernel", "spec", "flagfile"]


@dataclass(frozen=True)
class Arm(ABC):
    """One side."""

    name: str
    """As the user wrote it."""

    kind: ClassVar[ArmKind]

    @property
    def reads(self) -> tuple[Path, ...]:
        """The files and folders that it is made of."""
        return ()

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The microkernels that it brings; where it wins, their files are written."""
        return ()

    @property
    def code(self) -> Literal["codegen", "microkernel"]:
        """Who makes the machine code."""
        return "microkernel" if self.kernels else "codegen"

    @abstractmethod
    def recipe(self, at: ArmSite) -> Recipe:
        """How it is compiled, with the proof that what it brings arrives."""


@dataclass(frozen=True)
class DefaultArm(Arm):
    """IREE as it is."""

    name: str = "default"

    kind = "default"

    def recipe(self, at: ArmSite) -> Recipe:
        return at.plain


@dataclass(frozen=True)
class MicrokernelArm(Arm):
    """A hand-written kernel in the place of what it computes."""

    kernel: Kernel
    folder: Path
    """Where its manifest is."""

    kind = "microkernel"

    @property
    def reads(self) -> tuple[Path, ...]:
        return (self.folder, *self.kernel.objects)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        return (self.kernel,)

    def recipe(self, at: ArmSite) -> Recipe:
        return with_kernel(at, self.kernel)


@dataclass(frozen=True)
class FileArm(Arm):
    """Something that the user has a file of."""

    path: Path
    trust: bool = False
    """Compile with whatever is in it."""

    @property
    def reads(self) -> tuple[Path, ...]:
        return (self.path,)


@dataclass(frozen=True)
class FlagfileArm(FileArm):
    """A file of flags, and the specs that these name."""

    kind = "flagfile"

    def recipe(self, at: ArmSite) -> Recipe:
        flagfile = Flagfile.read(self.path, trust=self.trust, known=at.target.user_flags)
        # What it names and is not there is beside it: files are moved together.
        flagfile = flagfile.found_in(self.path.parent)
        if not flagfile.flags:
            raise UsageError(f"{self.path} has no flags.", remedy="It has one --flag=value a line.")
        if not self.trust:
            refuse_executables(flagfile)
        flags = at.with_flags(flagfile.flags, path=self.path)
        recipe = replace(at.plain, flags=flags, flagfile=self.path, carrier=FLAGS.name)
        others = at.with_flags(flagfile.others, path=self.path)
        objects = next(map(Path, flagfile.folders), None)
        for name, value in flagfile.carriers:
            recipe = at.proven(recipe, Path(value), others, flag=name, objects=objects, trust=self.trust)
        return recipe


@dataclass(frozen=True)
class SpecArm(FileArm):
    """A spec, with the flagfile beside it where there is one."""

    kind = "spec"

    def recipe(self, at: ArmSite) -> Recipe:
        beside = Flagfile.beside(self.path, trust=self.trust, known=at.target.user_flags)
        others = at.with_flags(beside.others, path=beside.path) if beside else at.plain.flags
        file = read_arm_spec(self.path, trust=self.trust)
        objects = objects_folder(self.path, beside).absolute()
        carriers = file.flags(self.path, spec_flag=at.target.spec_flag, objects=objects)
        recipe = replace(at.plain, flags=(*others, *carriers), flagfile=beside.path if beside else None)
        folder = objects if file.carrier.brings_objects else None
        return at.proven(recipe, self.path, others, flag=name_of(carriers[0]), objects=folder, trust=self.trust)


DEFAULT = DefaultArm()


def file_arm(path: Path, *, trust: bool = False) -> FileArm:
    """A flagfile (.flags) or a spec."""
    kind = FlagfileArm if path.suffix == ".flags" else SpecArm
    return kind(str(path), path.absolute(), trust)


def parse_arm(
    text: str, *, workspace: Path, objects: Sequence[Path] = (), symbol: str | None = None, trust: bool = False
) -> Arm:
    """`default`, `@FILE` or FILE.flags, FILE.mlir, FILE.c, or a microkernel's name."""
    if text == DEFAULT.name:
        return DEFAULT
    if text.startswith("@") or text.endswith(".flags"):
        return FlagfileArm(text, _file(text.removeprefix("@"), "a flagfile"), trust)
    if text.endswith(".mlir"):
        return SpecArm(text, _file(text, "a spec"), trust)
    if text.endswith(".c"):
        text = adopt(_file(text, "a kernel in C"), own_folder(workspace))
    if os.sep in text:
        raise UsageError(
            f"{text} is no arm.",
            remedy="An arm is a microkernel, a kernel (.c), a spec (.mlir) or a flagfile (.flags).",
        )
    manifest = find(text, search_folders(workspace), OPERATIONS)
    return MicrokernelArm(text, Kernel(text, tuple(objects), symbol, trust), manifest.file.parent)


def _file(text: str, what: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise UsageError(f"there is no file {text or '(an empty name)'} ({what}).", remedy="Check the path.")
    return path.absolute()
