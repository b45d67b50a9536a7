"""What a comparison says: ratios of blocks side by side, the geometric mean over problems, who was left out."""

from __future__ import annotations

import json
from typing import Any

from autotuner.jobs.bench.backends import LeftOut
from autotuner.jobs.bench.result import BackendRow, BenchResult, ProblemRows
from autotuner.tuning.result import RunFacts

IREE = BackendRow("iree", how="IREE's default", blocks_us=(100.0, 200.0, 100.0, 100.0, 100.0, 100.0), result="f32")
TORCH = BackendRow("torch", how="torch.mm", blocks_us=(50.0, 100.0, 50.0, 40.0, 50.0, 60.0), result="f32", cold_us=70.0)
ABSENT = BackendRow("numpy", failure="not-supported", reason="numpy has no conv")


def rows(*found: BackendRow, name: str = "gemm") -> ProblemRows:
    return ProblemRows({"op": "gemm", "name": name, "flops": 2_000_000, "bytes": 1, "arguments": "gemm"}, found, "r1")


def result(*problems: ProblemRows, **more: Any) -> BenchResult:
    facts: Any = dict.fromkeys(RunFacts.__annotations__)
    facts |= {"run": "r0", "problem": {"name": "all"}, "target": "cpu", "device": "local-task", "notes": ("hot",)}
    return BenchResult(facts, problems, **more)


def test_a_ratio_is_taken_block_by_block() -> None:
    """The second block was twice as slow for both: that is the machine's, and cancels."""
    ratio = TORCH.over(IREE)
    assert ratio is not None
    assert ratio.median == 2.0
    assert 1.0 < ratio.low < 2.0 < ratio.high < 4.0
    few = BackendRow("a", blocks_us=(1.0, 2.0)).over(BackendRow("b", blocks_us=(2.0, 2.0)))
    assert few is not None
    assert (few.low, few.high) == (1.0, 2.0), "of fewer than three blocks the extremes"
    for blocks, confidence in ((3, 0.95), (2, None)):
        cut = BackendRow("torch", blocks_us=TORCH.blocks_us[:blocks])
        assert rows(IREE, cut).to_json()["backends"][1]["over_iree"]["confidence"] == confidence
    assert ABSENT.over(IREE) is IREE.over(ABSENT) is IREE.over(None) is None


def test_the_summary_is_of_tuned_iree_where_there_is_one() -> None:
    tuned = BackendRow("tuned", blocks_us=(25.0,))
    both = result(rows(IREE, tuned, TORCH, ABSENT), rows(IREE, TORCH, name="other"))
    assert both.summary() == {
        "iree": {"by": "tuned", "problems": 1, "faster": 1, "geometric_mean": 4.0},
        "torch": {"by": "tuned", "problems": 1, "faster": 1, "geometric_mean": 2.0},
    }
    assert result(rows(IREE, TORCH)).summary()["torch"]["geometric_mean"] == 0.5
    # The medians alone say 2: the other library's slow blocks were not ours.
    ours = BackendRow("iree", blocks_us=(100.0, 100.0, 200.0))
    theirs = BackendRow("torch", blocks_us=(200.0, 50.0, 200.0))
    assert result(rows(ours, theirs)).summary()["torch"]["geometric_mean"] == 1.0


def test_the_document_is_json_and_says_who_was_left_out_and_why() -> None:
    left = LeftOut("torch", "torch is not installed", "pip install torch")
    document = json.loads(json.dumps(result(rows(IREE, ABSENT), left_out=(left,)).to_json(), allow_nan=False))
    assert document["left_out"] == [
        {"backend": "torch", "reason": "torch is not installed", "install": "pip install torch"}
    ]
    assert (document["verdict"], document["baseline"]) == ("measured", {"us": 100.0})
    assert (result(rows(IREE)).failed, result(rows(ABSENT)).failed) == (False, True)
    assert document["problems"][0]["backends"][1]["failure"] == "not-supported"


def test_people_read_the_reason_where_there_is_no_time_and_the_line_that_would_bring_a_library() -> None:
    triton = LeftOut("triton", "it is not there", "pip install triton")
    found = result(rows(IREE, TORCH, ABSENT), left_out=(triton,))
    found.facts["notes"] = (*found.facts["notes"], str(triton))
    said = str(found)
    assert "not-supported: numpy has no conv" in said
    assert said.count("left out   triton: it is not there. Run: pip install triton") == 1
    assert "2.00x" in said
    assert "hot" in found.printer().text(verbose=True)
