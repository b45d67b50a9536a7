"""Pages stay short, the site's list of pages is whole, and what the README tells to run runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs.documents import BLOCK, ROOT, read
from tests.support.patience import ENOUGH

PAGES = sorted(path.name for path in (ROOT / "docs").glob("*.md"))
LONGEST = {"README.md": 110, **{f"docs/{page}": 200 for page in PAGES}, "docs/verdicts.md": 60}


@pytest.mark.parametrize(("page", "most"), LONGEST.items())
def test_a_page_is_read_in_one_go(page: str, most: int) -> None:
    assert len(read(page).splitlines()) <= most


def test_a_release_is_told_in_sixty_lines() -> None:
    releases = re.split(r"^(?=## \[)", read("CHANGELOG.md"), flags=re.M)[1:]
    assert [release.splitlines()[0] for release in releases if len(release.splitlines()) > 62] == []


def test_a_word_of_the_glossary_is_told_in_few_words() -> None:
    rows = [row.split("|")[1:3] for row in read("docs/glossary.md").splitlines() if row.startswith("| ")]
    assert len(rows) == 1 + 25
    assert [word for word, meaning in rows if len(meaning.split()) > 25] == []
    assert [word for word, _ in rows[1:]] == sorted(word for word, _ in rows[1:])


def test_every_page_is_in_the_table_of_contents_and_in_the_sites() -> None:
    listed = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    assert sorted(_pages(listed)) == PAGES
    linked = {link.partition("#")[0] for link in re.findall(r"\]\(([\w.#-]+)\)", read("docs/index.md"))}
    assert set(PAGES) - linked == {"index.md"}


def _pages(listed: Any) -> list[str]:
    if isinstance(listed, str):
        return [listed]
    return [page for one in (listed.values() if isinstance(listed, dict) else listed) for page in _pages(one)]


def test_the_program_of_the_readme_runs_what_its_compile_makes(tmp_path: Path) -> None:
    """With the flags that every flagfile for processors begins with."""
    specs = tmp_path / "specs"
    specs.mkdir()
    flags = ("target-device=local", "local-target-device-backends=llvm-cpu")
    lines = [*(f"--iree-hal-{flag}" for flag in flags), "--iree-llvmcpu-target-cpu=host"]
    (specs / "attention-cpu.flags").write_text("\n".join(lines))
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    text = read("README.md").partition("## Run it")[2]
    compiling, program = BLOCK.findall(text)[:2]
    assert len(program.splitlines()) <= 8
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for words in (compiling.split(), [sys.executable, "-c", program]):
        done = subprocess.run(
            words,
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=ENOUGH,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("[[[")
