"""The specs that come with autotune apply, as they lie there and by the command that their README gives."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autotuner.carriers.flagfile import use_line
from autotuner.iree.objects import read_object
from autotuner.iree.tools import Tools
from autotuner.problems.render import problem_mlir
from autotuner.specfiles import spec as specs
from autotuner.specfiles.check import check
from autotuner.system import process
from benchmarks.winners import Row, Winner, recorded_problems, worth_having

ROOT = Path(__file__).parents[2]
FOLDER = Path("specs/h200")
SPECS = sorted(path.relative_to(ROOT) for path in (ROOT / FOLDER).glob("*.mlir"))
TABLE = (ROOT / FOLDER / "README.md").read_text()
PROBLEMS = recorded_problems()
IN_SHORT = (
    "gemm_384x512x32768_bf16_f32_nt",  # workgroups share a sum
    "gemm_640x1920x2560_f16_f32_nt",  # a cubin
    "gemm_1536x1536x2048_bf16_f32_nt",
    "gemm_128x7168x4096_f8_f32_f16_nt",
    "gemm_1x5120x5120_f16_f32_nn",
)
"""One of each kernel; the others take the same way, which `make test-long` goes."""


def problem_of(spec: Path) -> str:
    return spec.stem.rpartition("-")[0]


def marked(spec: Path) -> object:
    return pytest.param(spec, marks=() if problem_of(spec) in IN_SHORT else pytest.mark.long, id=problem_of(spec))


@pytest.mark.parametrize("spec", [marked(spec) for spec in SPECS])
def test_a_shipped_spec_compiles_by_its_command_and_applies(
    spec: Path, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    program, module = tmp_path / "MODEL.mlir", tmp_path / "MODEL.vmfb"
    program.write_text(problem_mlir(PROBLEMS[problem_of(spec)]))
    _, _, flagfile, *_ = use_line(spec.with_suffix(".flags")).split()
    done = process.run([tools.iree_compile, program, flagfile, "-o", module], timeout=300)
    assert done.ok, done.stderr
    kernel = next((ROOT / spec).with_suffix(".objects").iterdir())
    assert kernel.read_bytes().strip(b"\0") in module.read_bytes()
    report = check(spec, tools=tools, model=program)
    assert report.sound, report.findings
    assert [use.dispatches for use in report.uses or ()] == [1]


@pytest.mark.parametrize("spec", SPECS, ids=problem_of)
def test_a_shipped_spec_says_what_was_recorded(spec: Path) -> None:
    text = (ROOT / spec).read_text()
    said = dict(re.findall(r"^// ([a-z ]+): +(.*)$", text, re.M))
    found = json.loads((ROOT / said["recorded"]).read_text())
    row = found["problems"][problem_of(spec)]
    winner = Winner(PROBLEMS[problem_of(spec)], row, None, Path(said["recorded"]), found["command"])  # type: ignore[arg-type]
    assert worth_having(row, 1.3)
    assert said["verdict"] == f"win, {winner.gain}"
    assert said["kernel"].startswith(f"{winner.knobs}; built by NVRTC ")
    assert said["use"] == use_line(spec.with_suffix(".flags"))
    (entry,) = specs.show(ROOT / spec).entries
    assert entry.provenance is not None
    assert entry.provenance.us == row["best"]["us"]
    assert entry.provenance.machine == "NVIDIA H200"
    assert described(row, winner) in TABLE


def test_the_table_has_the_knobs_of_what_is_made_again_by_its_command() -> None:
    command = next(line for line in TABLE.splitlines() if line.startswith("python -m benchmarks.winners specs/h200"))
    files = [path for pattern in command.split()[4:] for path in sorted(ROOT.glob(pattern))]
    records = {path: json.loads(path.read_text()) for path in files}
    rows = [(path, name, row) for path, found in records.items() for name, row in found["problems"].items()]
    for path, name, row in rows:
        winner = Winner(PROBLEMS[name], row, None, path, ())  # type: ignore[arg-type]
        assert f"| {name} {described(row, winner)}" in TABLE
    assert len(rows) == len([line for line in TABLE.splitlines() if line.startswith(("| conv_", "| attention_"))]) == 8


def described(row: Row, winner: Winner) -> str:
    """The row of the table behind the problem's name, without the ends of the interval."""
    speedup = row["speedup"]
    times = f"{row['baseline']['us']:.1f} µs | {row['best']['us']:.1f} µs"
    gain = f"{speedup['median']:.3f}x ({speedup['low']:.3f} to {speedup['high']:.3f})"
    return f"| {times} | {gain} | {winner.knobs} |"


def test_every_shipped_object_is_for_the_chip_and_named_by_a_spec() -> None:
    files = [path for folder in (ROOT / FOLDER).glob("*.objects") for path in folder.iterdir()]
    assert len(files) == len(SPECS) >= 16
    assert {read_object(path).chip for path in files} == {"sm_90a"}
