"""The list of benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "benchmarks"


def test_every_module_that_can_be_started_has_its_line() -> None:
    started = {path.stem for path in FOLDER.glob("*.py") if "__main__" in path.read_text()}
    started |= {path.parent.name for path in FOLDER.glob("*/__main__.py")}
    listed = re.findall(r"^\| `python -m benchmarks\.(\w+)", (FOLDER / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(started)
