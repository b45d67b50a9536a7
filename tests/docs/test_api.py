"""The page of the API is what the docstrings say; the tutorial runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.api import PAGE, page
from tests.docs.documents import ROOT
from tests.support.patience import ENOUGH

TUTORIAL = ROOT / "docs" / "tutorial.ipynb"
SHORT = {"trials=40": "trials=2", "budget=300.0": "budget=10.0", "256x256x512": "64x64x64"}
"""The test need not find anything: it is there for the code."""


def test_the_page_of_the_api_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "run `make docs`"


def test_the_tutorial_runs_and_shows_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share_digests: Callable[[Path], None]
) -> None:
    share_digests(tmp_path / "cache")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    text = TUTORIAL.read_text()
    for long, short in SHORT.items():
        assert text.count(long) >= 1
        text = text.replace(long, short)
    notebook: Any = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call, unused-ignore]
    client = NotebookClient(notebook, timeout=int(ENOUGH), resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any(output.get("text", "").startswith("verdict ") for output in shown)
    frames = [output["data"]["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert len(frames) == 2
    assert all('class="dataframe"' in frame for frame in frames)
    assert (tmp_path / "tutorial" / "results" / "autotune.db").exists()


def test_the_tutorial_is_kept_with_what_it_shows_and_nothing_of_who_ran_it() -> None:
    cells = json.loads(TUTORIAL.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(cell["outputs"] for cell in code if not cell["source"][0].startswith("from"))
    assert not re.search(r"/(root|tmp|work)/", json.dumps(cells))
