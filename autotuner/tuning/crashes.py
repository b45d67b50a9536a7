"""Kernels that crash: how they ended, and how they are called, for the one who wrote them."""

from __future__ import annotations

from collections.abc import Iterable

from autotuner.carriers.carrier import VariantCarrier
from autotuner.iree.run import failed_because
from autotuner.microkernels.instance import crash_words
from autotuner.targets import Target
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import Candidate


def crash_of(candidate: Candidate, detail: str, target: Target, *, wrong: bool = False) -> str:
    """How the run of a candidate ended, or what is `wrong` with its result; of a kernel in C also how it is called."""
    carrier, reason = candidate.carrier, failed_because(detail)
    if not isinstance(carrier, VariantCarrier) or not target.backend.on_host:
        return reason
    return crash_words(reason, carrier.built.calls, wrong=wrong)


def first_crashes(outcomes: Iterable[Outcome], target: Target) -> list[str]:
    """One line for each microkernel of which a variant does not run."""
    found: dict[str, str] = {}
    for outcome in outcomes:
        carrier = outcome.candidate.carrier
        if outcome.failure == "run-error" and isinstance(carrier, VariantCarrier):
            name = carrier.variants.manifest.name
            if name not in found:
                found[name] = f"{name} does not run: {crash_of(outcome.candidate, outcome.detail, target)}"
    return list(found.values())
