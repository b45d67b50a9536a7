"""The typed result and the contract's document say the same, both ways."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from autotuner.build import Isa
from autotuner.measure.blocks import Interval
from autotuner.tuning.result import Best, Counts, Files, Measured, Result, read_result

FLAGS = ("--iree-opt-data-tiling",)
RESULT: Result = Result(
    run="20260101-000000-abcdef",
    problem={"op": "gemm", "name": "gemm_8x8x8", "flops": 1024, "bytes": 768},
    target="cpu",
    device="local-task",
    verdict="win",
    reason="2.00x faster than IREE's default",
    baseline=Measured(20.0, (), "default", Isa()),
    stock=Measured(15.0, FLAGS, "data-tiling", Isa(vgpr=7)),
    best=Best(Measured(10.0, FLAGS, "data-tiling", Isa()), {"tile_m": 8}, "microkernel", "c0003"),
    speedup=Interval(2.0, 1.9, 2.1),
    speedup_over_stock=Interval(1.5, 1.4, 1.6),
    confidence=0.95,
    counts=Counts(space=9, asked=3, built=2, timed=2, failed={**Counts().failed, "run-error": 1}),
    seconds={"space": 0.1, "total": 1.5},
    environment={"iree": "3.13"},
    notes=("a note",),
    interrupted=False,
    workspace=Path("w"),
    storage=None,
    details=None,
    files=Files(Path("specs/a.mlir"), Path("specs/a.flags"), "microkernel"),
)


def test_what_is_read_back_from_a_document_is_what_was_written() -> None:
    estimated = Best(Measured(isa=Isa(), estimate={"score": 1.5}), {"tile_m": 4}, candidate="c0001")
    bare = replace(
        RESULT,
        verdict="compile-only",
        best=estimated,
        speedup=None,
        speedup_over_stock=None,
        confidence=0.0,
        baseline=Measured(),
        files=Files(),
        ranking=(estimated,),
    )
    for result in (RESULT, bare, replace(RESULT, best=None)):
        document = json.loads(json.dumps(result.to_json()))
        assert read_result(document, workspace=Path("w"), storage=None) == replace(result, cause=result.ended)


def test_what_nobody_asked_for_is_not_in_the_document() -> None:
    document = replace(RESULT, stock=Measured(), best=Best(Measured(10.0), {})).to_json()
    assert document["stock"] == {"us": None, "flags": []}
    assert document["best"] == {"us": 10.0, "flags": [], "config": {}, "kind": "codegen"}
    assert "ranking" not in document


def test_details_are_beside_the_contracts_keys() -> None:
    class Buckets:
        default_is_wrong = False

        def to_json(self) -> dict[str, object]:
            return {"buckets": []}

    whole = Result(**{**vars(RESULT), "details": Buckets()}).to_json()
    assert whole == {**RESULT.to_json(), "buckets": []}


def test_counts_add_up_by_step_and_by_class() -> None:
    total = Counts.total([RESULT.counts, RESULT.counts])
    assert (total.asked, total.failed["run-error"], total.failed["wrong-result"]) == (6, 2, 0)
    assert Counts.total([]) == Counts()
    assert Counts.from_json(total.to_json()) == total
