"""Files that appear whole or not at all, and replace nothing that autotune did not write."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autotuner.errors import StorageError, UsageError
from autotuner.system.files import begins, claim, write_whole, written
from tests.support.patience import wait_until

ROOT = Path(__file__).parents[2]

OURS = begins(rb"// by autotune \d\n")
MINE, OLD = "my thesis, made faster by autotune 1\n", "// by autotune 1\nold\n"


@pytest.fixture(params=[0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_file_is_written_whole_with_the_mode_that_the_umask_leaves(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "new" / "spec.mlir"
    write_whole(path, "one\n")
    write_whole(path, "two · ²\n")
    assert path.read_bytes().decode() == "two · ²\n"
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    assert [p.name for p in path.parent.iterdir()] == ["spec.mlir"]


@pytest.mark.parametrize("mode", [0o600, 0o664])
def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "spec.mlir"
    path.write_text(OLD)
    path.chmod(mode)
    with written(path, OURS) as file:
        (beside,) = (one for one in tmp_path.iterdir() if one != path)
        assert beside.stat().st_mode & 0o777 == mode, "what is private is so from the first byte"
        file.write(b"new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", mode)


def test_what_autotune_did_not_write_is_replaced_by_force_alone(tmp_path: Path) -> None:
    path = tmp_path / "spec.mlir"
    path.write_text(MINE)
    attempts: list[Callable[[], None]] = [lambda: claim(path, OURS), lambda: write_whole(path, "new", OURS)]
    for attempt in attempts:
        with pytest.raises(UsageError, match="was not written by autotune") as caught:
            attempt()
        assert "--force" in caught.value.remedy
    assert path.read_text() == MINE
    claim(path, OURS, force=True)
    write_whole(path, "new", OURS, force=True)
    assert path.read_text() == "new"
    path.write_text(OLD)
    write_whole(path, "newer", OURS)
    assert path.read_text() == "newer"


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("what", ["folder", "link", "device or pipe"])
def test_what_is_no_plain_file_is_refused_whatever_is_said(tmp_path: Path, what: str, force: bool) -> None:
    path, target = tmp_path / "out.html", tmp_path / "target"
    target.write_text(OLD)
    make: dict[str, Callable[[], object]] = {
        "folder": path.mkdir, "link": lambda: path.symlink_to(target), "device or pipe": lambda: os.mkfifo(path),
    }  # fmt: skip
    make[what]()
    for attempt in (claim, lambda *words, **how: write_whole(words[0], "new", words[1], **how)):
        with pytest.raises(UsageError, match=f"a {what} and not a file"):
            attempt(path, OURS, force=force)
    assert target.read_text() == OLD
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.html", "target"]


def test_a_link_that_waits_where_the_file_is_made_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can guess the name; who could would gain nothing."""
    target = tmp_path / "target"
    target.write_text(OLD)
    monkeypatch.setattr("secrets.token_hex", lambda _: "guessed")
    (tmp_path / ".autotune-guessed").symlink_to(target)
    with pytest.raises(StorageError, match="File exists"):
        write_whole(tmp_path / "out", "new", OURS)
    assert target.read_text() == OLD


@pytest.mark.parametrize("call", ["replace", "fsync", "open"])
@pytest.mark.parametrize("old", ["the old text", None])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, old: str | None
) -> None:
    path = tmp_path / "spec.mlir"
    if old is not None:
        path.write_text(old)
    with monkeypatch.context() as patch:
        patch.setattr(os, call, full)
        with pytest.raises(StorageError, match="No space left on device") as caught:
            write_whole(path, "the new text")
    assert "Free some space" in caught.value.remedy
    assert [p.name for p in tmp_path.iterdir()] == ([] if old is None else ["spec.mlir"])
    if old is not None:
        assert path.read_text() == old


def test_who_is_killed_while_it_writes_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    program = (
        "import os, signal; from pathlib import Path; from autotuner.system.files import written\n"
        "with written(Path('file')) as file: file.write(b'new'); file.flush(); os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert killed.returncode == -signal.SIGKILL
    assert wait_until(lambda: os.listdir(tmp_path) == ["file"])
    assert (tmp_path / "file").read_text() == "old"


def test_text_that_cannot_be_encoded_leaves_no_half_file(tmp_path: Path) -> None:
    path = tmp_path / "spec.mlir"
    path.write_text("the old text")
    with pytest.raises((StorageError, UnicodeError)):
        write_whole(path, "a path of other bytes: \udcff")
    assert path.read_text() == "the old text"
    assert [p.name for p in tmp_path.iterdir()] == ["spec.mlir"]
