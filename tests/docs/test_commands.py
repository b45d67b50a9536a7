"""What the documents tell a reader to type or to open is there: commands, options, modules, files, links."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from autotuner.cli.app import app
from tests.docs.figures import ROOT

DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/*.md", "benchmarks/*.md", "results/**/*.md", "specs/**/*.md", "candidates/*.md")
    for path in ROOT.glob(pattern)
    if path.parent.name != "encoder"  # a report as the command wrote it
)
REPOSITORY = ("autotuner", "benchmarks", "docs", "templates", "tests", "results/reference")
_BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.S | re.M)
_SPAN = re.compile(r"`([^`\n]+)`")


def commands(document: str, program: str) -> list[str]:
    """Lines of code blocks and spans of code that call the program, without prompts and what is optional."""
    text = (ROOT / document).read_text()
    lines = [line for block in _BLOCK.findall(text) for line in block.replace("\\\n", " ").splitlines()]
    spans = _SPAN.findall(_BLOCK.sub("", text))
    found = [re.sub(r"^(\$ )?([A-Z_]+=\S+ )*", "", line.strip()) for line in [*lines, *spans]]
    return [re.sub(r"[\[\]]", " ", line) for line in found if re.match(rf"{program}(\s|$)", line)]


def everywhere(program: str) -> list[tuple[str, str]]:
    """(a document that has it, the line), each line once."""
    found = {line: document for document in DOCUMENTS for line in commands(document, program)}
    return [(document, line) for line, document in found.items()]


def refusal(line: str) -> str:
    """What `autotune` says to a command or an option that it does not know. Only --help is run, never the command."""
    words = shlex.split(line, comments=True)[1:]
    name = 2 if words[:1] == ["spec"] and len(words) > 1 else 1
    result = CliRunner().invoke(app, [*words[:name], "--help", *words[name:]])
    return "" if result.exit_code == 0 else result.output


@pytest.mark.parametrize(("document", "line"), everywhere("autotune"))
def test_a_command_and_its_options_exist(document: str, line: str) -> None:
    assert refusal(line) == "", document


@pytest.mark.parametrize(
    "words", ["gem --shape 1x1x1", "gemm --shapes 1x1x1", "spec shows A.mlir", "spec show --all A.mlir"]
)
def test_a_command_or_an_option_that_does_not_exist_would_be_found(words: str) -> None:
    assert "No such" in refusal(f"autotune {words}")


@pytest.mark.parametrize(("document", "line"), everywhere("python -m"))
def test_a_module_and_its_options_exist(document: str, line: str) -> None:
    module, *words = shlex.split(line, comments=True)[2:]
    spec = importlib.util.find_spec(module)
    assert spec is not None, f"{document}: there is no {module}"
    assert spec.origin is not None
    path = Path(spec.origin)
    source = "".join(file.read_text() for file in (path.parent.glob("*.py") if path.stem == "__init__" else [path]))
    assert [word for word in words if word.startswith("--") and f'"{word}"' not in source] == []


@pytest.mark.parametrize(("document", "line"), everywhere("make"))
def test_a_make_target_exists(document: str, line: str) -> None:
    target = line.split()[1]
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.M), f"{document}: make {target}"


def paths(document: str) -> Iterator[str]:
    for found in re.findall(rf"(?<![\w./-])(?:{'|'.join(REPOSITORY)})/[\w*./-]*", (ROOT / document).read_text()):
        yield found.rstrip("./")


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_and_modules_that_are_named_exist(document: str) -> None:
    assert [path for path in paths(document) if not any(ROOT.glob(path))] == []
    named = re.findall(r"`(benchmarks\.[\w.]+)", (ROOT / document).read_text())
    assert [name for name in named if importlib.util.find_spec(name) is None] == []


def anchors(document: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", _BLOCK.sub("", document.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_the_documents_resolve(document: str) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", _BLOCK.sub("", (ROOT / document).read_text())):
        if re.match(r"https?:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (ROOT / document).parent / name if name else ROOT / document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def test_the_compose_file_has_services_whose_commands_exist() -> None:
    """What `docker compose config` would say of its form, and that every command is one that the image has."""
    yaml = pytest.importorskip("yaml")
    folder = ROOT / "docs/examples/cluster"
    services = yaml.safe_load((folder / "compose.yaml").read_text())["services"]
    assert set(services) == {"scheduler", "builder", "gpu0"}
    for service in services.values():
        build = service["build"]
        assert (folder / build["context"] / build["dockerfile"]).resolve() == folder / "Dockerfile"
        assert set(service.get("depends_on", ())) <= set(services)
        assert all(":" in volume for volume in service["volumes"])
        if service["command"][0] == "autotune":
            assert refusal(shlex.join(service["command"])) == ""
    assert services["scheduler"]["command"][:2] == ["dask", "scheduler"]
    known = pytest.importorskip("distributed.cli.dask_scheduler").main.params
    options = {name for option in known for name in (*option.opts, *option.secondary_opts)}
    assert {word.partition("=")[0] for word in services["scheduler"]["command"][2:]} <= options
