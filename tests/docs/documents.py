"""The documents of the repository, and the pieces that they are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "results" / "reference"
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "benchmarks/*.md", "results/**/*.md", "specs/**/*.md", "candidates/*.md")
    for path in ROOT.glob(pattern)
)
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.S | re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")


@cache
def read(document: str) -> str:
    return (ROOT / document).read_text()


def prose(document: str) -> str:
    """The text without its blocks of code."""
    return BLOCK.sub("", read(document))


def links(document: str, text: str) -> list[Path]:
    """The files of the repository that a piece of this document links to."""
    return [
        ((ROOT / document).parent / link.partition("#")[0]).resolve()
        for link in LINK.findall(text)
        if not re.match(r"https?:|#", link)
    ]


def measured(document: str) -> str:
    """What stands under the heading `Measured`, if there is one."""
    found = re.search(r"^(#+) Measured$(.*?)(?=^\1 |\Z)", prose(document), re.S | re.M)
    return found[2] if found else ""


def passages(document: str, text: str) -> Iterator[tuple[str, list[Path]]]:
    """Rows of tables, points of lists and paragraphs of this text, each with the raw outputs that it links to.

    What the head of a table links to holds for all its rows.
    """
    for block in re.split(r"\n\s*\n", text):
        table = block.lstrip().startswith("|")
        pieces = block.strip().splitlines() if table else re.split(r"\n(?=- )", block)
        for piece in pieces:
            linked = links(document, f"{pieces[0]} {piece}" if table else piece)
            yield piece, [path for path in linked if path.is_file() and REFERENCE in path.parents]
