"""The specs that come with autotune apply, as they lie there and by the command that their README gives."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from autotuner.carriers.flagfile import use_line
from autotuner.carriers.render import problem_mlir
from autotuner.iree.tools import Tools
from autotuner.microkernels.abi import read_object
from autotuner.specfiles import spec as specs
from autotuner.specfiles.check import check
from autotuner.system import process
from benchmarks.winners import Winner, recorded_problems, worth_having

ROOT = Path(__file__).parents[2]
FOLDER = Path("specs/h200")
SPECS = sorted(path.relative_to(ROOT) for path in (ROOT / FOLDER).glob("*.mlir"))
PROBLEMS = recorded_problems()
IN_SHORT = (
    "gemm_384x512x32768_bf16_f32_nt",  # workgroups share a sum
    "gemm_640x1920x2560_f16_f32_nt",  # a cubin
    "gemm_1536x1536x2048_bf16_f32_nt",
    "gemm_128x7168x4096_f8_f32_f16_nt",
    "gemm_1x5120x5120_f16_f32_nn",
    "conv_16x28x28x256_3x3x512_s2x2_p1x1_f16_f16_nhwc",
    "conv_1x56x56x64_3x3x192_p1x1_f16_f16_nchw",
    "attention_2x16x4096x4096x64_f16_causal",
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
    maker = "NVRTC" if winner.knobs.startswith("gemm_cuda,") else "Triton"
    assert said["kernel"].startswith(f"{winner.knobs}; built by {maker} ")
    assert said["use"] == use_line(spec.with_suffix(".flags"))
    (entry,) = specs.show(ROOT / spec).entries
    assert entry.provenance is not None
    assert entry.provenance.us == row["best"]["us"]
    assert entry.provenance.machine == "NVIDIA H200"
    line = next(
        line for line in (ROOT / FOLDER / "README.md").read_text().splitlines() if f"[{problem_of(spec)}](" in line
    )
    assert f"| {row['baseline']['us']:.1f} µs | {row['best']['us']:.1f} µs | {row['speedup']['median']:.3f}x " in line
    assert winner.knobs in line


def test_every_shipped_object_is_for_the_chip_and_named_by_a_spec() -> None:
    files = [path for folder in (ROOT / FOLDER).glob("*.objects") for path in folder.iterdir()]
    assert len(files) == len(SPECS) >= 20
    assert {read_object(path).chip for path in files} == {"sm_90a"}
