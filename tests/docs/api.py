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
from autotuner import Problem
from tests.docs.documents import ROOT

PAGE = ROOT / "docs" / "api.md"
HEAD = """# The API

What `autotuner` exports, made from its docstrings by `make docs`. The [tutorial](tutorial.ipynb) uses most of it.
"""
_LEFT_OUT = ("__version__",)
_ANNOTATION = re.compile(r"(: |-> )'([^']*)'")
_MODULE = re.compile(r"\b(?:[a-z_]\w*\.)+(?=[A-Z])")


def page() -> str:
    """The whole page."""
    names = sorted((name for name in autotuner.__all__ if name not in _LEFT_OUT), key=str.lower)
    return "\n".join([HEAD, *("\n".join(_section(name, getattr(autotuner, name))) for name in names)])


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
    """A docstring, its paragraphs as they are; a program in it is a block."""
    lines = inspect.cleandoc(thing.__doc__ or "").splitlines()
    return "\n".join(lines) + "\n"


def _function(name: str, function: Any) -> Iterator[str]:
    yield f"```python\n{name}{_signature(function)}\n```\n"
    yield _text(function)


def _signature(function: Any) -> str:
    """As it is written: types are text, without the modules that they are from."""
    return _ANNOTATION.sub(lambda found: found[1] + _MODULE.sub("", found[2]), str(inspect.signature(function)))


def _fields(thing: type) -> Iterator[str]:
    """The fields of a dataclass, each with the text that follows it in the source."""
    if not dataclasses.is_dataclass(thing):
        return
    shown = {field.name for field in dataclasses.fields(thing) if not field.name.startswith("_")}
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(thing))).body
    assert isinstance(tree, ast.ClassDef)
    rows = []
    for line, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if not isinstance(line, ast.AnnAssign) or ast.unparse(line.target) not in shown:
            continue
        about = following.value if isinstance(following, ast.Expr) else None
        words = " ".join(str(about.value).split()) if isinstance(about, ast.Constant) else ""
        cell = ast.unparse(line).replace("|", "\\|")
        rows.append(f"| `{cell}` | {words} |".replace("|  |", "| |"))
    if rows:
        yield "\n".join(["| field | |", "|---|---|", *rows]) + "\n"


def _members(name: str, thing: type) -> Iterator[str]:
    for part, member in _public(vars(thing)).items():
        if thing is not Problem and issubclass(thing, Problem) and not isinstance(member, classmethod):
            continue  # what every problem has is told once
        if isinstance(member, property) and member.__doc__:
            yield f"`{name}.{part}`: {' '.join(member.__doc__.split())}\n"
        elif isinstance(member, classmethod | staticmethod) and member.__doc__:
            yield from _function(f"{name}.{part}", getattr(thing, part))
        elif inspect.isfunction(member) and member.__doc__:
            yield from _function(f"{name}.{part}", member)


def _public(names: Any) -> dict[str, Any]:
    found = {name: one for name, one in names.items() if not name.startswith("_")}
    return {
        name: one
        for name, one in found.items()
        if isinstance(one, property | classmethod | staticmethod) or inspect.isfunction(one)
    }


if __name__ == "__main__":
    PAGE.write_text(page())
