"""The dispatches of a model, and the error that rounding explains between two right builds of them.

Each dispatch rounds its result to the type that it is stored in, and its sums to the type that they are added up in;
what one build fuses, another stores in between. These errors are independent of each other, so their squares add up: a
relative error of 0.42·u for each result of unit roundoff u, and of 0.42·u·√(K/2) for sums of K products. Layers may
make errors of earlier ones larger, which `_ROOM` is for. An output in f32 is no more exact than the f16 it came from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from autotuner.build.executor import BuildExecutor
from autotuner.errors import NoCandidateError
from autotuner.iree.compile import FLOW, PREPROCESSED, Compiled, CompilerRefusal, first_error, shell_line
from autotuner.iree.mlir import Dispatch, by_name, resources
from autotuner.iree.run import DispatchTime
from autotuner.problems.accuracy import RMS, UNITS, Precision, lower_precision
from autotuner.problems.operations import OPERATIONS
from autotuner.programs.dispatch import called_flops, group_flops, length
from autotuner.programs.flow import Flow, FlowDispatch, Group, group, read_flow, read_roots, tensor_type
from autotuner.programs.inputs import check_inputs, input_shapes, load_expected
from autotuner.programs.model import Model, ModelBuilder, as_configured, check_call
from autotuner.programs.signature import signature_in
from autotuner.system import process
from autotuner.targets import Target

KINDS: Mapping[str, str] = {operation.kind: name for name, operation in [*OPERATIONS.items()][::-1]}
"""The names on the command line by kinds of root operations: the first of those that have one in common."""
_ROOM = 3.0
_LEAST, _LEAST_F64 = 1e-4, 1e-6
"""The least expected errors of f32 and f64 models."""
STATISTICS = "the runtime's statistics"
_CHECK = "Check the model, --flag and --target."


class NotCompiled(NoCandidateError):
    """The compiler refuses the model."""

    def __init__(self, message: str, *, remedy: str, stderr: str) -> None:
        super().__init__(message, remedy=remedy)
        self.stderr = stderr


@dataclass(frozen=True)
class ModelStructure:
    """A model on one route: its dispatches, grouped by root operation."""

    flow: Flow
    groups: tuple[Group, ...]
    others: tuple[FlowDispatch, ...]
    configured: Mapping[str, str] = field(repr=False)
    """The configured executables by name."""
    preprocessed: str = field(default="", repr=False)
    """The preprocessed program, which a microkernel's spec is matched with."""

    @property
    def ops(self) -> set[str]:
        """Its operations, by their names on the command line."""
        return {KINDS[group.root.kind] for group in self.groups}

    @property
    def flops(self) -> int:
        return sum(map(group_flops, self.groups))


def read_structure(builder: ModelBuilder, flags: Sequence[str], *, target: str, timeout: float) -> ModelStructure:
    """The model's dispatches, from a compile up to configured executables."""
    build = builder.build(as_configured(builder.job(flags, timeout=timeout)))
    return structure_in(build, builder, flags=flags, target=target)


def structure_in(build: Compiled, builder: ModelBuilder, *, flags: Sequence[str], target: str) -> ModelStructure:
    """The model's dispatches, from the dumps of a compile with these flags."""
    model = builder.program
    if not build.ok:
        by_hand = shell_line(builder.command(flags, vmfb=Path("module.vmfb")))
        raise NotCompiled(
            f"iree-compile cannot compile {model.name} for {target}: {first_error(build.stderr)}",
            remedy=f"{_CHECK} The same by hand: {by_hand}",
            stderr=build.stderr,
        )
    (text,), configured = build.dumped[FLOW], build.dumped["configurations"]
    flow = read_flow(text, function=model.function, shapes=input_shapes(model.inputs))
    groups, others = group(flow.pieces, read_roots(configured))
    by_names = by_name(one + resources(text) for one in configured)
    return ModelStructure(flow, groups, others, by_names, build.dumped[PREPROCESSED][0])


def read_beside(
    target: Target, builder: ModelBuilder, executor: BuildExecutor, *, timeout: float, timed: bool, whole: bool = False
) -> ModelStructure:
    """The dispatches, from a compile up to configured executables, while the call is checked beside it.

    `whole`: the compile goes on to the module, which is needed anyway.
    """
    flags = target.compile_flags
    with process.ended_by_an_error():
        job = builder.job(flags, timeout=timeout)
        begun = executor.start(job if whole else as_configured(job))
        with suppress(CompilerRefusal):
            check_program(builder.program, builder.preprocessed(flags, timeout=timeout), timed=timed)
        return structure_in(begun.result(), builder, flags=flags, target=target.name)


def check_program(model: Model, text: str, *, timed: bool) -> None:
    """Refuses a wrong call by the preprocessed program, not after minutes of compiling."""
    signature = signature_in(text, function=model.function)
    if timed:
        check_call(model, signature)
        load_expected(model.expected, signature)
    elif model.inputs:
        check_inputs(model.inputs, signature, name=model.name)


def expected_error(
    groups: Sequence[Group], others: Sequence[FlowDispatch], *, allow: Precision = "", rounded_weights: bool = False
) -> float:
    """The relative error, in the root mean square, that rounding explains between two builds of these dispatches.

    `rounded_weights`: one of the two is a model of a wider type, whose operands were not rounded to this one's.
    """
    pieces = [*(piece for group in groups for piece in group.pieces), *others]
    stored = sum(piece.calls * max((_squared(u) for u in _results(piece)), default=0.0) for piece in pieces)
    summed = sum(group.calls * _sums(group.root, allow) for group in groups)
    if rounded_weights:
        factors = ((group.calls, UNITS.get(group.root.element_types[0], 0.0)) for group in groups)
        summed += sum(2 * calls * _squared(unit) for calls, unit in factors)
    coarsest = max((u for piece in pieces for u in _results(piece)), default=UNITS["f32"])
    least = _LEAST if coarsest >= UNITS["f32"] else _LEAST_F64
    return max(_ROOM * math.sqrt(stored + summed), least)


def _sums(root: Dispatch, allow: Precision) -> float:
    """The squared relative error of an operation's sums."""
    element, acc = root.element_types[0], root.element_types[-1]
    if acc not in UNITS:
        return 0.0
    unit, factors = UNITS[acc], 0.0
    if lower_precision(allow, dtype=element, acc=acc):
        factors = 2 * _squared(UNITS["f16"])
        unit = max(unit, UNITS["f16"] if allow == "f16" else 0.0)
    if root.kind == "attention":  # its weights are rounded to the operands' type on the way
        factors += _squared(UNITS.get(element, 0.0))
    return _squared(unit) * length(root) / 2 + factors


def _squared(unit: float) -> float:
    return (RMS * unit) ** 2


def _results(piece: FlowDispatch) -> Iterable[float]:
    for value in piece.results:
        if value.is_tensor and (element := tensor_type(value)[1]) in UNITS:
            yield UNITS[element]


@dataclass(frozen=True, slots=True)
class Shares:
    """Dispatch times in µs of one call of the model, by the export's name."""

    us: dict[str, float]
    how: str
    estimated: bool = False
    """They are estimates, of which only the proportions count."""

    @property
    def total(self) -> float:
        return sum(self.us.values())

    def of(self, exports: Sequence[str]) -> float:
        """The share of these exports."""
        return sum(self.us.get(name, 0.0) for name in exports) / self.total if self.total else 0.0

    def idle(self, exports: Sequence[str]) -> bool:
        """Whether the runtime counted no call of these exports."""
        return self.how == STATISTICS and not any(name in self.us for name in exports)


def from_statistics(times: Mapping[str, DispatchTime] | None) -> Shares | None:
    """Shares from the runtime's statistics; None where the device keeps none."""
    return Shares({name: time.us for name, time in times.items()}, STATISTICS) if times else None


def repeated(readings: Sequence[Shares]) -> Shares:
    """The least of several readings: other load only adds time."""
    names = dict.fromkeys(name for reading in readings for name in reading.us)
    us = {name: min(reading.us.get(name, 0.0) for reading in readings) for name in names}
    return Shares(us, readings[0].how)


def by_work(groups: Sequence[Group]) -> Shares:
    """Shares estimated from flops: without a device, or before anything is timed."""
    us = {p.export: float(called_flops(p, group.root)) for group in groups for p in group.pieces}
    return Shares(us, "the arithmetic of each: an estimate", estimated=True)
