"""What every document of a run holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autotuner.store.store import Store

NOT_BUILT = ("compile-error", "compile-timeout", "not-applied")

KEYS = {
    *("schema", "run", "problem", "target", "device", "verdict", "baseline", "stock", "best", "speedup"),
    *("speedup_over_stock", "spec", "flagfile", "carrier", "counts", "seconds", "environment"),
    *("timing", "warm", "cold"),
}
COUNTS = {"space", "asked", "routes", "rivals", "built", "cached", "duplicate", "checked", "timed", "failed"}
FAILED = {"compile-error", "compile-timeout", "not-applied", "wrong-result", "run-error", "run-timeout"}
SECONDS = {"space", "build", "time", "search", "total"}
ENVIRONMENT = {"iree", "host", "device_name", "driver", "load"}


def hold_contract(document: dict[str, Any], workspace: Path, *, in_time: bool = True) -> None:
    """The document has the contract's keys, and adds up with itself and with the store.

    Where the time was up before the search's end (not `in_time`) some candidates may be asked for and not built.
    """
    assert document.keys() >= KEYS
    assert document["schema"] == 1
    counts, problem = document["counts"], document["problem"]
    assert counts.keys() >= COUNTS
    assert counts["failed"].keys() >= FAILED
    assert document["seconds"].keys() >= SECONDS
    assert document["environment"].keys() >= ENVIRONMENT
    assert problem["op"] == "gemm"
    assert problem["flops"] > 0
    assert problem["bytes"] > 0
    assert (document["spec"] is not None or document["flagfile"] is not None) == (document["verdict"] == "win")
    with Store.open(None, workspace=workspace, create=False) as store:
        row, rows = store.run(document["run"]), store.candidates(document["run"])
        builds, timings = store.builds(document["run"]), store.timings(document["run"])
    failed = counts["failed"]
    waiting = [r for r in rows if r.state == "asked"]
    assert not waiting or not in_time
    assert counts["asked"] == len(rows) == len({r.ordinal for r in rows})
    assert counts["built"] + sum(failed[name] for name in NOT_BUILT) == counts["asked"] - len(waiting)
    assert counts["duplicate"] == sum(r.state == "duplicate" for r in rows)
    assert counts["timed"] == sum(r.state == "timed" for r in rows)
    assert {name: sum(r.failure == name for r in rows) for name in failed} == failed
    ended = counts["timed"] + counts["duplicate"] + sum(failed.values())
    assert counts["asked"] == ended or document["device"] == "none" or (counts["asked"] > ended and not in_time)
    assert counts["cached"] <= counts["built"]
    assert counts["timed"] <= counts["checked"] <= counts["built"] - counts["duplicate"]
    if "imported" not in document:  # built where the bundle was made
        assert {b.candidate for b in builds} == {r.id for r in rows} - {r.id for r in waiting}
    timed, late = ({r.id for r in rows if r.state == state} for state in ("timed", "failed"))
    assert timed <= {t.candidate for t in timings} <= timed | late, "one may fail in the last check, after its timings"
    assert all(us > 0 for t in timings for us in t.repetitions_us)
    assert row.result == document
    parts = sum(document["seconds"][name] for name in ("space", "build", "time", "search"))
    assert parts <= document["seconds"]["total"] + 0.5
