"""`autotune suite` as a user meets it."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from autotuner.jobs.suite.load import problems_of, suite_names
from tests.support.command_line import in_this_process

EXAMPLES = Path(__file__).parent / "examples"
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def autotune(tmp_path: Path) -> Command:
    """The command in this process and in a folder of its own."""
    return partial(in_this_process, cwd=tmp_path, cache=tmp_path / "cache", NO_COLOR="1", COLUMNS="120")


def test_list_names_the_suites_with_their_counts(autotune: Command) -> None:
    done = autotune("suite", "--list")
    assert (done.returncode, done.stderr) == (0, "")
    for name in suite_names():
        line = next(line for line in done.stdout.splitlines() if line.startswith(name))
        assert str(len(problems_of(name))) in line.split()
    listed = json.loads(autotune("suite", "--list", "--json").stdout)
    assert {one["name"]: one["problems"] for one in listed}["compute"] == 8


def test_list_prints_the_problems_of_a_log_with_their_calls_and_reports_the_rest_on_stderr(autotune: Command) -> None:
    log = str(EXAMPLES / "decode.yaml")
    done = autotune("suite", log, "--list", "--json")
    document = json.loads(done.stdout)
    assert [problem["calls"] for problem in document["problems"]] == [4, 100, 80, 7, 16]
    assert document["problems"][1]["name"] == "gemm_109x1280x8192_bf16_f32_bf16_nt"
    assert [(one["line"], one["lines"]) for one in document["skipped"]] == [(6, 1), (8, 1), (10, 1)]
    for number in (6, 8):
        assert f"skipped: line {number}: " in done.stderr
    assert autotune("suite", log, "--list", "--quiet").stderr == ""


def test_the_commands_of_a_list_are_for_its_target(autotune: Command) -> None:
    done = autotune("suite", "compute", "--list", "--target", "gfx942", "--flag=--iree-opt-level=O3", "--quiet")
    lines = [line for line in done.stdout.splitlines() if "autotune gemm" in line]
    assert len(lines) == 8
    assert all(line.endswith("--target gfx942 --flag=--iree-opt-level=O3") for line in lines)
    command = shlex.split(lines[0][lines[0].index("autotune ") :])[1:]
    assert "space" in autotune(*command, "--device", "none", "--dry-run").stdout, "it can be pasted"


def test_a_dry_run_shows_the_problems_and_the_commands_of_the_largest(autotune: Command, tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("op,shape,dtype,calls\ngemm,16x16x16,f32,9\ngemm,64x64x64,f32,1\n")
    document = json.loads(autotune("suite", "two.csv", "--dry-run", "--json").stdout)
    assert [problem["calls"] for problem in document["problems"]] == [9, 1]
    assert document["rehearsal"]["problem"]["name"] == "gemm_64x64x64_f32_f32_nn"
    assert "iree-compile" in document["rehearsal"]["commands"][0]
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "needs a name or a file"),
        (("nosuch",), "there is no suite 'nosuch'"),
        (("absent.csv",), "absent.csv cannot be read"),
        (("bad.csv",), "line 3: --shape '7' is not MxNxK"),
        (("bad.log",), "holds nothing that can be tuned"),
        (("unet", "--threshold", "101"), "--threshold 101 is not a percentage"),
        (("unet", "--threshold", "nan"), "--threshold nan is not a percentage"),
        (("unet", "--sample", "0"), "--sample 0 is not positive"),
        (("unet", "--sample", "0", "--list"), "--sample 0 is not positive"),
        (("unet", "--budget", "soon"), "'soon' is not a duration"),
        (("unet", "-o", "spec.txt"), "is not an .mlir file"),
        (("f8.csv", "--target", "sm_80"), "sm_80 can tune no problem of f8"),
    ],
)
def test_what_is_wrong_ends_with_2_and_one_line(
    autotune: Command, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    (tmp_path / "bad.csv").write_text("op,shape\ngemm,1x2x3\ngemm,7\n")
    (tmp_path / "bad.log").write_text("no mapping\n")
    (tmp_path / "f8.csv").write_text("op,shape,dtype\ngemm,8x8x8,f8\n")
    done = autotune("suite", *words)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert not (tmp_path / "results" / "suites").exists()
