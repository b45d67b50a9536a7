"""docs/api.md from the docstrings of what `autotuner` exports: `python -m tests.docs.api` writes it."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import autotuner
from tests.docs.documents import ROOT

PAGE = ROOT / "docs" / "api.md"
HEAD = """# Python

What `autotuner` exports, by `make docs` from the docstrings. The [notebook](tutorial.ipynb) uses most of it.
"""
_OPAQUE = ("Target",)
"""Made by `parse` alone: its fields are for the rooms of the package."""
_CALLED = ("Problem.name", "Problem.arguments", "Result.default_is_wrong", "Result.to_json")
"""Beside constructors: members that a user needs. All others are for the rooms of the package."""
_LEFT_OUT = ("__version__",)
_ANNOTATION = re.compile(r"(: |-> )'([^']*)'")
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")


def page() -> str:
    """The whole page."""
    names = sorted((name for name in autotuner.__all__ if name not in _LEFT_OUT), key=str.lower)
    sections = ("\n".join(_section(name, getattr(autotuner, name))) for name in names)
    return "\n".join([HEAD, *(f"{section.rstrip()}\n" for section in sections)])


def _section(name: str, thing: Any) -> Iterator[str]:
    yield f"## {name}\n"
    if isinstance(thing, ModuleType):
        yield _text(thing)
        for part, function in _public(vars(thing)).items():
            if function.__module__ == thing.__name__:
                yield from _function(f"{name}.{part}", function)
    elif inspect.isclass(thing):
        yield _text(thing)
        yield from _fields(thing)
        yield from _members(name, thing)
    else:
        yield from _function(name, thing)


def _text(thing: Any) -> str:
    """A docstring, each paragraph in one line."""
    paragraphs = inspect.cleandoc(thing.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs) + "\n"


def _function(name: str, function: Any) -> Iterator[str]:
    call, text = f"{name}{_signature(function)}", _text(function)
    yield f"- `{call}`: {text.rstrip()}" if text.count("\n") == 1 else f"```python\n{call}\n```\n\n{text}"


def _signature(function: Any) -> str:
    """As it is written: types are text, without the modules that they are from."""
    return _ANNOTATION.sub(lambda found: found[1] + _MODULE.sub("", found[2]), str(inspect.signature(function)))


def _fields(thing: type) -> Iterator[str]:
    """The fields of a dataclass: in one line those without a text, then each with the text that follows it."""
    if not dataclasses.is_dataclass(thing) or thing.__name__ in _OPAQUE:
        return
    shown = {field.name for field in dataclasses.fields(thing) if not field.name.startswith("_")}
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    assert isinstance(tree, ast.ClassDef)
    plain, rows = [], []
    for line, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(line, ast.AnnAssign) or ast.unparse(line.target) not in shown:
            continue
        about = following.value if isinstance(following, ast.Expr) else None
        if isinstance(about, ast.Constant):
            cell = ast.unparse(line).replace("|", "\\|")
            rows.append(f"| `{cell}` | {' '.join(str(about.value).split())} |")
        else:
            plain.append(f"`{ast.unparse(line)}`")
    if plain:
        yield f"Fields: {', '.join(plain)}.\n"
    if rows:
        yield "\n".join(["| field | |", "|---|---|", *rows]) + "\n"


def _members(name: str, thing: type) -> Iterator[str]:
    for part, member in _public(vars(thing)).items():
        if isinstance(member, classmethod) and member.__doc__:
            yield from _function(f"{name}.{part}", getattr(thing, part))
        elif f"{name}.{part}" in _CALLED:
            yield f"- `{name}.{part}`: {' '.join(str(member.__doc__).split())}"


def _public(names: Any) -> dict[str, Any]:
    found = {name: one for name, one in names.items() if not name.startswith("_")}
    return {
        name: one
        for name, one in found.items()
        if isinstance(one, property | classmethod | staticmethod) or inspect.isfunction(one)
    }


if __name__ == "__main__":
    PAGE.write_text(page())
