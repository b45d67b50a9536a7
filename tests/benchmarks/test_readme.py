"""The list of benchmarks."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
STARTED = sorted(
    {path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text()}
    | {path.parent.name for path in FOLDER.glob("*/__main__.py")}
)


@pytest.mark.parametrize("module", STARTED)
def test_every_module_that_can_be_started_has_its_line(module: str) -> None:
    lines = (FOLDER / "README.md").read_text().splitlines()
    assert (
        sum(
            line.startswith((f"| `python -m benchmarks.{module} ", f"| `python -m benchmarks.{module}`"))
            for line in lines
        )
        == 1
    )
