"""Folders that can be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.errors import StorageError
from autotuner.system.workspace import Workspace


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
