"""The timings of a kernel's variants as a file that estimates are fitted to."""

from __future__ import annotations

import csv
from pathlib import Path

from autotuner.jobs.suite.load import problems_of
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.problems.operations import OPERATIONS
from benchmarks.variants import COLUMNS, NAMES, table, timed, vendor, write
from tests.support.arguments import parse_arguments

KNOBS = {"bm": 128, "bn": 128, "more": 32, "bk": 64, "fill": 0, "group": 8, "lines": 1}


def exported(problem: str, us: float, *, kind: str = "microkernel") -> dict[str, object]:
    return {"problem": problem, "kind": kind, "us": us, "config": KNOBS if kind == "microkernel" else {}}


def test_the_file_has_each_variant_once_beside_torch_and_fits_the_manifest(tmp_path: Path) -> None:
    problems = {problem.name: problem for problem in problems_of("hopper")}
    assert set(NAMES) <= problems.keys()
    problem, out = problems[NAMES[0]], tmp_path / "out.csv"
    seen = [exported(problem.name, 18.5), exported(problem.name, 18.25), exported(NAMES[1], 1.0)]
    rows = list(timed(problem, "gemm_hopper", [*seen, exported(problem.name, 100.0, kind="baseline")]))
    bench = {"problems": [{"name": problem.name, "backends": [{"backend": "torch", "us": 16.0}]}]}
    write(out, rows, vendor(bench))
    header, row = csv.reader(out.open(newline=""))
    assert tuple(header) == COLUMNS
    assert row[1:] == ["gemm_hopper", "bm=128 bn=128 more=32 bk=64 fill=0 group=8 lines=1", "18.25", "16.00"]
    parameters = {name: int(value) for name, value in (word.split("=") for word in row[2].split())}
    manifest = load(shipped_folder() / row[1] / FILE, OPERATIONS)
    assert manifest.fit(parse_arguments(row[0].split()), "sm_90", parameters=parameters)["tiles"] == 120
    assert f"| {problem.name} | gemm_hopper | {row[2]} | 18.25 | 16.00 | 0.88 |" in table(rows, vendor(bench))


def test_what_could_not_be_timed_leaves_no_row() -> None:
    problem = next(iter(problems_of("hopper")))
    assert list(timed(problem, "gemm_hopper", {"verdict": "failed"})) == []
    assert vendor({"verdict": "failed"}) == {}
