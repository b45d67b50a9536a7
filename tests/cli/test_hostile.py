"""Whatever is typed, stored or plugged in, autotune ends with an exit code and one line, never with a traceback."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from autotuner.devices.device import Timing
from autotuner.space.table import Config
from autotuner.store.rows import NewRun
from autotuner.store.store import Store
from tests.support.command_line import AUTOTUNE, GEMM, Here, complaint, in_this_process
from tests.support.won_run import won_run

HUGE = "9" * 40


def raw(*words: str | bytes, cwd: Path | bytes, **settings: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "NO_COLOR": "1", "AUTOTUNE_CACHE_DIR": os.fsdecode(cwd) + "/cache", **settings}
    return subprocess.run(
        [*AUTOTUNE, *words], cwd=cwd, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )


# --- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seed", "9223372036854775808"], "--seed 9223372036854775808 is too large"),
        (["--trials", HUGE], "is too many"),
        (["--jobs", "1000000000"], "--jobs 1000000000 is too many"),
        (["--budget", "inf"], "is not a duration"),
        (["--budget", "9" * 400], "is too long"),
        (["--shape", f"{HUGE}x1x1"], "M is larger than"),
        (["suite", "unet", "--threshold", "nan"], "--threshold"),
        (["model", "absent.mlir", "--min-share", "nan"], "--min-share"),
        (["model", "absent.mlir", "--tolerance", "inf"], "--tolerance"),
        (["model", "absent.mlir", "--top", f"-{HUGE}"], "--top"),
    ],
)
def test_a_number_that_no_machine_can_mean_is_exit_2(words: list[str], said: str, here: Here) -> None:
    assert said in complaint(here(*(GEMM if words[0].startswith("--") else ()), *words), 2)


# --- stdout, stderr and their encoding -------------------------------------------------------------------------------


def test_output_that_cannot_be_written_is_exit_5_and_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*AUTOTUNE, "cache"], cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 5
    assert done.stderr == "autotune: the output cannot be written: No space left on device. Write it elsewhere.\n"


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*AUTOTUNE, "cache"], cwd=tmp_path, stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_nobody_needs_to_read_stderr(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([*AUTOTUNE, "history", "--limit", "0"], cwd=tmp_path, stderr=full, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize("settings", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0"}], ids=str)
def test_what_an_encoding_does_not_have_is_escaped(settings: dict[str, str], tmp_path: Path) -> None:
    done = raw("spec", "show", "absent-µ.mlir", cwd=tmp_path, **settings)
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert done.stderr.isascii() or "LC_ALL" in settings


@pytest.mark.parametrize(
    "settings", [{"COLUMNS": "1"}, {"TERM": "", "COLUMNS": "x", "LINES": "-1", "HOME": ""}], ids=str
)
def test_a_strange_terminal_is_no_error(settings: dict[str, str], tmp_path: Path) -> None:
    done = in_this_process("suite", "--list", cwd=tmp_path, cache=None, **settings)
    assert (done.returncode, done.stderr) == (0, "")


# --- files and folders -----------------------------------------------------------------------------------------------


def test_a_path_that_is_not_utf_8_is_exit_2_wherever_it_comes_from(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/caf\xe9"
    os.mkdir(folder)
    given = raw("history", b"--workspace", folder, cwd=tmp_path)
    current = raw(*GEMM, "--quiet", cwd=folder, AUTOTUNE_CACHE_DIR=str(tmp_path / "cache"))
    for done in (given, current):
        assert done.returncode == 2, done.stderr
        assert b"not valid UTF-8" in done.stderr
        assert done.stderr.count(b"\n") == 1
    assert os.listdir(folder) == []


def test_a_current_folder_that_is_gone_is_exit_5(tmp_path: Path) -> None:
    """With no folder before those of the packages, as in the installed script: others' modules need not bear it."""
    program = (
        "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n"
        "from autotuner.__main__ import main; sys.argv = ['autotune', *sys.argv[1:]]; main()"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *GEMM], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "the current folder" in complaint(done, 5)


@pytest.mark.parametrize("words", [[*GEMM, "--quiet"], ["cache"], ["cache", "--clear"]], ids=" ".join)
def test_a_cache_folder_that_is_a_file_is_left_alone(words: list[str], tmp_path: Path, here: Here) -> None:
    (tmp_path / "cache").write_text("here first")
    done = here(*words)
    assert done.returncode in (0, 5)
    assert "Traceback" not in done.stderr
    assert (tmp_path / "cache").read_text() == "here first"


@pytest.mark.parametrize(
    "words",
    [
        ["spec", "show", "/dev/full"],
        *(["spec", "show", "pipe.csv"], ["ab", "--inspect", "pipe.csv"], ["suite", "pipe.csv"]),
        *(["bundle", "run", "pipe.zip"], ["bundle", "import", "pipe.zip"]),
    ],
    ids=" ".join,
)
def test_a_pipe_or_a_device_is_not_read_for_ever(words: list[str], tmp_path: Path, here: Here) -> None:
    for name in ("pipe.csv", "pipe.zip"):
        os.mkfifo(tmp_path / name)
    assert f"{words[-1]} is a pipe or a device" in complaint(here(*words), 2)


# --- databases -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE runs SET problem = '{'",
        "UPDATE runs SET command = '5'",
        "UPDATE runs SET started = 'yesterday'",
        "UPDATE runs SET result = '\"win\"'",
        'UPDATE runs SET result = \'{"baseline": {"us": "fast"}}\'',
        "UPDATE candidates SET config = '3'",
        "UPDATE candidates SET us = 'quick'",
        "UPDATE candidates SET kind = 7, route = x'00'",
    ],
)
def test_a_database_with_a_bad_row_is_exit_5_and_one_line(change: str, tmp_path: Path, here: Here) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        run = store.start_run(NewRun("single", "k", ["autotune"], {"name": "p"}, "cpu", "local-task", 0))
        row = store.add_candidate(run, ordinal=0, config=Config((("tile", 8),)))
        store.record_timing(row, Timing((1.0, 2.0)), phase="screen", block=0)
        store.finish_run(run, "finished", result={"verdict": "win", "best": {"us": 1.0}})
    with closing(sqlite3.connect(tmp_path / "results" / "autotune.db")) as connection, connection:
        connection.execute(change)
    failed = 0
    for words in (["history"], ["history", "--json"], ["history", run], ["export", "--json"], ["export", "--csv"]):
        done = here(*words)
        assert done.returncode in (0, 5), done.stderr
        if done.returncode:
            failed += 1
            assert "holds a row that cannot be read" in complaint(done, 5)
    assert failed


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n"
TRIGGER = f"CREATE TRIGGER t AFTER UPDATE ON runs BEGIN UPDATE runs SET seed = (SELECT count(*) FROM ({ENDLESS})); END"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (f"DROP TABLE timings; CREATE VIEW timings AS {ENDLESS}", "holds views or triggers"),
        (f"UPDATE runs SET status = 'running'; {TRIGGER}", "holds views or triggers"),
    ],
)
def test_a_database_without_an_end_is_not_read_for_ever(change: str, said: str, tmp_path: Path, here: Here) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        run = won_run(store)
    with closing(sqlite3.connect(tmp_path / "results" / "autotune.db")) as connection, connection:
        connection.executescript(change)
    assert said in complaint(here("history", run), 5)


# --- what nobody foresaw ---------------------------------------------------------------------------------------------


def test_a_bug_is_exit_1_and_one_line_and_its_details_are_in_a_file(here: Here) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("not\nforeseen")

    here.monkeypatch.setattr("autotuner.system.cache.Cache", fail)
    done = here("cache")
    line = complaint(done, 1)
    assert "this is a bug of autotune: RuntimeError: not foreseen" in line
    (file,) = (here.folder / "cache").glob("bug-*.txt")
    assert str(file) in line
    assert "Traceback" in file.read_text()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ImportError("libIREECompiler.so: failed to map segment from shared object"), "a Python package does not load"),
        (MemoryError(), "this machine has not enough memory"),
    ],
    ids=["library", "array"],
)
def test_memory_that_does_not_suffice_is_exit_5(here: Here, error: Exception, said: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    here.monkeypatch.setattr("autotuner.system.cache.Cache", fail)
    assert said in complaint(here("cache"), 5)


def test_a_system_call_that_fails_is_exit_5_and_names_the_file(here: Here) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/somewhere")

    here.monkeypatch.setattr("autotuner.system.cache.Cache", fail)
    assert "/somewhere cannot be used: Permission denied." in complaint(here("cache"), 5)
