"""The table of the suite `hopper` beside torch."""

from __future__ import annotations

from pathlib import Path

from autotuner.jobs.suite.load import problems_of, read_csv
from benchmarks.hopper import note_codegen, table, write_workload


def test_the_suite_has_every_class_and_is_read_back_as_it_is_written(tmp_path: Path) -> None:
    problems = problems_of("hopper")
    assert len(problems) >= 24
    write_workload(tmp_path / "workload.csv", problems)
    entries = read_csv((tmp_path / "workload.csv").read_text(), path="workload.csv")
    assert [entry.problem for entry in entries] == list(problems)


def test_the_table_has_both_sides_of_a_problem_and_names_what_was_left() -> None:
    sides = [{"backend": name, "us": us} for name, us in (("iree", 40.0), ("tuned", 10.0), ("torch", 9.0))]
    bench = {"problems": [{"name": "gemm_a", "op": "gemm", "flops": 1 << 30, "backends": sides}]}
    searched = {"gemm_a": {"seconds": 21.3, "verdict": "inconclusive", "best": {"kind": "microkernel"}}}
    rows = [
        ("gemm_a", "codegen", 30.0),
        ("gemm_a", "codegen", 22.5),
        ("gemm_a", "microkernel", 10.0),
        ("b", "codegen", 1.0),
    ]
    note_codegen(searched, [{"problem": name, "kind": kind, "us": us} for name, kind, us in rows])
    text = table([{"problems": {}, "left": ["gemm_b"]}, {"bench": bench, "problems": searched}])
    assert "| gemm_a | 40.0 | 22.5 | 10.0 | kernel | 9.0 | 0.90 | 21 |" in text
    assert "| gemm: geometric mean of 1 | | | | | | 0.90 | |" in text
    assert "| gemm, fewer operations: geometric mean of 1 | | | | | | 0.90 | |" in text
    assert "not tuned for want of time: gemm_b" in text
