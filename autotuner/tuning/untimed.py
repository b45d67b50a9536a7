"""A run without a device: what was built and proven, ranked by what its machine code promises, beside the default."""

from __future__ import annotations

from dataclasses import dataclass

from autotuner.measure.judgement import Cause
from autotuner.system.text import count
from autotuner.targets import PLAIN
from autotuner.tuning.estimate import Estimate, estimate, rank
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE, SEARCHED
from autotuner.tuning.result import FinalVerdict

RANKED = 10
"""How many candidates a run without a device reports."""


@dataclass(frozen=True)
class Untimed:
    """What a run without a device comes to."""

    verdict: FinalVerdict
    reason: str
    ranked: tuple[tuple[Outcome, Estimate], ...] = ()
    default: Estimate | None = None
    """Of IREE's default; None where its own choice is not one of the space."""
    chosen: Outcome | None = None
    """The most promising candidate; None where the default promises more."""
    cause: Cause | None = None


def without_device(evaluator: Evaluator) -> Untimed:
    """Nothing was timed: what is said rests on builds, their proofs and an estimate."""
    plan = evaluator.plan
    if not len(plan.space):
        return Untimed("no-winner", plan.no_knobs, cause="no-knobs")
    ranked = tuple(rank(evaluator.outcomes.values(), plan.target)[:RANKED])
    tried = [o for o in evaluator.outcomes.values() if o.candidate.kind in SEARCHED]
    built = sum(o.built for o in tried)
    if not ranked:
        if not built and all(o.failure is None for o in tried):
            return Untimed("inconclusive", "no device, and the time was up before a candidate was built")
        if not built:
            return Untimed("compile-only", f"no device: none of {count(len(tried), 'candidate')} builds")
        twins = all(o.duplicate_of == BASELINE for o in tried if o.built)
        more = "with the very code of IREE's default" if twins else "and an estimate ranks none of them"
        return Untimed("compile-only", f"no device: {count(built, 'candidate')} built and proven, {more}")
    default, best = default_estimate(evaluator), ranked[0]
    proven = f"no device: {count(built, 'candidate')} built and proven, none timed"
    if default is None:
        return Untimed("compile-only", f"{proven}; the ranking is an estimate", ranked, None, best[0])
    scores = f"{best[1].score:.2f}, the default {default.score:.2f}"
    if best[1].score > default.score:
        reason = f"{proven}; by an estimate none is better than IREE's default (the best scores {scores})"
        return Untimed("compile-only", reason, ranked, default)
    reason = f"{proven}; the ranking is an estimate (the best scores {scores}: lower is better)"
    return Untimed("compile-only", reason, ranked, default, best[0])


def default_estimate(evaluator: Evaluator) -> Estimate | None:
    """What the compiler's own choice promises, with the machine code that it makes."""
    plan, baseline = evaluator.plan, evaluator.outcomes.get(BASELINE)
    if baseline is None or baseline.build is None or not baseline.build.ok:
        return None
    for config in plan.first:
        own = plan.candidate(config, id="default")
        if own.kind == "codegen" and own.route == PLAIN and own.info is not None and own.dispatch is not None:
            return estimate(plan.target, own.dispatch, own.info, baseline.build.isa)
    return None
