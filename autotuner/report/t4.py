"""A run in the T4 format, in which auto-tuners of other projects exchange what they measured.

A document has `schema_version`, `metadata` and `results`; a result is a configuration with its times, and whether it is
valid or why not. All times are in microseconds, as the metadata say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from autotuner._version import __version__
from autotuner.errors import UsageError
from autotuner.space.table import ABSENT
from autotuner.store.rows import CandidateRow, RunRow, TimingRow
from autotuner.store.store import Store

SCHEMA_VERSION = "1.0.0"
INVALID = {
    "compile-error": "compile",
    "compile-timeout": "timeout",
    "not-applied": "constraints",
    "wrong-result": "correctness",
    "run-error": "runtime",
    "run-timeout": "timeout",
}
"""Our classes of failures in the format's words. A configuration that did not apply is none of the space's."""
_UNKNOWN = "runtime"


def t4_document(store: Store, run: str) -> dict[str, Any]:
    """Every candidate of a run that came to something: timed, failed, or the same binary as another."""
    owner = store.run(run)
    candidates = store.candidates(run)
    if not candidates:
        raise UsageError(
            f"run {run} has no candidates of its own.",
            remedy=f"`autotune history {run}` lists its parts: name one of them.",
        )
    timings: dict[int, list[TimingRow]] = {}
    for timing in store.timings(run):
        timings.setdefault(timing.candidate, []).append(timing)
    seconds = {build.candidate: build.seconds for build in store.builds(run)}
    known = {candidate.id: candidate for candidate in candidates}
    results = []
    for candidate in candidates:
        # The same binary is the same kernel: what was measured of the one holds for the other.
        measured = known.get(candidate.duplicate_of or 0, candidate)
        if measured.us is not None or measured.failure:
            raw = timings.get(measured.id, [])
            results.append(_result(owner, candidate, measured, raw, seconds.get(candidate.id)))
    return {"schema_version": SCHEMA_VERSION, "metadata": _metadata(store, owner), "results": results}


def _metadata(store: Store, run: RunRow) -> dict[str, str]:
    where = store.environment(run.id)
    return {
        "platform": f"IREE {where.get('iree', '')}".strip(),
        "device": str(where.get("device_name") or run.device),
        "autotuner": "autotune",
        "autotuner_version": str(where.get("autotune") or __version__),
        "timestamp": run.started.isoformat(),
        "timeunit": "microseconds",
        "kernel_name": str(run.problem.get("name", "")),
        "target": run.target,
    }


def _result(
    run: RunRow,
    candidate: CandidateRow,
    measured: CandidateRow,
    timings: Sequence[TimingRow],
    seconds: float | None,
) -> dict[str, Any]:
    failed = bool(measured.failure)
    runtimes = [us for timing in timings if timing.phase not in ("cold", "call") for us in timing.repetitions_us]
    return {
        "timestamp": (timings[0].time if timings else run.started).isoformat(),
        "configuration": _configuration(candidate),
        "objectives": ["time"],
        "times": {**({} if seconds is None else {"compilation_time": seconds * 1e6}), "runtimes": runtimes},
        "invalidity": INVALID.get(measured.failure, _UNKNOWN) if failed else "correct",
        "correctness": 0 if failed else 1,
        "measurements": [] if failed else _measurements(run.problem, measured.us),
    }


def _configuration(candidate: CandidateRow) -> dict[str, Any]:
    """The knobs, and the route, which is one."""
    knobs = {name: value for name, value in candidate.config.as_dict().items() if value != ABSENT}
    return {**knobs, "kind": candidate.kind, "route": candidate.route}


def _measurements(problem: Mapping[str, Any], us: float | None) -> list[dict[str, Any]]:
    if not us:
        return []
    rate = [{"name": "GFLOP/s", "value": problem["flops"] / us / 1e3, "unit": ""}] if problem.get("flops") else []
    return [{"name": "time", "value": us, "unit": "us"}, *rate]
