"""A run that won, in a results database, written row by row as a run does, of figures that are given."""

from __future__ import annotations

from typing import Any

from autotuner.build import Isa
from autotuner.devices.conditions import Conditions, Sample
from autotuner.devices.device import Timing
from autotuner.space.table import Config, Value
from autotuner.store.rows import BuildRow, Kind, NewRun
from autotuner.store.store import Store

WARM = Conditions("sustained", "warm", Sample(mhz=2000.0), Sample(mhz=1980.0, watts=350.0))


def built(candidate: int) -> BuildRow:
    facts: dict[str, Any] = {"seconds": 0.5, "cached": False, "binary": "b", "applied": 1}
    return BuildRow(candidate, **facts, command=("iree-compile",), vmfb="a.vmfb", isa=Isa(registers=64))


def won_run(store: Store, *, name: str = "gemm_512x512x1024_f16_f32_nn", parent: str | None = None) -> str:
    """A win of three: the default, two configurations; a third is the same binary, a fourth and a fifth failed."""
    problem = {"op": "gemm", "name": name, "flops": 10**9, "bytes": 10**6}
    run = store.start_run(
        NewRun("single", "a-b", ["autotune", "gemm"], problem, "sm_80", "cuda", 3, parent), space_size=9
    )
    store.record_environment(run, {"iree": "3.13.0", "autotune": "0.1.0", "device_name": "H200", "cores": 2})
    times = {0: 20.0, 1: 10.0, 2: 12.0}
    ids = []
    for ordinal in range(6):
        config: dict[str, Value] = {"tile": 8 << ordinal, "pipeline": f"p{ordinal % 2}", "pad": ordinal % 2 == 0}
        config = config if ordinal else {}
        kind: Kind = "codegen" if ordinal else "baseline"
        ids.append(store.add_candidate(run, ordinal=ordinal, config=Config.of(config), kind=kind, route="plain"))
        if ordinal in times:
            store.record_build(built(ids[-1]))
            store.record_check(ids[-1], error=1e-7)
            for block, factor in enumerate((1.0, 1.25, 0.75)):
                us = times[ordinal] * factor
                store.record_timing(ids[-1], Timing((us, us), conditions=WARM), phase="race", block=block)
    store.record_duplicate(ids[3], of=ids[1])
    store.record_failure(ids[4], "wrong-result", stderr="off by 3\nmore")
    store.record_failure(ids[5], "compile-error", stderr="no")
    best = {"us": 10.0, "config": {"tile": 16}, "candidate": "c0001", "route": "plain"}
    speedup = {"median": 2.0, "low": 1.9, "high": 2.1, "confidence": 0.95}
    result = {"verdict": "win", "baseline": {"us": 20.0}, "best": best, "speedup": speedup, "spec": "specs/a.mlir"}
    store.finish_run(run, "finished", result=result)
    return run
