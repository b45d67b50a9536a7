"""Benchmarks of kernels: variants in CUDA graphs, their timings and what is fitted to them, the table beside torch; and
the list of all benchmarks."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest

from autotuner.jobs.suite.load import problems_of, read_csv
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.problems import Gemm
from autotuner.problems.operations import OPERATIONS
from autotuner.space import Config
from benchmarks.graphs import build, main, offered
from benchmarks.hopper import note_codegen, write_workload
from benchmarks.hopper import table as beside_torch
from benchmarks.kernel_estimate import ESTIMATES, Columns, Estimate, fit, read
from benchmarks.variants import COLUMNS, NAMES, table, timed, vendor, write
from tests.support.arguments import parse_arguments
from tests.support.cuda_kernel import needs_nvrtc

RECORDED = Path(__file__).parents[2] / "results/reference/h200/triton_variants.csv"
PROBLEM = Gemm.parse(shape="16x1024x512", epilogue="bias")


@needs_nvrtc
def test_variants_are_built_as_they_are_launched() -> None:
    wanted = {"bm": "64", "bn": "16", "both": "0", "fill": "1"}
    ((_, named),) = offered(PROBLEM, ["gemm_cuda"], first=4, wanted=[wanted])
    assert wanted.items() <= {name: str(value) for name, value in named}.items()
    ((_, first),) = offered(PROBLEM, ["gemm_cuda"], first=1, wanted=[])
    for built in (build(PROBLEM, "gemm_cuda", Config(one)) for one in (named, first)):
        assert built is not None
        assert "bm=64 bn=16" in built.words or built.config.items == first
        instance = built.instance
        (cubin,) = instance.objects
        assert cubin.read_bytes().startswith(b"\x7fELF")
        assert [binding.access for binding in instance.bindings] == ["read", "read", "read", "write"]
        assert instance.local_memory > 0


@needs_nvrtc
def test_the_file_has_the_columns_of_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be launched, or a kernel breaks, it has no rows."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    out = tmp_path / "out.csv"
    main([str(out), "--problem", " ".join(PROBLEM.arguments()), "--first", "1"])
    assert out.read_text().splitlines() == RECORDED.read_text().splitlines()[:1]


# --- timings of variants ----------------------------------------------------------------------------------------------


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


# --- estimates, fitted again with a shape left out --------------------------------------------------------------------


@pytest.mark.parametrize("estimate", ESTIMATES, ids=lambda estimate: estimate.kernel)
def test_the_formula_says_what_the_manifest_says(estimate: Estimate) -> None:
    _, numbers, us, expected = read(estimate.kernel)
    assert len(us) > 100
    assert np.allclose(estimate.formula(numbers, estimate.constants), expected, rtol=0.04)


def test_a_fit_finds_the_constants_that_timings_were_made_by() -> None:
    def line(x: Columns, constants: tuple[float, ...]) -> np.ndarray:
        return x["size"] * constants[0] + constants[1]

    sizes = Columns({"size": np.arange(1.0, 40.0)})
    found = fit(Estimate("made-up", line, (1000.0, 1000.0)), sizes, line(sizes, (2500.0, 6000.0)) / 1000)
    assert np.allclose(found, (2500.0, 6000.0), rtol=0.1)


# --- the suite `hopper` beside torch ----------------------------------------------------------------------------------


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
    text = beside_torch([{"problems": {}, "left": ["gemm_b"]}, {"bench": bench, "problems": searched}])
    assert "| gemm_a | 40.0 | 22.5 | 10.0 | kernel | 9.0 | 0.90 | 21 |" in text
    assert "| gemm: geometric mean of 1 | | | | | | 0.90 | |" in text
    assert "| gemm, fewer operations: geometric mean of 1 | | | | | | 0.90 | |" in text
    assert "not tuned for want of time: gemm_b" in text


# --- the list ---------------------------------------------------------------------------------------------------------


FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_every_module_that_can_be_started_has_its_line() -> None:
    started = {path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text()}
    started |= {path.parent.name for path in FOLDER.glob("*/__main__.py")}
    listed = re.findall(r"^\| `python -m benchmarks\.(\w+)", (FOLDER / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(started)
