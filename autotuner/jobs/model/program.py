"""A whole model as IREE's tools take it: where it is, how it is called, how it is compiled, what it computes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from autotuner.build import Builder, BuildJob
from autotuner.errors import UsageError
from autotuner.iree.compile import CONFIGURED, ROOT_ATTRIBUTES, Compile, Compiled, Dump, compile_program, inspect
from autotuner.iree.run import Invocation
from autotuner.iree.tools import Tools
from autotuner.jobs.model.benchmark_file import ENDING, import_benchmark
from autotuner.jobs.model.dispatch import random_tensors
from autotuner.jobs.model.onnx_import import import_onnx
from autotuner.jobs.model.signature import Argument, Signature
from autotuner.problems import Operand
from autotuner.problems.dtypes import element_type, known_type
from autotuner.specfiles.vetting import vet_program
from autotuner.system.cache import Cache
from autotuner.system.digests import known_digest
from autotuner.system.parsing import read_npy
from autotuner.system.text import short

FORMATS = (".mlir", ".mlirbc", ".onnx")
_READ: tuple[Dump, ...] = ("configurations", "phases")
"""What tells a model's dispatches."""
_BETWEEN = re.compile(r"[\s,\[\]]+")
"""What stands between the values of an input."""
_DUMPS: tuple[Dump, ...] = (*_READ, "benchmarks", "binaries")
"""Of executables that are substituted the configurations are those before; of some there is no benchmark."""


def refuse_no_model(path: Path) -> None:
    """Before anything else is done for it."""
    if path.suffix not in FORMATS:
        raise UsageError(
            f"{path} is no model: its name ends in none of {', '.join(FORMATS)}.", remedy="Export it to one of these."
        )
    if not path.is_file():
        raise UsageError(f"there is no model {path}.", remedy="Check the path.")


@dataclass(frozen=True)
class Program:
    """A model's file and what the user said of how to call it."""

    path: Path
    name: str
    function: str | None = None
    inputs: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        folder: Path,
        tools: Tools | None = None,
        trust: bool = False,
    ) -> Program:
        """The model at `path`; one in ONNX, and a dispatch's benchmark, is imported into `folder` first.

        Without `trust` one that could start a program or write a file is refused.
        """
        refuse_no_model(path)
        name = program_name(path)
        source = path.absolute()
        if path.suffix == ".onnx":
            source = import_onnx(source, folder, name=name)
        elif path.name.endswith(ENDING):
            source = import_benchmark(source, folder, name=name)
        if not trust:
            vet_program(source, tools or Tools.find())
        return cls(source, name)

    def called(
        self, *, function: str | None = None, inputs: Sequence[str] = (), parameters: Sequence[str] = ()
    ) -> Program:
        """The same, called as the user says."""
        return replace(
            self, function=function, inputs=tuple(inputs), parameters=tuple(map(_parameter_file, parameters))
        )

    def reads(self) -> list[str]:
        """Digests of the files that a call of it reads: parameters and inputs."""
        named = [text.rpartition("=")[2] for text in self.parameters]
        named += [text.rpartition("@")[2] for text in self.inputs if "@" in text]
        return [known_digest(path) for path in map(Path, named) if path.is_file()]

    @cached_property
    def digest(self) -> str:
        return known_digest(self.path)

    def describe(self, *, flops: int) -> dict[str, object]:
        """The `problem` object of the JSON document."""
        size = self.path.stat().st_size
        return {"op": "model", "name": self.name, "flops": flops, "bytes": size, "sha256": self.digest}


def _parameter_file(text: str) -> str:
    """`[SCOPE=]FILE` with the whole path: who reads it may be in another folder."""
    scope, defines, file = text.rpartition("=")
    if not Path(file).is_file():
        raise UsageError(
            f"--parameters {text}: there is no file {file}.", remedy="Give --parameters [SCOPE=]FILE.irpa."
        )
    return f"{scope}{defines}{Path(file).absolute()}"


def check_call(program: Program, signature: Signature) -> list[tuple[str, Operand | None]]:
    """The inputs, as `check_inputs` has them; refuses a call that lacks something, or has what does not fit."""
    _check_imports(program, signature.imports)
    _check_types(signature)
    _check_parameters(program, signature.scopes)
    return check_inputs(program, signature)


def _check_imports(program: Program, imports: Sequence[str]) -> None:
    """What is in another module, nobody gives here."""
    if imports:
        raise UsageError(
            f"{program.name} calls {imports[0]}, which is in another module.",
            remedy="Link the modules into one program (iree-link), or give --device none.",
        )


def _check_types(signature: Signature) -> None:
    """Tensors, numbers and storage for results can be made here, and nothing else."""
    if signature.foreign:
        raise UsageError(
            f"{signature.function} takes or gives {', '.join(signature.foreign)}, which cannot be made or read here.",
            remedy="Export it with tensors instead, fences only where iree-compile adds them; or give --device none.",
        )


def _check_parameters(program: Program, scopes: Sequence[str]) -> None:
    """What the program loads, some file must give."""
    given = {text.rpartition("=")[0] for text in program.parameters}
    missing = [scope for scope in scopes if scope not in given]
    if missing:
        what = " and ".join(f"of the scope {scope!r}" if scope else "without a scope" for scope in missing)
        how = " ".join(f"--parameters {scope}=FILE.irpa" if scope else "--parameters FILE.irpa" for scope in missing)
        raise UsageError(f"{program.name} loads parameters {what}, and no file gives them.", remedy=f"Give {how}.")


def program_name(path: Path) -> str:
    """What results and outputs call the model in this file."""
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in path.stem)


def call_of(program: Program, signature: Signature, folder: Path, *, seed: int) -> tuple[Invocation, tuple[str, ...]]:
    """How the model's function is called, and what the user must know of it.

    Inputs are as the user gave them; what has only a shape is filled with seeded numbers.
    """
    inputs = zip(check_call(program, signature), signature.arguments, strict=True)
    folder.mkdir(parents=True, exist_ok=True)
    texts, whole = [], False
    for number, ((text, operand), argument) in enumerate(inputs):
        if operand is None:
            texts.append(f"&{text}" if argument.buffer else text)
            continue
        path = folder / f"input{number}.bin"
        random_tensors((operand,), seed + number)[0].tofile(path)
        texts.append(f"{'&' if argument.buffer else ''}{operand.text}=@{path}")
        whole |= not operand.element.is_float and argument.role == "read"
    notes = ("whole-number inputs are filled with 0 and 1: give --input with values where they matter",)
    call = Invocation(signature.function, tuple(texts), signature.results, program.parameters)
    return call, notes if whole else ()


def check_inputs(program: Program, signature: Signature) -> list[tuple[str, Operand | None]]:
    """Each input as the user gave it, or by the function's types; with what is to be filled where it has no values."""
    given = signature.placed(program.inputs, made=lambda argument: argument.text)
    if not given:
        lacking = [a.text for a in signature.arguments if a.dynamic]
        if lacking:
            raise UsageError(
                f"{program.name} takes {', '.join(lacking)}: these sizes are not known.",
                remedy="Give --input SHAPExTYPE (or =VALUES, or @FILE.npy) for each input, in order.",
            )
        given = tuple(a.text for a in signature.arguments)
    if len(given) != len(signature.arguments):
        wanted = ", ".join(a.text for a in signature.arguments) or "none"
        raise UsageError(
            f"{signature.function} takes {len(signature.arguments)} inputs ({wanted}), not {len(given)}.",
            remedy="Give --input once for each, in order.",
        )
    return [_given(text, argument) for text, argument in zip(given, signature.arguments, strict=True)]


def _given(text: str, argument: Argument) -> tuple[str, Operand | None]:
    """`&`, which IREE's tools want before what is passed as a bare buffer, may be there or not."""
    text = text.removeprefix("&") if argument.buffer else text
    if argument.buffer and text.startswith("@"):
        raise UsageError(
            f"--input {text}: this input is a bare !hal.buffer, which has no shape.",
            remedy="Give SHAPExTYPE=@FILE.bin.",
        )
    return text, _shaped(text, argument)


def input_shapes(given: Sequence[str]) -> list[tuple[int, ...] | None]:
    """The shapes of the inputs as the user gave them; None where the text does not say."""
    shapes: list[tuple[int, ...] | None] = []
    for text in given:
        shape, found, path = text.removeprefix("&").partition("@")
        if found and not shape.strip("=") and path.endswith(".npy"):
            shapes.append(_npy_shape(Path(path)))
            continue
        sizes = shape.partition("=")[0].split("x")[:-1]
        shapes.append(tuple(map(int, sizes)) if all(s.isascii() and s.isdigit() for s in sizes) else None)
    return shapes


def _npy_shape(path: Path) -> tuple[int, ...] | None:
    try:
        return tuple(read_npy(path, mapped=True).shape)
    except (OSError, ValueError):
        return None  # the tools that run the model will say what is wrong with it


def _shaped(text: str, argument: Argument) -> Operand | None:
    """The operand that `1x3x224x224xf32` means; None when the text has values of its own."""
    if "=" in text or "@" in text:
        _check_valued(text, argument)
        return None
    if argument.shape is None and _is_number(text):
        return None
    *sizes, element = text.lower().split("x")
    exact = next((name for name in (element, argument.element) if name.lower() == element and known_type(name)), None)
    if exact is None or not all(size.isascii() and size.isdigit() and int(size) > 0 for size in sizes):
        raise UsageError(
            f"--input {text} is not SHAPExTYPE.", remedy="Such as 1x3x224x224xf32, 1x3xf32=1 2 3 or @image.npy."
        )
    shape = tuple(map(int, sizes))
    _fit(text, shape, argument)
    _fit_type(text, exact, argument)
    return Operand(shape, element_type(exact))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fit(text: str, shape: tuple[int, ...], argument: Argument) -> None:
    wanted = argument.shape
    if wanted is None or argument.role == "unread":
        return
    if len(shape) != len(wanted) or any(b not in (None, a) for a, b in zip(shape, wanted, strict=True)):
        raise UsageError(
            f"--input {text} does not fit the model's input, which is {argument.text}.",
            remedy="Give the sizes that the model takes.",
        )


def _fit_type(text: str, element: str, argument: Argument) -> None:
    """Whole numbers of one width may stand for each other: a sign is not looked at, and a truth value is a byte."""
    if argument.role == "unread" or not (known_type(element) and known_type(argument.element)):
        return
    given, wanted = element_type(element), element_type(argument.element)
    same = given == wanted if given.is_float or wanted.is_float else max(8, given.bits) == max(8, wanted.bits)
    if not same:
        raise UsageError(
            f"--input {text} is {element}, and the model's input is {argument.text}.",
            remedy="Give the type that the model takes.",
        )


def _check_valued(text: str, argument: Argument) -> None:
    """Its values are for IREE's tools to read; that its file is there and its shape fits can be told here."""
    named = text.partition("@")[2].partition("+")[0]
    if named and not Path(named).is_file():
        raise UsageError(f"--input {text}: there is no file {named}.", remedy="Is the path right?")
    (shape,) = input_shapes([text])
    if shape is None:
        return
    _fit(text, shape, argument)
    form, typed, values = text.partition("=")
    if not typed:
        return
    _fit_type(text, form.rpartition("x")[2], argument)
    words = [] if "@" in values else [word for word in _BETWEEN.split(values) if word]
    count = math.prod(shape)
    if words and len(words) not in (1, count):
        raise UsageError(
            f"--input {short(text)} has {len(words)} values, not {count}.", remedy="Give all of them, or one for all."
        )
    if strange := next((word for word in words if not _is_number(word)), None):
        raise UsageError(f"--input {short(text)}: {short(strange)} is no number.", remedy="Give numbers.")


@dataclass(frozen=True)
class ProgramBuilder:
    """Compiles one model, again and again, with different flags."""

    tools: Tools
    cache: Cache
    program: Program

    def preprocessed(self, flags: Iterable[str], *, timeout: float) -> str:
        """The program as it goes into IREE's own pipelines, without its weights."""
        return inspect(Compile(self.program.path, tuple(flags), timeout, stop="preprocessing"), self.tools).text

    def configured(self, flags: Sequence[str], *, timeout: float) -> Compiled:
        """The program up to where its dispatches are configured: there is no module of it."""
        return self._builder.build(replace(self.job(flags, timeout=timeout), stop=CONFIGURED, dumps=_READ))

    def build(self, flags: Sequence[str], *, timeout: float) -> Compiled:
        """A module, remembered by the model, the flags and the files that these name."""
        return self._builder.build(self.job(flags, timeout=timeout))

    def module(self, flags: Sequence[str], *, timeout: float) -> Compiled:
        """A module that is only called: nothing is read of how it came about."""
        return self._builder.build(BuildJob(self.program.path, tuple(flags), timeout, dumps=()))

    def build_fresh(self, flags: Sequence[str], *, folder: Path, timeout: float) -> Compiled:
        """A module in `folder`, with what must be known to prove what is in it."""
        return compile_program(self.job(flags, timeout=timeout), self.tools, folder)

    def build_shipped(self, flagfile: Path, *, folder: Path, timeout: float) -> Compiled:
        """The same by a flagfile and nothing else, as a user does it."""
        job = replace(self.job((), timeout=timeout), flags=(f"@{flagfile}",))
        return compile_program(job, self.tools, folder)

    def job(self, flags: Sequence[str], *, timeout: float) -> BuildJob:
        """Its dispatches say which operation each is about: that changes nothing in the module."""
        return BuildJob(self.program.path, (*flags, ROOT_ATTRIBUTES), timeout, dumps=_DUMPS)

    def command(self, flags: Sequence[str], *, vmfb: Path) -> tuple[str, ...]:
        """What makes the module by hand."""
        return Compile(self.program.path, tuple(flags), 0.0).by_hand(self.tools, output=str(vmfb))

    @property
    def _builder(self) -> Builder:
        return Builder(self.tools, self.cache)
