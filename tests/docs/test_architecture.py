"""The picture of the rooms is the contract that the linter checks, and both have every room."""

from __future__ import annotations

import tomllib

from tests.docs.documents import ROOT, read


def layers() -> list[str]:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text())
    rooms, *_ = document["tool"]["importlinter"]["contracts"]
    return [layer.removeprefix("autotuner.") for layer in rooms["layers"]]


def test_the_picture_has_the_rooms_in_the_order_of_the_contract() -> None:
    picture = read("docs/architecture.md").split("```")[1]
    rooms = [line.split()[0].partition("/")[0] for line in picture.strip().splitlines()]
    assert rooms == [layer for layer in layers() if (ROOT / "autotuner" / layer).is_dir()]


def test_every_room_is_in_the_contract_and_the_root_has_no_loose_files() -> None:
    package = ROOT / "autotuner"
    rooms = {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    files = {path.stem for path in package.glob("*.py")}
    assert files == {"__init__", "__main__", "_version", "errors"}
    assert rooms | files - {"__init__"} == {*layers()}
