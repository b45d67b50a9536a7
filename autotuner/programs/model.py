"""A model: the user's words, the file that IREE's tools take, its call, and its compiles."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.build import Builder, BuildJob
from autotuner.carriers.outputs import files_in
from autotuner.errors import UsageError
from autotuner.iree.compile import (
    CONFIGURED,
    ROOT_ATTRIBUTES,
    Compile,
    Compiled,
    Dump,
    compile_program,
    inspect,
)
from autotuner.iree.run import Invocation
from autotuner.iree.tools import Tools
from autotuner.problems import Operand
from autotuner.problems.accuracy import Precision
from autotuner.programs.dispatch import random_tensors
from autotuner.programs.imports import ENDING, import_benchmark, import_onnx, input_names
from autotuner.programs.inputs import check_inputs, in_order, input_file, load_array, refuse_absent
from autotuner.programs.signature import Signature
from autotuner.specfiles.vetting import vet_program
from autotuner.system.cache import Cache
from autotuner.system.digests import known_digest
from autotuner.system.parsing import write_raw
from autotuner.system.workspace import Workspace, checked_name
from autotuner.targets import Target

FORMATS = (".mlir", ".mlirbc", ".onnx")
_PARAMETERS = (".irpa", ".gguf", ".safetensors")
"""Suffixes of parameter files that IREE's runtime reads."""
_READ: tuple[Dump, ...] = ("configurations", "phases")
"""The dumps that a model's dispatches are read from."""
_DUMPS: tuple[Dump, ...] = (*_READ, "benchmarks", "binaries")
"""All dumps: configurations of substituted executables are those before, and some have no benchmark."""


def refuse_no_model(path: Path) -> None:
    """Refuses a file that is no model, before anything else is done."""
    if path.suffix not in FORMATS:
        raise UsageError(
            f"{path} is no model: its name ends in none of {', '.join(FORMATS)}.", remedy="Export it to one of these."
        )
    if not path.is_file():
        raise UsageError(f"there is no model {path}.", remedy="Check the path.")


@dataclass(frozen=True)
class Model:
    """A model as the user names it: the file, its call, the routes, and how much of it to tune."""

    path: Path
    function: str | None = None
    inputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    top: int | None = None
    min_share: float = 1.0
    """Per cent."""
    tolerance: float | None = None
    trust: bool = False
    """Compile it without vetting."""
    allow: Precision = ""
    expected: tuple[Path, ...] = ()
    """Files of the expected outputs, one for each."""
    program: Path | None = None
    """The file that iree-compile takes; None: the model is not opened yet."""

    def __post_init__(self) -> None:
        if self.top is not None and self.top < 1:
            raise UsageError(f"--top {self.top} is not positive.", remedy="Give --top 1 or more.")
        if not 0 <= self.min_share <= 100:
            raise UsageError(f"--min-share {self.min_share:g} is no percentage.", remedy="Give 0 to 100.")
        if self.tolerance is not None and not 0 <= self.tolerance < math.inf:
            raise UsageError(f"--tolerance {self.tolerance:g} is no relative error.", remedy="Give 0 or more.")
        for route in self.routes:
            checked_name(route.partition("=")[0].strip(), what="a route")

    @property
    def name(self) -> str:
        return program_name(self.path, self.function)

    @property
    def source(self) -> Path:
        """What iree-compile takes."""
        return self.program or self.path.absolute()

    def opened(self, *, folder: Path, tools: Tools | None = None) -> Model:
        """The model, ready to be compiled and called; ONNX and dispatch benchmarks are imported into `folder`.

        One that could start a program or write a file is refused, unless it is trusted.
        """
        refuse_no_model(self.path)
        name, source, known = program_name(self.path), self.path.absolute(), list[str]()
        if self.path.suffix == ".onnx":
            source = import_onnx(source, folder, name=name)
            known = input_names(source)
        if self.path.name.endswith(ENDING):
            source = import_benchmark(source, folder, name=name)
        if not self.trust:
            vet_program(source, tools or Tools.find())
        inputs, parameters = map(_findable, in_order(self.inputs, known)), map(_parameter_file, self.parameters)
        return replace(self, program=source, inputs=tuple(inputs), parameters=tuple(parameters))

    def opened_in(self, workspace: Workspace, tools: Tools) -> Model:
        """The opened model of a workspace."""
        return self.opened(folder=workspace.candidates / "models", tools=tools)

    def reads(self) -> list[str]:
        """Digests of the files that a call reads: parameters and inputs."""
        named = [text.rpartition("=")[2] for text in self.parameters]
        files = [*map(Path, named), *filter(None, map(input_file, self.inputs))]
        return [known_digest(path) for path in files if path.is_file()]

    def describe(self, *, flops: int) -> dict[str, object]:
        """The `problem` object of the JSON document: the program, and the accepted precision."""
        size, digest = self.source.stat().st_size, known_digest(self.source)
        found = {"op": "model", "name": self.name, "flops": flops, "bytes": size, "sha256": digest}
        return found | ({"allow_precision": self.allow} if self.allow else {})

    def check_words(self) -> None:
        """Refuses wrong options before the model is read."""
        for text in self.inputs:
            refuse_absent(text)
        for path in self.expected:
            load_array(path, f"--expected {path}")
        for text in self.parameters:
            if not text.endswith(_PARAMETERS):
                raise UsageError(
                    f"--parameters {text}: its name ends in none of {', '.join(_PARAMETERS)}.",
                    remedy="Give --parameters [SCOPE=]FILE.irpa.",
                )

    def leaves_out(self, share: float, *, chosen: int) -> str:
        """Why a dispatch of this share, after so many others, is not tuned; empty: it is."""
        if self.top is None:
            return f"less than {self.min_share:g} % of the time (--min-share)" if 100 * share < self.min_share else ""
        return f"not among the first {self.top} (--top)" if chosen >= self.top else ""

    def files(self, target: Target) -> Iterator[Path]:
        """The files that the command names and reads."""
        yield self.path
        yield from self.expected
        yield from files_in([*self.inputs, *self.parameters, *target.user_flags, *self.routes])


def _parameter_file(text: str) -> str:
    """`[SCOPE=]FILE` with the absolute path: it may be read from another folder."""
    scope, defines, file = text.rpartition("=")
    if not Path(file).is_file():
        raise UsageError(
            f"--parameters {text}: there is no file {file}.", remedy="Give --parameters [SCOPE=]FILE.irpa."
        )
    return f"{scope}{defines}{Path(file).absolute()}"


def _findable(text: str) -> str:
    """An input with the absolute path of its file: it may be read from another folder."""
    path = input_file(text)
    return f"{text.partition('@')[0]}@{path.absolute()}" if path is not None else text


def check_call(program: Model, signature: Signature) -> list[tuple[str, Operand | None]]:
    """The inputs of `check_inputs`; refuses a call that lacks something or does not fit."""
    _check_imports(program, signature.imports)
    _check_types(signature)
    _check_parameters(program, signature.scopes)
    return check_inputs(program.inputs, signature, name=program.name)


def _check_imports(program: Model, imports: Sequence[str]) -> None:
    """Refuses imports from other modules."""
    if imports:
        raise UsageError(
            f"{program.name} calls {imports[0]}, which is in another module.",
            remedy="Link the modules into one program (iree-link), or give --device none.",
        )


def _check_types(signature: Signature) -> None:
    """Refuses arguments other than tensors and numbers."""
    if signature.foreign:
        raise UsageError(
            f"{signature.function} takes or gives {', '.join(signature.foreign)}, which cannot be made or read here.",
            remedy="Export it with tensors and numbers alone: its dispatches are the same. Or give --device none.",
        )


def _check_parameters(program: Model, scopes: Sequence[str]) -> None:
    """Refuses parameters that no file is given for."""
    given = {text.rpartition("=")[0] for text in program.parameters}
    missing = [scope for scope in scopes if scope not in given]
    if missing:
        what = " and ".join(f"of the scope {scope!r}" if scope else "without a scope" for scope in missing)
        how = " ".join(f"--parameters {scope}=FILE.irpa" if scope else "--parameters FILE.irpa" for scope in missing)
        makes = f" `iree-import-onnx --externalize-params --large-model {program.path.name} -o MODEL.mlir` makes it."
        remedy = f"Give {how}.{makes if program.path.suffix == '.onnx' else ''}"
        raise UsageError(f"{program.name} loads parameters {what}, and no file gives them.", remedy=remedy)


def program_name(path: Path, function: str | None = None) -> str:
    """The model's name in results and outputs; each function that the user names is a model of its own."""
    name = f"{path.stem}_{function}" if function else path.stem
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)


def call_of(program: Model, signature: Signature, folder: Path, *, seed: int) -> tuple[Invocation, tuple[str, ...]]:
    """The invocation of the model's function, and notes for the user.

    Inputs with only a shape are filled with seeded numbers.
    """
    inputs = check_call(program, signature)
    folder.mkdir(parents=True, exist_ok=True)
    texts, whole = [], False
    for number, (text, operand) in enumerate(inputs):
        if operand is None:
            texts.append(text)
            continue
        path = folder / f"input{number}.bin"
        write_raw(random_tensors((operand,), seed + number)[0], path)
        texts.append(f"{operand.text}=@{path}")
        whole |= not operand.element.is_float
    notes = ("whole-number inputs are filled with 0 and 1: give --input with values where they matter",)
    call = Invocation(signature.function, tuple(texts), signature.results, program.parameters)
    return call, notes if whole else ()


def whole_job(program: Path, flags: Sequence[str], *, timeout: float) -> BuildJob:
    """The compile of a model's module and of the dumps that name its dispatches: the cache keeps both.

    Tuner attributes name the operation of each dispatch and leave the module as it is.
    """
    return BuildJob(program, (*flags, ROOT_ATTRIBUTES), timeout, dumps=_DUMPS)


def as_configured(job: BuildJob) -> BuildJob:
    """The compile up to configured dispatches, without a module."""
    return replace(job, stop=CONFIGURED, dumps=_READ)


@dataclass(frozen=True)
class ModelBuilder:
    """Compiles one model with different flags."""

    tools: Tools
    cache: Cache
    program: Model

    def preprocessed(self, flags: Iterable[str], *, timeout: float) -> str:
        """The preprocessed program, with weights elided."""
        return inspect(Compile(self.program.source, tuple(flags), timeout, stop="preprocessing"), self.tools).text

    def build(self, job: BuildJob) -> Compiled:
        """A cached build, by the model, the flags and the files that these name."""
        return Builder(self.tools, self.cache).build(job)

    def build_fresh(self, flags: Sequence[str], *, folder: Path, timeout: float) -> Compiled:
        """A new build in `folder`, with the dumps that prove what is in it."""
        return compile_program(self.job(flags, timeout=timeout), self.tools, folder)

    def build_shipped(self, flagfile: Path, *, folder: Path, timeout: float) -> Compiled:
        """A new build with a flagfile and nothing else, as a user compiles."""
        job = replace(self.job((), timeout=timeout), flags=(f"@{flagfile}",))
        return compile_program(job, self.tools, folder)

    def job(self, flags: Sequence[str], *, timeout: float) -> BuildJob:
        return whole_job(self.program.source, flags, timeout=timeout)

    def command(self, flags: Sequence[str], *, vmfb: Path) -> tuple[str, ...]:
        """The command that makes the module by hand."""
        return Compile(self.program.source, tuple(flags), 0.0).by_hand(self.tools, output=str(vmfb))
