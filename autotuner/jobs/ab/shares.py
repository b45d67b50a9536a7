"""Which dispatches of a model are not the same in both arms, and what part of its time they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from iree.compiler import ir

from autotuner.devices.device import Device
from autotuner.errors import EnvironmentFailure, OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.iree.mlir import by_name, parse, walk
from autotuner.iree.run import Invocation
from autotuner.jobs.ab.racing import ArmRun
from autotuner.jobs.opening import run_timeout
from autotuner.programs.structure import Shares, from_statistics, repeated
from autotuner.system.progress import Clock
from autotuner.tuning.run import Run

_READINGS = 3
_NO_TIME = "no time was left to read what each arm's own dispatches take: a longer --budget would do"
_TRANSLATION = "translation_info"
_NAMES = ("function_ref", "sym_name")
_PLACES = (
    "hal.",
    "arith.constant",
    "arith.index_cast",
    "builtin.module",
    "util.",
    "iree_codegen.load",
    "memref.assume",
    "tensor.empty",
)
"""Operations that say where a dispatch reads and writes, not what it computes: they may stand in another order."""


def note_shares(sides: tuple[ArmRun, ArmRun], run: Run, call: Invocation, *, seconds: float) -> str:
    """Each arm gets the dispatches that the other does not have, and what they take of the whole. Where the figures are
    from; empty where there are none. The verdict is known: what is read here takes the time that is left, about so
    many seconds each time."""
    a, b = sides
    if run.clock.left < seconds:
        run.account.note(_NO_TIME)
        return ""
    try:
        with run.account.clocked("time"):
            found = read_shares(
                run.session.runner, a.module, b.module, call, timeout=run_timeout(run.options), clock=run.clock
            )
    except OutOfTimeError:
        run.account.note(_NO_TIME)
        return ""
    if not found:
        run.account.note(f"{run.session.device} keeps no statistics of dispatches: their shares are not known")
        return ""
    substituted = {*a.how.substituted, *b.how.substituted}
    for side, other, shares in ((a, b, found[0]), (b, a, found[1])):
        names = own_exports(shares, readable(side.module), readable(other.module), substituted=substituted)
        side.exports, side.share = tuple(names), shares.of(names)
    return found[0].how


def read_shares(
    device: Device, a: Compiled, b: Compiled, call: Invocation, *, timeout: float, clock: Clock
) -> list[Shares]:
    """Both arms' dispatches, read in turns, as often as there is time for; empty where the device keeps no
    statistics."""
    readings: list[list[Shares]] = [[], []]
    for _ in range(_READINGS):
        began = clock.elapsed
        for module, found in zip((a, b), readings, strict=True):
            reading = from_statistics(device.dispatch_times(module.vmfb, call, timeout=timeout))
            if reading is None:
                return []
            found.append(reading)
        if clock.left < clock.elapsed - began:
            break
    return [repeated(found) for found in readings]


def own_exports(
    shares: Shares, mine: Mapping[str, str], other: Mapping[str, str], *, substituted: Collection[str] = ()
) -> list[str]:
    """The exports of this arm whose executable the other arm does not have.

    Executables are told by what they compute and how, whatever their number: taking one dispatch out renumbers the
    rest, and moves what they read and write in memory.
    """
    left = Counter(_form(text) for name, text in other.items() if name not in substituted)
    same = []
    for name, text in mine.items():
        form = _form(text)
        if name not in substituted and left[form]:
            left[form] -= 1
            same.append(name)
    return [export for export in shares.us if _executable(export, mine) not in same]


def readable(module: Compiled) -> Mapping[str, str]:
    """The configured executables by name, those that others take the place of as they were before: that is what the
    build cache has, too. None where another compiler wrote what the installed bindings do not read."""
    try:
        return by_name(module.dumped.get("configurations", ()))
    except EnvironmentFailure:
        return {}


def _form(text: str) -> tuple[object, ...]:
    """The operations of a configured executable with their types and attributes; not where its bindings lie."""
    with ir.Context() as context:
        module = parse(text, context)  # operations live as long as their module
        return tuple(_described(op) for op in walk(module.operation) if not op.name.startswith(_PLACES))


def _described(op: Any) -> tuple[object, ...]:
    if op.name == "func.func":
        return op.name, str(op.attributes[_TRANSLATION]) if _TRANSLATION in op.attributes else ""
    types = [str(value.type) for value in (*op.operands, *op.results)]
    named = [a for a in (op.attributes[i] for i in range(len(op.attributes))) if a.name not in _NAMES]
    return op.name, *types, *(f"{attribute.name} = {attribute.attr}" for attribute in named)


def _executable(export: str, names: Collection[str]) -> str:
    """An export's name begins with that of its executable."""
    fitting = [name for name in names if export == name or export.startswith(f"{name}_")]
    return max(fitting, key=len, default="")
