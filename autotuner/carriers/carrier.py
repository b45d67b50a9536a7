"""Carriers bring a configuration into a compile: flags alone, a tuning spec, a substituted executable, a microkernel.

Each says what it adds to a compile, what must be found in the result, and as which files it is shipped. No other code
asks which kind it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

from autotuner.carriers.calls import KernelCall, kernel_calls
from autotuner.carriers.microkernel import OBJECTS_FLAG, OBJECTS_FOLDER, SPEC_FLAG, object_files
from autotuner.carriers.microkernel import spec_mlir as microkernel_spec
from autotuner.carriers.provenance import Provenance
from autotuner.carriers.render import MARKER, Executable, configure, spec_mlir
from autotuner.iree.compile import Dump
from autotuner.iree.mlir import Dispatch
from autotuner.microkernels.instance import SCRATCH, Call
from autotuner.microkernels.variants import Variants
from autotuner.patterns.forms import Forms
from autotuner.space import Config
from autotuner.space.dispatch import CompilationInfo

FileKind = Literal["tuning", "microkernel", "executable"]
"""The kind of a carrier's file."""
CarrierName = Literal["flags", "spec", "substitution", "microkernel"]
"""The carrier's name in results."""
DUMPS: tuple[Dump, ...] = ("configurations", "binaries")
"""The dumps that prove a compile and identify its binary."""
SUBSTITUTED: tuple[Dump, ...] = ("benchmarks", "binaries")
"""The dumps where an executable is substituted, which happens after configurations are dumped."""


@dataclass(frozen=True)
class FileHeader:
    """The header lines and the provenance of a written file."""

    header: Sequence[str] = ()
    provenance: Provenance | None = None
    each: Sequence[Provenance] = ()
    """The provenance of each entry, where they differ."""


NOTHING = FileHeader()


@dataclass(frozen=True)
class CarriedConfig:
    """What a carrier adds to a compile, as plain data."""

    spec: str | None = None
    spec_flag: str = ""
    """The flag of the spec, up to its last `=`."""
    flags: tuple[str, ...] = ()
    files: tuple[tuple[str, bytes], ...] = ()
    """The files that the flags name."""
    dumps: tuple[Dump, ...] = DUMPS
    expected: CompilationInfo | None = None
    """The configuration that an operation must have in the result."""
    kernels: tuple[KernelCall, ...] = ()
    """The microkernels that must be called."""
    repeatable: bool = True
    """Whether its dispatches may be repeated for timing."""


@dataclass(frozen=True)
class Parts:
    """The contents of the shipped files."""

    carrier: CarrierName = "flags"
    spec: str | None = None
    spec_flag: str = ""
    executables: Mapping[str, str] = field(default_factory=dict)
    """Configured executables by name, for a folder of them."""
    objects: tuple[Path, ...] = ()
    kernels: str | None = None
    """A spec that calls microkernels, beside one that tunes."""

    def with_kernels(self, kernels: Parts) -> Parts:
        """The parts with microkernels, whose spec is the main one where there is no other."""
        if self.spec is None:
            return replace(kernels, executables=self.executables)
        return replace(self, kernels=kernels.spec, objects=kernels.objects)


class Carrier(ABC):
    """How a candidate's configuration gets into a compile."""

    name: ClassVar[CarrierName]
    title: ClassVar[str] = ""
    """The title of its file."""
    file_word: ClassVar[str] = "spec"
    """Its file in one word, for results."""
    only_for: ClassVar[str] = ""
    """A warning for users who want to use it with another program."""
    merges: ClassVar[bool] = True
    """Several of them may share a compile; others belong to one program each."""
    code: ClassVar[Literal["codegen", "microkernel"]] = "codegen"
    """The origin of the machine code."""
    made_here: ClassVar[bool] = False
    """Its code is built by another compiler, which may refuse it."""
    file_kind: ClassVar[FileKind | None] = None
    file_title: ClassVar[str] = ""
    """Its file in words, for `spec show`."""
    brings_objects: ClassVar[bool] = False
    """Its file needs objects beside it, and has no configurations."""
    by_name: ClassVar[bool] = False
    """Its entries are named after the executables that they replace."""
    info: CompilationInfo | None
    """The configuration of the operation."""

    @classmethod
    def file_flags(cls, path: Path, *, names: Sequence[str], spec_flag: str, objects: Path) -> list[str]:
        """The flags that bring its file into a compile; `spec_flag` is the target's for tuning specs."""
        del names, objects
        return [f"{spec_flag}={path}"]

    @abstractmethod
    def carried(self, said: FileHeader = NOTHING) -> CarriedConfig:
        """What it adds to a compile."""

    def parts(self, said: FileHeader = NOTHING) -> Parts:
        """The shipped files, for its own program."""
        carried = self.carried(said)
        return Parts(self.name, carried.spec, carried.spec_flag)

    def parts_in(self, configured: Mapping[str, str], said: FileHeader = NOTHING) -> Parts:
        """The shipped files for a larger program with its dispatch in these configured executables."""
        del configured  # what matches an operation does so wherever it stands
        return self.parts(said)


@dataclass(frozen=True)
class FlagsCarrier(Carrier):
    """The flags of the route alone."""

    name = "flags"
    info = None

    def carried(self, said: FileHeader = NOTHING) -> CarriedConfig:
        del said  # a flagfile has no comments
        return CarriedConfig()


@dataclass(frozen=True)
class SpecCarrier(Carrier):
    """A tuning spec that matches the operation."""

    problem: str
    dispatch: Dispatch
    info: CompilationInfo
    flag: str

    name = "spec"
    title = "Tuning spec"
    file_kind = "tuning"
    file_title = "tuning spec"

    def carried(self, said: FileHeader = NOTHING) -> CarriedConfig:
        text = spec_mlir(
            name=self.problem, dispatch=self.dispatch, info=self.info, header=said.header, provenance=said.provenance
        )
        return CarriedConfig(text, self.flag, expected=self.info)


@dataclass(frozen=True)
class TextCarrier(Carrier):
    """A tuning spec as it was written before, with one entry that says where it comes from."""

    text: str = field(repr=False)
    info: CompilationInfo
    flag: str

    name = "spec"
    title = SpecCarrier.title

    def carried(self, said: FileHeader = NOTHING) -> CarriedConfig:
        head = "".join(f"// {line}\n" for line in said.header)
        return CarriedConfig(head + self.text, self.flag, expected=self.info)


@dataclass(frozen=True)
class SubstitutionCarrier(Carrier):
    """An executable with its configuration in it, for operations that a spec cannot reach."""

    executable: Executable
    info: CompilationInfo
    fused: Mapping[int, str] = field(hash=False)
    """The lowering_config of the operations fused with the root, by the number of their loops."""

    name = "substitution"
    title = "Configured executable, to be substituted,"
    file_word = "executable"
    only_for = "only for this very program: the executable is substituted by its dispatch's name"
    merges = False
    file_kind = "executable"
    file_title = "configured executable, to be substituted by name in one program"
    by_name = True

    @classmethod
    def file_flags(cls, path: Path, *, names: Sequence[str], spec_flag: str, objects: Path) -> list[str]:
        del spec_flag, objects
        return [f"{Executable(name, '').flag}={path}" for name in names]

    def carried(self, said: FileHeader = NOTHING) -> CarriedConfig:
        text = configure(
            self.executable,
            self.info,
            fused=self.fused,
            marker=MARKER,
            header=said.header,
            provenance=said.provenance,
        )
        return CarriedConfig(text, self.executable.flag, dumps=SUBSTITUTED, expected=self.info)

    def parts_in(self, configured: Mapping[str, str], said: FileHeader = NOTHING) -> Parts:
        there = {name: replace(self, executable=Executable(name, text)) for name, text in configured.items()}
        texts = {name: carrier.carried(said).spec for name, carrier in there.items()}
        return Parts(self.name, executables={name: text for name, text in texts.items() if text is not None})


@dataclass(frozen=True)
class MicrokernelCarrier(Carrier):
    """A hand-written kernel in the place of what it computes, and the spec that puts it there."""

    calls: tuple[Call, ...]
    executable_target: str
    """The compiler's executable target, on a processor."""
    forms: tuple[Forms, ...] = ()
    """The forms of each call's problem in the program; empty: those of the problems' own templates."""

    name = "microkernel"
    info = None
    title = "Microkernel spec"
    merges = False
    code = "microkernel"
    file_kind = "microkernel"
    file_title = "microkernel spec"
    brings_objects = True

    @classmethod
    def file_flags(cls, path: Path, *, names: Sequence[str], spec_flag: str, objects: Path) -> list[str]:
        del names, spec_flag
        return [f"{SPEC_FLAG}={path}", f"{OBJECTS_FLAG}={objects}"]

    def carried(self, said: FileHeader = NOTHING) -> CarriedConfig:
        instances = [call.instance for call in self.calls]
        return CarriedConfig(
            self.text(said),
            SPEC_FLAG,
            flags=(f"{OBJECTS_FLAG}={OBJECTS_FOLDER}",),
            files=object_files(instances),
            kernels=kernel_calls(self.calls),
            repeatable=self.repeatable,
        )

    @property
    def repeatable(self) -> bool:
        """Whether its dispatches may be repeated: not if it adds to its result. Scratch is left as zero again
        (`Binding.zeroed`)."""
        bindings = [binding for call in self.calls for binding in call.instance.bindings]
        return not any(binding.zeroed and binding.access != SCRATCH for binding in bindings)

    def parts(self, said: FileHeader = NOTHING) -> Parts:
        objects = dict.fromkeys(path for call in self.calls for path in call.instance.objects)
        return Parts(self.name, self.text(said), SPEC_FLAG, objects=tuple(objects))

    def text(self, said: FileHeader = NOTHING) -> str:
        return microkernel_spec(
            self.calls,
            target=self.executable_target,
            header=said.header,
            provenances=said.each or ([said.provenance] * len(self.calls) if said.provenance else ()),
            forms=self.forms,
        )


@dataclass(frozen=True)
class VariantCarrier(Carrier):
    """A variant of a microkernel: built when it is asked for, where it comes from source."""

    variants: Variants
    config: Config
    executable_target: str

    name = "microkernel"
    info = None
    title = MicrokernelCarrier.title
    merges = False
    code = "microkernel"
    made_here = True

    def carried(self, said: FileHeader = NOTHING) -> CarriedConfig:
        return self.built.carried(said)

    def parts(self, said: FileHeader = NOTHING) -> Parts:
        return self.built.parts(said)

    @property
    def built(self) -> MicrokernelCarrier:
        return MicrokernelCarrier((self.variants.call(self.config),), self.executable_target)


FLAGS = FlagsCarrier()
_KINDS: tuple[type[Carrier], ...] = (FlagsCarrier, SpecCarrier, SubstitutionCarrier, MicrokernelCarrier)


def carrier_named(name: CarrierName | None) -> type[Carrier]:
    """The carrier class of this name; without a name, that of flags."""
    return next((kind for kind in _KINDS if kind.name == name), FlagsCarrier)


def carrier_of_file(kind: FileKind) -> type[Carrier]:
    """The carrier class of this kind of file."""
    return next(one for one in _KINDS if one.file_kind == kind)
