"""The newcomer's transcript: the document is made of what the commands printed, and of nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.first_hour import COMMANDS, REFERENCE, ROOT, Recorded, document, readme, write


@pytest.fixture
def recorded() -> Recorded:
    return Recorded.read(ROOT / REFERENCE)


def test_the_document_and_the_readme_are_those_of_the_recorded_hour(recorded: Recorded) -> None:
    assert (ROOT / "docs" / "first-hour.md").read_text(encoding="utf-8") == document(recorded)
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    assert page == readme(page, recorded)


def test_an_hour_that_went_otherwise_has_its_own_words(recorded: Recorded, tmp_path: Path) -> None:
    spec = f"$ {COMMANDS['shape']}\nverdict    win: 2.06x faster\nspec       x.mlir\nflags      x.flags\n"
    won = f"$ {COMMANDS['model']}\nverdict    win: 2.06x faster\nspec       x.mlir\n"
    nothing = "$ make demo\nverdict    no-winner: 3 routes timed\n"
    other = replace(
        recorded, printed={**recorded.printed, "shape": spec, "demo": nothing, "model": won}, loads=(0.4, 1.6)
    )
    text = document(other)
    assert "at a load of\n0 to 2.\nThe raw output" in text
    assert "`no-winner`: candidates were timed, and none is faster than IREE's default, which is kept." in text
    assert "`spec` is the file that carries the configuration" in text
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text((ROOT / "README.md").read_text(encoding="utf-8"), encoding="utf-8")
    write(other, tmp_path)
    assert Recorded.read(tmp_path / REFERENCE) == other
    page = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert page == readme(page, other)
    assert "verdict    win: 2.06x faster" in page
