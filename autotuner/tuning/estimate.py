"""What a candidate can be expected to cost where nothing can be timed: an estimate from tiles and machine code.

The score is a time relative to an ideal kernel, the product of five losses, each at least 1:

- waste: work on padding, where tiles do not divide the problem;
- tail: units that idle in the last round of workgroups;
- memory: tiles too small for what they load, from the workgroup's operands or the subgroup's;
- latency: too few independent accumulators in flight to keep the matrix units busy;
- spills: registers that went to memory.

It knows nothing of bank conflicts, caches or instruction order: it ranks, it does not predict.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from iree.compiler import ir

from autotuner.iree.figures import Isa
from autotuner.iree.mlir import Dispatch, text_context, tile_levels
from autotuner.measure.blocks import ratio_text
from autotuner.measure.judgement import Cause
from autotuner.space.dispatch import CompilationInfo
from autotuner.system.text import count
from autotuner.targets import PLAIN, Target
from autotuner.targets.backends.base import KIB, Chip
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE, SEARCHED
from autotuner.tuning.result import FinalVerdict

_WORKGROUP_INTENSITY = 64.0
"""Flops for each byte of operands that a workgroup must do to be fed from the second-level cache (A100, MI300X)."""
_SUBGROUP_INTENSITY = 16.0
"""The same for a subgroup that is fed from shared memory."""
_IN_FLIGHT = 8.0
"""Accumulators in flight on each of a unit's four schedulers that hide the latency of a matrix instruction."""
_SCHEDULERS = 4
_ACCUMULATOR = 16 * 16
_SPILL_COST = 1.0 / 32.0
_BYTES = {"f32": 4.0, "i32": 4.0, "f16": 2.0, "bf16": 2.0, "i8": 1.0, "f4E2M1FN": 0.5}


@dataclass(frozen=True, slots=True)
class Estimate:
    """The losses of a candidate; lower is better."""

    waste: float
    tail: float
    memory: float
    latency: float
    spills: float

    @property
    def score(self) -> float:
        return self.waste * self.tail * self.memory * self.latency * self.spills

    def to_json(self) -> dict[str, float]:
        return {"score": round(self.score, 4), **{name: round(value, 4) for name, value in asdict(self).items()}}


def rank(outcomes: Iterable[Outcome], target: Target) -> list[tuple[Outcome, Estimate]]:
    """What was built and proven, the most promising first; twins of an earlier candidate are left out."""
    ranked = []
    for outcome in outcomes:
        candidate, build = outcome.candidate, outcome.build
        if build is None or not build.ok or outcome.failure or outcome.duplicate_of is not None:
            continue
        if candidate.info is not None and candidate.dispatch is not None:
            ranked.append((outcome, estimate(target, candidate.dispatch, candidate.info, build.isa)))
    return sorted(ranked, key=lambda pair: (pair[1].score, pair[0].candidate.id))


def estimate(target: Target, dispatch: Dispatch, info: CompilationInfo, isa: Isa) -> Estimate:
    """The losses of one configuration, as its tiles and its machine code tell them."""
    if target.backend.on_host:
        return _on_cpu(dispatch, info, units=target.units)
    tiles = _workgroup_tiles(info.lowering_config)
    rows, columns = _rows_and_columns(dispatch, tiles)
    element = _BYTES.get(dispatch.element_types[0], 1.0)
    threads = isa.threads or 256
    wave = isa.wavefront or 32
    subgroups = max(threads // wave, 1)
    resident = _resident_workgroups(isa, target.backend.like(target.arch), threads=threads, subgroups=subgroups)
    groups = _groups(dispatch, tiles)
    side = math.sqrt(rows * columns / subgroups)
    memory = max(
        1.0,
        _WORKGROUP_INTENSITY / (2 * rows * columns / (element * (rows + columns))),
        _SUBGROUP_INTENSITY / (side / element),
    )
    busy = max(min(float(resident), groups / target.units), 1.0)
    accumulators = busy * rows * columns / _ACCUMULATOR / _SCHEDULERS
    spilled = float(isa.vgpr_spills or 0)
    return Estimate(
        waste=_waste(dispatch, tiles),
        tail=_tail(groups, target.units),
        memory=memory,
        latency=max(1.0, math.sqrt(_IN_FLIGHT / accumulators)),
        spills=1.0 + spilled * _SPILL_COST,
    )


def _on_cpu(dispatch: Dispatch, info: CompilationInfo, *, units: int) -> Estimate:
    """Tiles only: the compiler says nothing of a processor's registers."""
    levels = tile_levels(info.lowering_config)
    tiles = levels.get("distribution", ())
    vector = levels.get("vector_common_parallel", tiles)
    rows, columns = _rows_and_columns(dispatch, vector)
    lanes = 16
    vectors = max(columns / lanes, 1.0)
    loads = (rows + vectors) / (rows * vectors)
    return Estimate(
        waste=_waste(dispatch, vector),
        tail=_tail(_groups(dispatch, tiles), units),
        memory=max(1.0, 2 * loads),
        latency=max(1.0, math.sqrt(_IN_FLIGHT / (rows * vectors))),
        spills=1.0,
    )


def _workgroup_tiles(lowering_config: str) -> tuple[int, ...]:
    with text_context():
        return tuple(ir.Attribute.parse(lowering_config).workgroup_tile_sizes)


def _rows_and_columns(dispatch: Dispatch, tiles: tuple[int, ...]) -> tuple[float, float]:
    """A tile of the output as a matrix: columns are the loops that only the second operand shares."""
    role = {"contraction": "n", "convolution": "channel", "attention": "n"}[dispatch.kind]
    inner = dispatch.dims(role)
    sizes = {loop: tile for loop, tile in enumerate(tiles) if tile and loop in dispatch.outputs[0]}
    columns = math.prod(tile for loop, tile in sizes.items() if loop in inner)
    rows = math.prod(tile for loop, tile in sizes.items() if loop not in inner)
    return float(rows), float(columns)


def _parallel(dispatch: Dispatch, tiles: tuple[int, ...]) -> list[tuple[int, int]]:
    """(size, tile) of each loop of the output that is tiled."""
    return [(dispatch.loops[d], tiles[d]) for d in dispatch.outputs[0] if d < len(tiles) and tiles[d]]


def _groups(dispatch: Dispatch, tiles: tuple[int, ...]) -> int:
    return math.prod(-(-size // tile) for size, tile in _parallel(dispatch, tiles))


def _waste(dispatch: Dispatch, tiles: tuple[int, ...]) -> float:
    return math.prod(-(-size // tile) * tile / size for size, tile in _parallel(dispatch, tiles))


def _tail(groups: int, units: int) -> float:
    return -(-groups // units) * units / groups


def _resident_workgroups(isa: Isa, chip: Chip, *, threads: int, subgroups: int) -> int:
    """How many workgroups a compute unit holds at once."""
    if isa.occupancy is not None:
        return max(isa.occupancy * _SCHEDULERS // subgroups, 1)
    limits = [chip.threads // threads]
    if isa.shared_bytes:  # a workgroup cannot have the last KiB of a unit
        limits.append((chip.shared + KIB) // isa.shared_bytes)
    return max(min(limits), 1)


# --- a run without a device --------------------------------------------------------------------------------------

RANKED = 10
"""How many candidates a run without a device reports."""


@dataclass(frozen=True)
class Untimed:
    """The result of a run without a device."""

    verdict: FinalVerdict
    reason: str
    ranked: tuple[tuple[Outcome, Estimate], ...] = ()
    default: Estimate | None = None
    """Of IREE's default; None where its own choice is not one of the space."""
    chosen: Outcome | None = None
    """The most promising candidate; None where the default promises more."""
    cause: Cause | None = None


def without_device(evaluator: Evaluator) -> Untimed:
    """Nothing was timed: the result rests on builds, their proofs and an estimate."""
    plan = evaluator.plan
    if not len(plan.space):
        return Untimed("no-winner", plan.no_knobs, cause="nothing-to-tune")
    ranked = tuple(rank(evaluator.outcomes.values(), plan.target)[:RANKED])
    tried = [o for o in evaluator.outcomes.values() if o.candidate.kind in SEARCHED]
    built = sum(o.built for o in tried)
    if not ranked:
        if not built and all(o.failure is None for o in tried):
            return Untimed("inconclusive", "ran out of time before a candidate was built. Try a longer --budget")
        if not built:
            return Untimed("compile-only", f"none of {count(len(tried), 'candidate')} builds, and none was timed")
        proven = f"{count(built, 'candidate')} built and proven, none timed"
        return Untimed("compile-only", f"{proven}; the estimate ranks none of them")
    default, best = default_estimate(evaluator), ranked[0]
    proven = f"{count(built, 'candidate')} built and proven, none timed"
    if default is None:
        return Untimed("compile-only", f"{proven}; their order is an estimate", ranked, None, best[0])
    if best[1].score > default.score:
        return Untimed("compile-only", f"{proven}; the estimate prefers IREE's default", ranked, default)
    gain = ratio_text(default.score / best[1].score)
    told = "the estimate cannot tell these from IREE's default" if gain == "1.00x" else f"the estimate promises {gain}"
    return Untimed("compile-only", f"{proven}; {told}", ranked, default, best[0])


def default_estimate(evaluator: Evaluator) -> Estimate | None:
    """The estimate of the compiler's own choice, with its machine code."""
    plan, baseline = evaluator.plan, evaluator.outcomes.get(BASELINE)
    if baseline is None or baseline.build is None or not baseline.build.ok:
        return None
    for config in plan.first:
        own = plan.candidate(config, id="default")
        if own.kind == "codegen" and own.route == PLAIN and own.info is not None and own.dispatch is not None:
            return estimate(plan.target, own.dispatch, own.info, baseline.build.isa)
    return None
