"""Figures and listings of the documents are those of the raw outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.documents import BLOCK, DOCUMENTS, REFERENCE, measured, passages, prose, read
from tests.docs.figures import figures, unfounded


@pytest.mark.parametrize("document", DOCUMENTS)
def test_figures_are_in_the_raw_outputs_that_stand_beside_them(document: str) -> None:
    linked = [(text, files) for text, files in passages(document, prose(document)) if files]
    assert [(figure, text) for text, files in linked for figure in unfounded(text, files)] == []
    alone = [text for text, files in passages(document, measured(document)) if figures(text) and not files]
    assert alone == [], "link them to their raw output"


@pytest.mark.parametrize("wrong", ["1.517x", "1.53", "596 µs", "0.907 ms", "3 entries", "12.4 %", "1,235 candidates"])
def test_a_figure_that_is_not_in_the_file_is_told(wrong: str, tmp_path: Path) -> None:
    raw = tmp_path / "raw.txt"
    raw.write_text("1.5163 over 905.4 us: 597.2 us\n4 of 5 entries, 1,234 timed, share 0.125")
    right = "1.516x, 1.5, 597 µs, 0.597 ms, 4 of 5 entries, 12.5 %, 1,234 candidates"
    assert unfounded(f"{right} and {wrong}", [raw]) == [wrong]


def test_listings_are_what_the_commands_printed() -> None:
    """A block that begins with a prompt is in a raw output of that command, line by line; a line of … leaves out."""
    outputs = [{line.rstrip() for line in path.read_text().splitlines()} for path in REFERENCE.rglob("*.txt")]
    blocks = [block for name in DOCUMENTS for block in BLOCK.findall(read(name)) if block.startswith("$ ")]
    assert len(blocks) > 5
    shown = [{line.rstrip() for line in block.splitlines()} - {"…"} for block in blocks]
    assert [lines for lines in shown if not any(lines <= printed for printed in outputs)] == []
