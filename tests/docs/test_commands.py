"""What the documents tell a reader to type or to open is there: commands, options, modules, files, links."""

from __future__ import annotations

import importlib.util
import re
import shlex
from functools import cache
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autotuner.cli.app import app
from tests.docs.documents import BLOCK, DOCUMENTS, LINK, ROOT, prose, read

REPOSITORY = ("autotuner", "benchmarks", "docs", "templates", "tests", "results/reference")
_SPAN = re.compile(r"`([^`\n]+)`")


def commands(document: str, program: str) -> list[str]:
    """Lines of code blocks and spans of code that call the program, each once, without prompts and what is optional."""
    lines = [line for block in BLOCK.findall(read(document)) for line in block.replace("\\\n", " ").splitlines()]
    found = [re.sub(r"^(\$ )?([A-Z_]+=\S+ )*", "", line.strip()) for line in [*lines, *_SPAN.findall(prose(document))]]
    called = dict.fromkeys(line for line in found if re.match(rf"{program}(\s|$)", line))
    return [re.sub(r"[\[\]]", " ", line) for line in called]


@cache
def refusal(line: str) -> str:
    """What `autotune` says to a command or an option that it does not know. Only --help is run, never the command."""
    words = shlex.split(line, comments=True)[1:]
    name = 2 if words[:1] == ["spec"] and len(words) > 1 else 1
    result = CliRunner().invoke(app, [*words[:name], "--help", *words[name:]])
    return "" if result.exit_code == 0 else result.output


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_a_document_tells_to_type_or_to_open_is_there(document: str) -> None:
    refused = {line: refusal(line) for line in commands(document, "autotune")}
    assert {line: why for line, why in refused.items() if why} == {}
    assert [line for line in commands(document, "python -m") if not callable_module(line)] == []
    assert [line for line in commands(document, "make") if not has_target(line)] == []
    assert [path for path in paths(document) if not any(ROOT.glob(path))] == []
    named = re.findall(r"`(benchmarks\.[\w.]+)", read(document))
    assert [name for name in named if importlib.util.find_spec(name) is None] == []
    assert [link for link in LINK.findall(prose(document)) if not resolves(document, link)] == []


def callable_module(line: str) -> bool:
    """Is there such a module, with all of these options?"""
    module, *words = shlex.split(line, comments=True)[2:]
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return False
    path = Path(spec.origin)
    source = "".join(file.read_text() for file in (path.parent.glob("*.py") if path.stem == "__init__" else [path]))
    return all(f'"{word}"' in source for word in words if word.startswith("--"))


def has_target(line: str) -> bool:
    return re.search(rf"^{line.split()[1]}:", (ROOT / "Makefile").read_text(), re.M) is not None


def paths(document: str) -> list[str]:
    """What looks like a path of the repository."""
    found = re.findall(rf"(?<![\w./-])(?:{'|'.join(REPOSITORY)})/[\w*./-]*", read(document))
    return [path.rstrip("./") for path in found]


def resolves(document: str, link: str) -> bool:
    """Is there such a file, with such a heading?"""
    name, _, anchor = link.partition("#")
    target = (ROOT / document).parent / name if name else ROOT / document
    return link.startswith(("http:", "https:")) or (target.exists() and (not anchor or anchor in anchors(target)))


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", document.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_what_does_not_exist_would_be_found() -> None:
    assert "No such" in refusal("autotune gem --shape 1x1x1")
    assert "No such" in refusal("autotune spec show --all A.mlir")
    assert not any(resolves("docs/models.md", link) for link in ("nothing.md", "models.md#nothing", "#nothing"))
    assert not callable_module("python -m benchmarks.nothing")
    assert not callable_module("python -m benchmarks.aa --nothing")
