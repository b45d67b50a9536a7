"""What a user gets wrong is answered with an exit code and one clear line, and leaves nothing half-written."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from autotuner.store.store import Store
from autotuner.system.locks import device_lock, workspace_lock
from tests.support.command_line import AUTOTUNE, GEMM, Here, complaint, in_this_process
from tests.support.patience import ENOUGH

BUILT = ("gemm", "--shape", "64x64x64", "--target", "gfx942", "--device", "none")
"""Nothing but builds: no device, and no stock routes."""


def autotune(*words: str, cwd: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "NO_COLOR": "1", "AUTOTUNE_CACHE_DIR": str(cache)}
    command = [*AUTOTUNE, *words, "--quiet"]
    return subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=ENOUGH, check=False
    )


BEFORE_ANYTHING = [
    (["--shape", "0x4x4"], "M is '0'"),
    (["--shape", "4x4"], "is not MxNxK"),
    (["--shape", "1048576x1048576x1048576"], "GiB"),
    (["--shape", "٤x4x4"], "not a positive whole number"),
    (["--dtype", "f17"], "unknown dtype 'f17'"),
    (["--batch", "0"], "--batch"),
    (["--target", "gfx000"], "unknown target 'gfx000'"),
    (["--target", "vulkan"], "takes no tuning spec there"),
    (["--target", "h100", "--dtype", "f16"], "sm_80"),
    (["--trials", "0"], "--trials 0"),
    (["--budget", "banana"], "--budget 'banana'"),
    (["--budget", "2s"], "--budget 2s is too short for any verdict. Give 5s at the least"),
    (["--effort", "huge"], "unknown effort 'huge'"),
    (["--cache", "hot"], "unknown --cache 'hot'. Choose one of: warm, cold, both"),
    (["--keep", "some"], "unknown --keep some"),
    (["-o", "spec.txt"], "spec.txt is not an .mlir file"),
    (["--flag", "O3"], "'O3' is not an iree-compile flag"),
    (["--flag", "--output-format=vm-asm"], "'--output-format=vm-asm' is one that autotune sets itself"),
    (["--flag", "--iree-hal-target-backends=vmvx"], "compiles for something else than --target cpu"),
    (["--device", ""], "--device is empty"),
    (["--device", "none,local-task"], "names none beside a device"),
    (["--device", "cuda://0"], "cuda://0 is not a device for llvm-cpu code"),
]


@pytest.mark.parametrize(
    ("words", "said"),
    BEFORE_ANYTHING,
    ids=[" ".join(w).encode("ascii", "replace").decode() for w, _ in BEFORE_ANYTHING],
)
def test_a_bad_option_is_exit_2_and_one_line_before_anything_is_written(
    words: list[str], said: str, here: Here
) -> None:
    done = here(*GEMM, *words)
    assert said in complaint(done, 2)
    assert len(done.stderr.splitlines()) == 1
    assert not any(here.folder.iterdir())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([*GEMM, "--trials", "banana"], "'--trials'"),
        (["gemm"], "Missing option '--shape'"),
        (["tune"], "autotune --help"),
        (["frobnicate"], "No such command 'frobnicate'"),
        ([*GEMM, "--frobnicate"], "--frobnicate"),
    ],
)
def test_what_the_parser_refuses_is_exit_2_and_points_to_help(words: list[str], said: str, here: Here) -> None:
    done = here(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert said in done.stderr.splitlines()[-1]
    assert "--help" in done.stderr
    assert len(done.stderr.splitlines()) <= 4
    assert not any(here.folder.iterdir())


@pytest.mark.usefixtures("warm_cache")
def test_a_flag_that_iree_compile_refuses_shows_its_own_words(tmp_path: Path, here: Here) -> None:
    done = here(*GEMM, "--flag=--no-such-flag", "--quiet")
    said = complaint(done, 2)
    assert "Unknown command line argument '--no-such-flag'" in said
    assert len(done.stderr.splitlines()) == 1
    assert not any((tmp_path / "candidates").iterdir())
    with Store.open(None, workspace=tmp_path) as store:
        assert store.runs() == []


@pytest.mark.usefixtures("warm_cache")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--target", "sm_80", "--dtype", "f16", "--device", "cuda"], "cuda"),
        (["--device", "nonsense://0"], "no driver 'nonsense' registered"),
    ],
)
def test_a_device_that_is_not_there_is_exit_5_before_anything_is_compiled(
    words: list[str], said: str, tmp_path: Path, here: Here
) -> None:
    if "cuda" in words and Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a CUDA device")
    done = here(*GEMM, *words, "--quiet")
    line = complaint(done, 5)
    assert said in line
    assert "--device none" in line
    assert len(done.stderr.splitlines()) == 1
    with Store.open(None, workspace=tmp_path, create=False) as store:
        assert store.runs() == []
    assert not any((tmp_path / "candidates").iterdir()), "a run that could not begin leaves no folder"


def test_a_database_of_a_newer_autotune_is_left_alone(tmp_path: Path, here: Here) -> None:
    with Store.open(None, workspace=tmp_path):
        pass
    database = tmp_path / "results" / "autotune.db"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute("UPDATE autotune_schema SET version = 99")
    for words in ([*GEMM, "--quiet"], ["history"], ["export", "--json"]):
        assert "newer autotune (schema 99" in complaint(here(*words), 5)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("SELECT count(*) FROM runs").fetchone() == (0,)


def test_a_file_that_is_no_database_is_left_alone(tmp_path: Path, here: Here) -> None:
    database = tmp_path / "results" / "autotune.db"
    database.parent.mkdir()
    database.write_text("minutes of the last meeting\n" * 100)
    before = database.read_bytes()
    for words in ([*GEMM, "--quiet"], ["history"], ["export", "--csv"]):
        assert "is not a database" in complaint(here(*words), 5)
    assert database.read_bytes() == before


@pytest.mark.parametrize("words", [["history"], ["export", "--json"], ["report"]])
def test_results_that_are_not_there_are_exit_5_and_an_unknown_run_is_exit_2(words: list[str], here: Here) -> None:
    """And nobody waits for a run that goes on."""
    assert "there are no results yet" in complaint(here(*words), 5)
    assert not any(here.folder.iterdir())
    with Store.open(None, workspace=here.folder), workspace_lock(here.folder):
        assert "there is no run 'nobody'" in complaint(here(*words, "nobody"), 2)


@pytest.mark.parametrize("words", [[*GEMM, "--quiet"], [*GEMM, "--dry-run"]])
def test_a_missing_compiler_is_exit_5_and_says_what_to_install(words: list[str], here: Here) -> None:
    def nothing(name: str) -> str:
        raise ValueError(f"no {name}")

    here.monkeypatch.setattr("iree.compiler.tools.binaries.find_tool", nothing)
    done = here(*words)
    said = complaint(done, 5)
    assert "iree-compile is not installed. Install it with `pip install 'iree-base-compiler>=" in said
    assert len(done.stderr.splitlines()) == 1
    assert not any(here.folder.iterdir())


# --- a disk that fills up --------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few hundred kB."""
    folder = tmp_path / "small"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None or os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    done = subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=250k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"cannot mount a small file system here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.long  # what is full is told by the cache, the database and a build, each in its own tests
@pytest.mark.usefixtures("warm_cache")
def test_a_disk_that_fills_up_in_the_middle_is_exit_5_and_one_line(small_disk: Path) -> None:
    home = small_disk.parent
    words = (*BUILT, "--workspace", str(small_disk), "--trials", "40", "--budget", "20m", "--jobs", "2")
    (small_disk / "ballast").write_bytes(b"x" * 100_000)
    done = autotune(*words, cwd=home, cache=home / "cache")
    line = complaint(done, 5)
    assert "o space left" in line
    assert len(done.stderr.splitlines()) == 1

    # What failed for want of space is not remembered as the candidates' fault.
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    fewer = [word if word != "40" else "2" for word in words]
    again = in_this_process(*fewer, "--quiet", "--json", "--resume", cwd=home, cache=home / "cache")
    assert again.returncode == 0, again.stderr
    assert sum(json.loads(again.stdout)["counts"]["failed"].values()) == 0


@pytest.mark.parametrize(("state", "said"), [("full", "o space left"), ("read-only", "ead-only file system")])
def test_a_cache_that_cannot_be_written_is_exit_5_and_one_line(
    small_disk: Path, tmp_path: Path, share_digests: Callable[[Path], None], state: str, said: str
) -> None:
    share_digests(small_disk / "cache")
    (small_disk / "ballast").write_bytes(b"x" * 240_000)
    if state == "read-only":
        subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    line = complaint(autotune(*BUILT, "--trials", "1", cwd=tmp_path, cache=small_disk / "cache"), 5)
    assert said in line
    assert "AUTOTUNE_CACHE_DIR" in line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "-o", "page.txt"), "-o page.txt is not an .html file"),
        (
            ("history", "--storage", "mysql://me:secret@host/results"),
            "a database of mysql, which autotune does not know",
        ),
        (("bench", "nowhere.onnx"), "there is no model nowhere.onnx"),
        (("ab", "default", "default", "--model", "nowhere.mlir"), "there is no model nowhere.mlir"),
        (("model", "round.mlir"), "there is no model round.mlir"),
        (("apply",), "apply needs a MODEL or a --shape"),
        (("apply", "attention", "--shape", "64x64x64"), "a MODEL or a --shape, not both"),
        (("compare", "half.json", "half.json"), "half.json is no export of autotune"),
    ],
)
def test_what_cannot_be_read_or_written_so_is_said_at_once(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text('[{"run": "half')
    (tmp_path / "round.mlir").symlink_to("round.mlir")
    refused = in_this_process(*words, cwd=tmp_path)
    assert said in complaint(refused, 2)
    assert "secret" not in refused.stderr


def test_a_model_that_is_not_there_waits_for_no_device(tmp_path: Path) -> None:
    with device_lock("local-task", tmp_path / "cache"):
        done = in_this_process("model", "nowhere.mlir", cwd=tmp_path, cache=tmp_path / "cache")
        assert "there is no model nowhere.mlir" in complaint(done, 2)
