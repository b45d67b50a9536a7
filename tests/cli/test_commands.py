"""The commands as a user meets them: what they print where, and that it agrees with the store."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autotuner import __version__
from autotuner.carriers.render import MARKER
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.store.store import Store
from tests.support.command_line import AUTOTUNE
from tests.support.command_line import in_this_process as autotune
from tests.support.fake_tools import SPEC, FakeTools
from tests.support.patience import ENOUGH

ESCAPE = "\x1b"
BUILT = ("gemm", "--shape", "64x64x64", "--target", "gfx942", "--device", "none", "--microkernels", "none")
"""Built and proven, and never timed."""


@dataclass(frozen=True)
class Finished:
    """A whole run that the tests of this file look at; its times are given."""

    workspace: Path
    document: dict[str, Any]
    stderr: str
    cache: Path

    @property
    def run(self) -> str:
        return str(self.document["run"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, share_digests: Callable[[Path], None]) -> Finished:
    workspace, cache = tmp_path_factory.mktemp("workspace"), tmp_path_factory.mktemp("cache")
    share_digests(cache)
    fake = FakeTools(tmp_path_factory.mktemp("fake"), tmp_path_factory.mktemp("labels"), rules=[(SPEC, 50.0)])
    words = ["gemm", "--shape", "64x64x64", "--dtype", "f32", "--trials", "3", "--budget", "10m", "--json"]
    words += ["--microkernels", "none"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tools, "find", lambda _folder=None: fake.tools)
        patch.setattr(Gemm, "routes", Gemm.routes[:1])
        done = autotune(*words, cwd=workspace, cache=cache)
    assert done.returncode == 0, done.stderr
    return Finished(workspace, json.loads(done.stdout), done.stderr, cache)


# --- stdout and stderr -----------------------------------------------------------------------------------------------


def test_json_is_one_document_on_stdout_and_progress_is_on_stderr(finished: Finished) -> None:
    assert finished.document["schema"] == 1
    assert finished.document["verdict"] == "win"
    assert "timing IREE's default" in finished.stderr
    assert "searching" in finished.stderr
    assert ESCAPE not in finished.stderr


@pytest.fixture(scope="module")
def spoken(finished: Finished) -> subprocess.CompletedProcess[str]:
    """A short run for people, compile only."""
    return autotune(*BUILT, "--trials", "2", cwd=finished.workspace, cache=finished.cache)


def test_the_result_for_people_says_verdict_problem_and_counts(spoken: subprocess.CompletedProcess[str]) -> None:
    assert spoken.returncode == 0
    assert re.search(r"^verdict +compile-only: ", spoken.stdout, re.MULTILINE)
    assert re.search(r"^problem +gemm_64x64x64_f16_f32_nn on gfx942 \(none\)$", spoken.stdout, re.MULTILINE)
    assert "reading the space" in spoken.stderr
    assert ESCAPE not in spoken.stdout + spoken.stderr, "no colour where there is no terminal"


def test_quiet_says_nothing_but_the_result(finished: Finished, spoken: subprocess.CompletedProcess[str]) -> None:
    done = autotune(*BUILT, "--trials", "2", "--quiet", cwd=finished.workspace, cache=finished.cache)
    assert (done.returncode, done.stderr) == (0, "")
    # Each run has a folder of its own.
    both = [
        [line for line in text.splitlines() if not line.startswith(("more ", "candidate "))]
        for text in (done.stdout, spoken.stdout)
    ]
    assert both[0] == both[1]


@pytest.mark.parametrize("coloured", [True, False])
def test_no_color_gives_no_colour_on_a_terminal(finished: Finished, coloured: bool) -> None:
    text = on_terminal(["history"], finished, **({} if coloured else {"NO_COLOR": "1"}))
    assert finished.run in text
    assert bool(re.findall(r"\x1b\[(?:3\d|9\d|38;[\d;]+)(?:;\d+)*m|\x1b\[\d+;3\dm", text)) == coloured


def on_terminal(words: list[str], finished: Finished, **settings: str) -> str:
    """What a command prints when it talks to a terminal."""
    ours, theirs = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    environment |= {"TERM": "xterm-256color", "AUTOTUNE_CACHE_DIR": str(finished.cache), **settings}
    child = subprocess.Popen(
        [*AUTOTUNE, *words], cwd=finished.workspace, env=environment, stdout=theirs, stderr=subprocess.DEVNULL
    )
    os.close(theirs)
    try:
        return b"".join(read_all(ours)).decode()
    finally:
        assert child.wait(timeout=ENOUGH) == 0
        os.close(ours)


def read_all(file: int) -> Iterator[bytes]:
    while True:
        try:
            data = os.read(file, 4096)
        except OSError:  # the other end of a terminal was closed
            return
        if not data:
            return
        yield data


# --- history and export ----------------------------------------------------------------------------------------------


def test_history_lists_the_runs_newest_first(finished: Finished, spoken: subprocess.CompletedProcess[str]) -> None:
    assert spoken.returncode == 0
    done = autotune("history", "--json", cwd=finished.workspace)
    records = json.loads(done.stdout)
    assert [r["started"] for r in records] == sorted((r["started"] for r in records), reverse=True)
    (mine,) = [r for r in records if r["run"] == finished.run]
    assert mine["verdict"] == finished.document["verdict"]
    assert (mine["asked"], mine["timed"]) == (
        finished.document["counts"]["asked"],
        finished.document["counts"]["timed"],
    )
    assert mine["baseline_us"] == finished.document["baseline"]["us"]
    newest = autotune("history", "--json", "--limit", "1", cwd=finished.workspace)
    assert [r["run"] for r in json.loads(newest.stdout)] == [records[0]["run"]]
    everything = autotune("history", "--json", "--limit", "1" + "0" * 30, cwd=finished.workspace)
    assert everything.stdout == done.stdout, "more than a database can count are all"
    table = autotune("history", cwd=finished.workspace, COLUMNS="200").stdout
    assert all(r["run"] in table and r["problem"] in table for r in records)


def test_results_may_be_kept_in_another_database(finished: Finished, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/elsewhere.db"
    done = autotune(*BUILT, "--trials", "1", "--json", "--storage", url, cwd=tmp_path, cache=finished.cache)
    assert done.returncode == 0
    assert not (tmp_path / "results" / "autotune.db").exists()
    (record,) = json.loads(autotune("history", "--json", "--storage", url, cwd=tmp_path).stdout)
    assert record["run"] == json.loads(done.stdout)["run"]


# --- cache, version, help --------------------------------------------------------------------------------------------


def test_the_cache_is_shown_and_cleared(finished: Finished, tmp_path: Path) -> None:
    shown = json.loads(autotune("cache", "--json", cwd=tmp_path, cache=finished.cache).stdout)
    assert shown["path"] == str(finished.cache)
    assert shown["builds"] > 0
    assert shown["bytes"] > 0
    words = autotune("cache", cwd=tmp_path, cache=finished.cache).stdout
    assert f"{finished.cache}: {shown['builds']} builds" in words

    shutil.copytree(finished.cache, own := tmp_path / "own")
    (own / "builds" / "mine").write_text("")
    assert json.loads(autotune("cache", "--json", cwd=tmp_path, cache=own).stdout)["builds"] == shown["builds"]
    cleared = json.loads(autotune("cache", "--clear", "--json", cwd=tmp_path, cache=own).stdout)
    assert (cleared["builds"], cleared["bytes"]) == (0, 0)
    assert [path.name for path in (own / "builds").iterdir()] == ["mine"]


@pytest.mark.parametrize("command", [["autotune"], [sys.executable, "-m", "autotuner"]])
def test_version_is_told_from_any_directory(command: list[str], tmp_path: Path) -> None:
    script = Path(sys.executable).with_name("autotune")
    words = [str(script)] if command == ["autotune"] else command
    if not Path(words[0]).exists():
        pytest.skip("the script is not installed beside this Python")
    done = subprocess.run([*words, "--version"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"autotune {__version__}\n", "")
    assert not any(tmp_path.iterdir())


# --- no device -------------------------------------------------------------------------------------------------------


def test_without_a_device_candidates_are_built_and_proven(finished: Finished, tmp_path: Path) -> None:
    done = autotune(*BUILT, "--trials", "3", "--json", cwd=tmp_path, cache=finished.cache)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    counts = document["counts"]
    assert (document["verdict"], document["target"], document["device"]) == ("compile-only", "gfx942", "none")
    assert (document["spec"], document["flagfile"], document["carrier"]) == (None, None, None)
    assert (document["baseline"]["us"], document["best"]["us"], document["speedup"]) == (None, None, None)
    assert "estimate" in document["reason"]
    scores = [entry["estimate"]["score"] for entry in document["ranking"]]
    assert len(scores) >= 2
    assert scores == sorted(scores)
    assert document["best"] == document["ranking"][0]
    assert document["best"]["isa"]["vgpr"] > 0
    assert (
        MARKER in (tmp_path / "candidates" / document["run"] / document["best"]["candidate"] / "spec.mlir").read_text()
    )
    assert counts["failed"]["not-applied"] == 0
    assert counts["built"] + sum(counts["failed"].values()) == counts["asked"]
    assert counts["built"] >= 2
    assert (counts["timed"], counts["checked"]) == (0, 0)
    assert counts["space"] > 10
    with Store.open(None, workspace=tmp_path) as store:
        rows, builds = store.candidates(document["run"]), store.builds(document["run"])
        assert store.timings(document["run"]) == []
    specs = {row.id for row in rows if row.kind == "codegen"}
    assert (len(specs), len(rows)) == (3, counts["asked"])
    assert all(build.applied > 0 for build in builds if build.candidate in specs)
    assert json.loads(autotune("export", "--json", cwd=tmp_path).stdout) == []


def test_a_listing_in_a_pipe_is_whole_however_narrow_the_terminal_was(tmp_path: Path) -> None:
    done = autotune("ab", "--list", cwd=tmp_path, cache=tmp_path / "cache")
    assert done.returncode == 0, done.stderr
    assert "…" not in done.stdout
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("misa_igemm_fwd_nhwc_fp16 "))
    assert "MISA implicit GEMM convolutions, f16, channels last" in line


def test_a_relative_file_in_a_flag_is_found_and_a_word_stays_a_word(tmp_path: Path) -> None:
    (tmp_path / "host").touch()
    (tmp_path / "wrong.mlir").write_text("this is no spec")
    flags = ["--flag=--iree-codegen-tuning-spec-path=wrong.mlir", "--flag=--iree-llvmcpu-target-cpu=host"]
    words = ["gemm", "--shape", "64x64x64", "--dtype", "f32", "--device", "none", "--quiet", *flags]
    done = autotune(*words, cwd=tmp_path)
    assert f"{tmp_path}/wrong.mlir" in done.stderr.splitlines()[-1]
    assert "o such file" not in done.stderr
