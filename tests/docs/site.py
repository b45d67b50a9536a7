"""A hook of mkdocs: what a page links to outside of docs/ is copied into the site, and the link leads there.

Pages link to raw outputs and sources by their path in the repository. Text files get the ending .txt, so that a browser
shows them.
"""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
FOLDER = "repository"
_OUTSIDE = re.compile(r"(?<=\]\()(?:\.\./)+[^)#\s]+")
_SHOWN = (".csv", ".json", ".txt")


def on_files(files: Any, config: Any) -> Any:
    """Adds the copies."""
    pages = [file for file in files if file.src_uri.endswith(".md")]
    linked = {_target(page.src_uri, link) for page in pages for link in _OUTSIDE.findall(page.content_string)}
    for target in sorted(filter(None, linked)):
        files.append(File.generated(config, _copy(target), abs_src_path=str(ROOT / target)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Leads links there."""

    def lead(found: re.Match[str]) -> str:
        target = _target(page.file.src_uri, found[0])
        return relpath(_copy(target), dirname(page.file.src_uri) or ".") if target else found[0]

    return _OUTSIDE.sub(lead, markdown)


def _target(page: str, link: str) -> str:
    """The path in the repository of a file that is not among the pages; empty: mkdocs says what is wrong with it."""
    path = normpath(f"docs/{dirname(page)}/{link}")
    return path if not path.startswith(("docs/", "..")) and (ROOT / path).is_file() else ""


def _copy(target: str) -> str:
    return f"{FOLDER}/{target}" + ("" if target.endswith(_SHOWN) else ".txt")
