"""Folders that can be written, and text of a user's or of a file's that never leads to another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.build.ship import write_parts
from autotuner.carriers.carrier import Parts
from autotuner.carriers.outputs import MODEL, Outputs
from autotuner.errors import StorageError, UsageError
from autotuner.jobs.model.route_search import choose
from autotuner.programs.model import Model
from autotuner.system.workspace import RULE, Workspace, checked_name, is_component
from autotuner.targets import Target

BAD = ["../..", "..", ".", "", "/tmp", "a/../b", "a..b", ".hidden", "-x", "a b", "a\nb", "a\x1b[0m", "x" * 201, "ä"]


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_name_names_no_route_and_no_run(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name"):
        checked_name(name, what="a route")
    with pytest.raises(UsageError, match="cannot name a route"):
        Model(tmp_path / "model.mlir", routes=(f"{name}=--iree-opt-data-tiling",))
    with pytest.raises(StorageError, match="cannot name a folder"):
        Workspace(tmp_path).run_folder(name)


def test_a_name_may_have_one_letter_or_200_and_the_rule_is_told() -> None:
    for fits in ("a", "x" * 200):
        assert checked_name(fits, what="a route") == fits
        assert is_component(fits)
    for not_so in ("", "x" * 201):
        assert not is_component(not_so)
    with pytest.raises(UsageError, match=r"'a/b' cannot name a route") as caught:
        checked_name("a/b", what="a route")
    assert caught.value.remedy == RULE


def test_a_route_of_ones_own_has_a_name_of_its_own(tmp_path: Path) -> None:
    target = Target.parse("cpu")
    model = Model(tmp_path / "m.mlir", routes=("mine+2=--iree-opt-data-tiling", "data-tiling"))
    assert {"plain", "data-tiling", "mine+2"} == {route.name for route in choose(target, model.routes, {"gemm"}).first}
    for twice in (("plain=--x",), ("a=--x", "a=--y")):
        with pytest.raises(UsageError, match="already"):
            choose(target, twice, {"gemm"})


def test_executables_are_written_into_their_folder_only(tmp_path: Path) -> None:
    files = Outputs(tmp_path / "a" / "b" / "spec.mlir", MODEL)
    for name in ("../../outside", "/tmp/outside", "..", "x\n"):
        assert not is_component(name)
        with pytest.raises(UsageError, match="cannot name a file"):
            write_parts(files, Parts(executables={name: "module {}"}))
    write_parts(files, Parts(executables={"main$async_dispatch_0": "module {}"}))
    assert [path.name for path in tmp_path.rglob("*.mlir")] == ["main$async_dispatch_0.mlir"]


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
