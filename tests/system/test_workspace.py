"""Folders that can be written, and files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotuner.errors import StorageError
from autotuner.system.workspace import Workspace, write_whole


def full(*_: object, **__: object) -> Any:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_workspace_is_made_with_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    workspace = Workspace.open(Path("new") / "deep")
    assert workspace.root == tmp_path / "new" / "deep"
    assert sorted(p.name for p in workspace.root.iterdir()) == ["candidates", "results", "specs"]
    for folder in (workspace.candidates, workspace.results, workspace.specs):
        assert folder.is_absolute()
        assert list(folder.iterdir()) == []
    assert Workspace.open(workspace.root) == workspace


def test_a_workspace_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for root in (Path("/proc/nope"), file, file / "below"):
        with pytest.raises(StorageError, match="cannot be written") as caught:
            Workspace.open(root)
        assert str(root) in caught.value.message
        assert caught.value.remedy == "Choose another --workspace."
        assert caught.value.exit_code == 5


def test_a_full_disk_refuses_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with pytest.raises(StorageError, match="No space left on device"):
        Workspace.open(tmp_path)


def test_a_file_is_written_whole_and_readable_to_all(tmp_path: Path) -> None:
    path = tmp_path / "new" / "spec.mlir"
    write_whole(path, "one\n")
    write_whole(path, "two · ²\n")
    assert path.read_bytes().decode() == "two · ²\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert [p.name for p in path.parent.iterdir()] == ["spec.mlir"]


def fail_replace(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "replace", full)


def fail_fsync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(os, "fsync", full)


def fail_write(patch: pytest.MonkeyPatch) -> None:
    real = tempfile.NamedTemporaryFile

    def limited(*args: Any, **options: Any) -> Any:
        file: Any = real(*args, **options)
        file.write = full
        return file

    patch.setattr(tempfile, "NamedTemporaryFile", limited)


@pytest.mark.parametrize("fail", [fail_replace, fail_fsync, fail_write])
@pytest.mark.parametrize("old", ["the old text", None])
def test_a_full_disk_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fail: Callable[[pytest.MonkeyPatch], None], old: str | None
) -> None:
    path = tmp_path / "spec.mlir"
    if old is not None:
        path.write_text(old)
    with monkeypatch.context() as patch:
        fail(patch)
        with pytest.raises(StorageError, match="No space left on device") as caught:
            write_whole(path, "the new text")
    assert "Free some space" in caught.value.remedy
    assert [p.name for p in tmp_path.iterdir()] == ([] if old is None else ["spec.mlir"])
    if old is not None:
        assert path.read_text() == old


def test_text_that_cannot_be_encoded_leaves_no_half_file(tmp_path: Path) -> None:
    path = tmp_path / "spec.mlir"
    path.write_text("the old text")
    with pytest.raises((StorageError, UnicodeError)):
        write_whole(path, "a path of other bytes: \udcff")
    assert path.read_text() == "the old text"
    assert [p.name for p in tmp_path.iterdir()] == ["spec.mlir"]


def test_a_folder_in_the_files_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "spec.mlir").mkdir()
    with pytest.raises(StorageError, match="cannot write"):
        write_whole(tmp_path / "spec.mlir", "text")
    assert [p.name for p in tmp_path.iterdir()] == ["spec.mlir"]
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        write_whole(tmp_path / "file" / "spec.mlir", "text")
