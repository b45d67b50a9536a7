"""Runs in a results database as a search leaves them, made up: of any size, and with whatever strangers may write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import insert

from autotuner.space.table import Config
from autotuner.store.rows import BUILDS, CANDIDATES, TIMINGS, NewRun, RunKind
from autotuner.store.store import Store

PROBLEM: dict[str, Any] = {
    "op": "gemm",
    "name": "gemm_256x256x512_f32_f32_nn",
    "flops": 2 * 256 * 256 * 512,
    "bytes": 4 * (256 * 512 + 512 * 256 + 256 * 256),
    "shape": {"kind": "contraction", "types": ["f32", "f32", "f32"]},
}
HOSTILE = "</script><script>document.title='x'</script><img src=x onerror=\"document.title='x'\">"
RACED = 12
"""Blocks of a race: the fewest that have an interval."""


def a_search(
    store: Store,
    *,
    candidates: int = 40,
    timings: int = 1,
    kind: RunKind = "single",
    parent: str | None = None,
    name: str = "",
    device: str = "Intel Xeon",
    target: str = "cpu",
    finished: bool = True,
    more: dict[str, Any] | None = None,
) -> str:
    """A default, a stock route, `candidates` with three knobs, of which every tenth failed; the fastest is raced."""
    problem = {**PROBLEM, **({"name": name} if name else {})}
    command = ["autotune", "gemm", "--shape", "256x256x512"]
    new = NewRun(kind, "k", command, problem, target, "local-task", 0, parent)
    run = store.start_run(new, space_size=1000)
    store.record_environment(run, {"iree": "3.13.0", "host": "here", "device_name": device, "load": 0.5})
    started = datetime.now(UTC)
    rows = [_row(run, i) for i in range(candidates + 2)]
    timed = [row for row in rows if row["us"]]
    # A write each would take minutes for 100,000 timings.
    with store._writer.begin() as connection:
        connection.execute(insert(CANDIDATES), rows)
        found = connection.execute(CANDIDATES.select().where(CANDIDATES.c.run == run)).all()
        ids = {row.ordinal: row.id for row in found}
        builds = [_build(ids[row["ordinal"]], row["ordinal"]) for row in timed]
        connection.execute(insert(BUILDS), builds)
        blocks = [
            {
                "candidate": ids[row["ordinal"]],
                "phase": "screen",
                "block": block,
                "repetitions_us": [row["us"], row["us"] * 1.01],
                "time": (started + timedelta(seconds=0.1 * row["ordinal"] + block)).isoformat(),
            }
            for row in timed
            for block in range(timings)
        ]
        fastest = min(timed, key=lambda row: row["us"])
        for block in range(RACED):
            for row in (rows[0], fastest):
                us = row["us"] * (1 + 0.002 * block)
                values = {"candidate": ids[row["ordinal"]], "phase": "race", "block": block, "repetitions_us": [us]}
                blocks.append({**values, "time": (started + timedelta(seconds=60 + block)).isoformat()})
        connection.execute(insert(TIMINGS), blocks)
    if finished:
        store.finish_run(run, "finished", result=_document(run, problem, rows[0], fastest) | (more or {}))
    return run


def _row(run: str, ordinal: int) -> dict[str, Any]:
    m, n, peel = (4, 8, 16)[ordinal % 3], (16, 32, 64, 128)[ordinal % 4], ordinal % 2
    kind = {0: "baseline", 1: "stock"}.get(ordinal, "codegen")
    config = Config.of({"route": "plain", "tile_m": m, "tile_n": n, "peel": peel}) if ordinal > 1 else Config(())
    failed = ordinal > 1 and ordinal % 10 == 9
    us = 500.0 if ordinal == 0 else 450.0 if ordinal == 1 else 4000.0 / m + 2000.0 / n + 20 * peel + ordinal % 7
    return {
        "run": run,
        "ordinal": ordinal,
        "config_key": config.key,
        "config": config.as_dict(),
        "kind": kind,
        "route": "data-tiling" if kind == "stock" else "plain",
        "state": "failed" if failed else "timed",
        "failure": "compile-error" if failed else "",
        "stderr": f"error: no {HOSTILE}\nsecond line" if failed else "",
        "error": None if failed else 4e-7,
        "us": None if failed else us,
    }


def _build(candidate: int, ordinal: int) -> dict[str, Any]:
    isa = {"vgpr": 64 + ordinal % 32, "code_bytes": 2000 + ordinal}
    values = {"seconds": 0.5, "cached": False, "binary": f"{ordinal:064x}", "applied": int(ordinal > 1)}
    return {"candidate": candidate, **values, "command": ["iree-compile"], "vmfb": "", "isa": isa}


def _document(run: str, problem: dict[str, Any], default: dict[str, Any], best: dict[str, Any]) -> dict[str, Any]:
    ratio = default["us"] / best["us"]
    return {
        "run": run,
        "problem": problem,
        "verdict": "win",
        "reason": f"fresh blocks give {ratio:.3f}",
        "baseline": {"us": default["us"], "flags": [], "route": "plain"},
        "stock": {"us": 450.0, "flags": ["--iree-opt-data-tiling"], "route": "data-tiling"},
        "best": {"us": best["us"], "flags": [], "candidate": f"c{best['ordinal']:04d}", "config": best["config"]},
        "speedup": {"median": ratio, "low": ratio - 0.01, "high": ratio + 0.01, "confidence": 0.95},
        "flagfile": "/tmp/specs/a b.flags",
        "carrier": "spec",
        "notes": ["a note"],
    }
