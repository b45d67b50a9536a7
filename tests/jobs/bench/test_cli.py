"""`autotune bench` for real on this processor: IREE, a flagfile and numpy in turns; what is refused, and how."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from autotuner.store.exports import export_records
from autotuner.store.store import Store
from tests.support.command_line import Here, complaint, here, in_this_process

__all__ = ["here"]
SHAPE = ("bench", "--shape", "32x48x64")


def test_backends_are_timed_in_turns_and_every_step_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "own.flags").write_text("--iree-opt-data-tiling\n")
    words = (*SHAPE, "--backends", "iree,tuned,numpy", "--spec", "own.flags")
    done = in_this_process(*words, "--json", "-q", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    (problem,) = document["problems"]
    found = {row["backend"]: row for row in problem["backends"]}
    assert [*found] == ["iree", "tuned", "numpy"]
    for row in found.values():
        assert row["failure"] == ""
        assert row["us"] > 0
        assert row["cold_us"] > 0
        assert len(row["blocks_us"]) == 6
        assert row["error"] < 1e-5
        assert row["result"] == "f32"
    assert (found["tuned"]["how"], found["numpy"]["how"]) == ("flags alone", "numpy.matmul")
    assert found["tuned"]["spec"] == str(tmp_path / "own.flags")
    assert document["summary"].keys() == {"iree", "numpy"}
    with Store.open(None, workspace=tmp_path, create=False) as store:
        run = store.run(document["run"])
        assert (run.kind, run.status, run.result == document) == ("bench", "finished", True)
        rows = {row.route: row for row in store.candidates(run.id)}
        assert {name: row.kind for name, row in rows.items()} == {
            "iree": "baseline",
            "tuned": "codegen",
            "numpy": "library",
        }
        timings = [(t.phase, t.block) for t in store.timings(run.id) if t.candidate == rows["numpy"].id]
        assert timings == [*(("bench", block) for block in range(6)), *(("cold", block) for block in range(3))]
        exported = {record["route"]: record["speedup"] for record in export_records(store, run.id)}
        assert exported["iree"] == 1.0
        assert exported["numpy"] == pytest.approx(found["iree"]["us"] / found["numpy"]["us"])


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("bench",), 2, "bench needs a name, a file or a --shape"),
        (("bench", "unet", "--shape", "8x8x8"), 2, "are two things to time"),
        ((*SHAPE, "--onnx", "model.onnx"), 2, "--onnx is for a model"),
        (("bench", "model.mlir", "--onnx", "model.mlir"), 2, "--onnx model.mlir is no ONNX file"),
        ((*SHAPE, "--device", "none"), 2, "--device none runs nothing"),
        ((*SHAPE, "--device", "local-task,local-task"), 2, "names several. Name one"),
        ((*SHAPE, "--cache", "cold"), 2, "--cache both"),
        ((*SHAPE, "--backends", "iree", "--spec", "."), 2, "--spec is for the backend `tuned`"),
        ((*SHAPE, "--spec", "a.txt"), 2, "neither a spec (.mlir) nor a flagfile"),
        ((*SHAPE, "--backends", "triton"), 5, "triton computes on GPUs, and the target is cpu"),
    ],
)
def test_what_cannot_be_meant_or_is_not_there_is_refused_by_name(
    words: tuple[str, ...], code: int, says: str, here: Here
) -> None:
    (here.folder / "model.mlir").touch()
    assert says in complaint(here(*words), code)


def test_a_library_that_is_named_and_not_installed_ends_it_with_the_line_that_brings_it(
    here: Here, tmp_path: Path
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    said = complaint(here(*SHAPE, "--backends", "numpy", "--python", f"numpy={bare}"), 5)
    assert "numpy is not installed in" in said
    assert f"Run: {bare} -m pip install numpy" in said
