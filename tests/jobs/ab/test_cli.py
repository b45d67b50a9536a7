"""`autotune ab A B`: the command, its documents and its exit codes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner.iree.tools import Tools
from autotuner.store.store import Store
from tests.jobs.ab.conftest import PLAIN, TILED
from tests.support.fake_tools import BASE_MS, DATA_TILING, FakeTools
from tests.support.kernels import autotune
from tests.support.models import EXAMPLES

Fake = Callable[..., FakeTools]
Ab = Callable[..., tuple[int, str, str]]
SHAPE = ("--shape", "96x64x128", "--dtype", "f32")


@pytest.fixture
def ab(fake: Fake, workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Ab:
    """ab(word, …): exit code, stdout and stderr; data-tiling takes half the time."""
    tools = fake((f"*{PLAIN}*", BASE_MS), (DATA_TILING, BASE_MS / 2)).tools
    monkeypatch.setattr(Tools, "find", lambda _folder: tools)

    def run(*words: object) -> tuple[int, str, str]:
        return autotune(capsys, monkeypatch, "ab", *map(str, words), "--workspace", str(workspace))

    return run


def test_a_win_is_told_with_both_times_and_both_commands(
    ab: Ab, flagfile: Callable[..., Path], workspace: Path
) -> None:
    code, out, err = ab(flagfile("tiled", TILED), *SHAPE)
    assert code == 0, err
    assert out.startswith("verdict    win")
    assert "verdict    win: 2.00x faster than IREE's default" in out
    assert re.search(r"A +100\.000 ms .*default\n", out)
    assert "50.000 ms" in out
    (run,) = (workspace / "candidates").iterdir()
    commands = "".join((run / side / "command.txt").read_text() for side in "ab")
    assert (commands.count("iree-compile problem.mlir"), commands.count("--module=module.vmfb")) == (2, 2)
    assert "next       compile as B\n" in out
    assert "racing" in err
    with Store.open(None, workspace=workspace, create=False) as store:
        (stored,) = store.runs()
        rows = store.candidates(stored.id)
        phases = {timing.phase for timing in store.timings(stored.id)}
    document = stored.result or {}
    assert (document["schema"], document["verdict"], stored.status) == (1, "win", "finished")
    assert (document["baseline"]["us"], document["best"]["us"]) == (100_000.0, 50_000.0)
    assert [(row.kind, row.state, row.us) for row in rows] == [
        ("baseline", "timed", 100_000.0),
        ("codegen", "timed", 50_000.0),
    ]
    assert phases == {"screen", "confirm"}
    assert [arm["kind"] for arm in document["arms"]] == ["default", "flagfile"]
    assert document["arms"][1].keys() >= {"name", "kind", "flags", "spec", "us", "error", "command"}
    assert all(0 < arm["error"] < 1e-6 for arm in document["arms"])
    assert document["difference"] < 2e-6
    assert document["seconds"]["total"] > 0
    assert document["environment"]["iree"]


def test_arms_of_the_same_code_are_not_raced_and_no_winner_can_be_a_failure(
    ab: Ab, flagfile: Callable[..., Path], workspace: Path
) -> None:
    code, out, _ = ab(flagfile("plain", PLAIN), *SHAPE, "--fail-if-no-winner")
    assert code == 6
    assert "the two arms compile to the same code" in out
    with Store.open(None, workspace=workspace, create=False) as store:
        (run,) = store.runs()
        assert [row.state for row in store.candidates(run.id)] == ["timed", "duplicate"]
        assert {timing.phase for timing in store.timings(run.id)} == {"screen"}
    counts = (run.result or {})["counts"]
    assert (counts["asked"], counts["timed"], counts["duplicate"]) == (2, 1, 1)


def test_a_dry_run_shows_both_commands_and_writes_nothing(
    ab: Ab, flagfile: Callable[..., Path], workspace: Path
) -> None:
    code, out, err = ab("default", flagfile("tiled", TILED), *SHAPE, "--dry-run", "--json")
    assert code == 0, err
    document = json.loads(out)
    assert [TILED in arm["command"][0] for arm in document["arms"]] == [False, True]
    assert "linalg.matmul" in document["problem_mlir"]
    assert not workspace.exists()


def test_a_searched_kernel_that_is_no_faster_is_told_with_its_time_and_no_option_that_ab_refuses(
    ab: Ab, workspace: Path
) -> None:
    code, out, err = ab("sgemm_c", "--shape", "96x64x128", "--trials", "1", "--quiet")
    assert code == 0, err
    assert re.match(r"verdict +no-winner: ", out)
    assert re.search(r"^B .* ms .*sgemm_c", out, re.MULTILINE)
    (advice,) = [line for line in out.splitlines() if line.startswith("next")]
    assert "--microkernels" not in advice
    with Store.open(None, workspace=workspace, create=False) as store:
        (run,) = store.runs()
    a, b = (run.result or {})["arms"]
    assert (a["name"], a["kind"], b["name"], b["kind"]) == ("default", "default", "sgemm_c", "microkernel")
    assert (a["us"], b["us"]) == (100_000.0, 100_000.0)
    assert [(one["problem"], one["calls"]) for one in b["kernels"]] == [("gemm_96x64x128_f32_f32_nn", 1)]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["default"], "ab needs a microkernel and --shape"),
        (["default", "default", *SHAPE, "--function", "f"], "--function is for a model"),
        (["default", "default", *SHAPE, "--input", "96x128xf32", "--input", "128x64xf32"], "--input is for a model"),
        (["default", "default", *SHAPE, "-o", "spec.mlir"], "nothing is written"),
        (["default", "default", *SHAPE, "--object", "x.o"], "belong to one microkernel"),
        (["default", "default", "--model", "nothing.mlir"], "there is no model"),
        (["default", "default", "--model", "nothing.txt"], "is no model: its name ends in none of .mlir"),
        (["default", "--model", str(EXAMPLES / "three.mlir"), "--shape", "8x8x8"], "what a microkernel replaces"),
        (["default", "--shape", "1x2x8x8"], "is not MxNxK"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(words: list[str], says: str, ab: Ab) -> None:
    code, _, err = ab(*words, "--quiet")
    assert code == 2, err
    assert says in err
    assert "Traceback" not in err
