"""The file of `autotune nightly`: which suites and models, how long, compared with what."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.errors import AutotuneError, UsageError
from autotuner.jobs.suite.load import load
from autotuner.system.progress import parse_budget
from autotuner.system.text import short
from autotuner.system.workspace import checked_name, refuse_endless
from autotuner.targets import Target

_TEXTS = ("flags", "inputs", "parameters")
_TYPES: Mapping[str, type] = {
    **dict.fromkeys(("trials", "seed", "sample", "top"), int),
    **dict.fromkeys(_TEXTS, list),
    "threshold": float,
}
"""Of the values of keys; those of all others are text."""
_WORDS = {int: "a whole number", list: "a list of texts", float: "a number", str: "a text"}
_TOP = ("name", "workspace", "golden", "page", "defaults", "parts", "compare")
_COMMON = (
    *("target", "device", "budget", "effort", "trials", "seed", "flags", "microkernels", "cache"),
    "iree_tools",
)
_OWN: Mapping[str, tuple[str, ...]] = {
    "suite": ("suite", "name", "sample", "threshold"),
    "model": ("model", "name", "function", "inputs", "parameters", "top"),
}
_OPTIONS = {"flags": "flag", "inputs": "input", "iree_tools": "iree-tools"}
"""Keys whose options have another name."""


@dataclass(frozen=True)
class Part:
    """One suite or model of a night."""

    name: str
    command: tuple[str, ...]
    """The words of the command, without workspace and output."""
    budget: float


@dataclass(frozen=True)
class Plan:
    """What the file says."""

    path: Path
    name: str
    workspace: Path
    golden: str | None
    page: Path
    parts: tuple[Part, ...]
    threshold: float | None = None
    """Per cent that count as a change."""

    @property
    def history(self) -> Path:
        return self.workspace / "results" / "nightly" / f"{self.name}.jsonl"


def read_plan(path: Path) -> Plan:
    """The file, or one line that says which key is wrong and which one was meant."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}.", remedy="docs/nightly.md shows one.")
    refuse_endless(path, "nightly file")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}.", remedy="docs/nightly.md shows a file.") from None
    try:
        return _plan(path.absolute(), table)
    except AutotuneError as error:
        raise UsageError(f"{path}: {error.message}", remedy=error.remedy) from None


def _plan(path: Path, table: Mapping[str, Any]) -> Plan:
    plain = {key: value for key, value in table.items() if key not in ("defaults", "parts", "compare")}
    top = _checked(plain, _TOP, where="the file")
    defaults = _checked(table.get("defaults", {}), _COMMON, where="[defaults]")
    given = table.get("parts")
    if not isinstance(given, list) or not given:
        raise UsageError("it has no parts.", remedy='Add [[parts]] with suite = "NAME" or model = "FILE".')
    parts = tuple(_part(one, defaults, f"[[parts]] number {n}", path.parent) for n, one in enumerate(given, 1))
    names = [part.name for part in parts]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two parts are called {short(min(twice))}.", remedy="Give one of them a `name`.")
    name = checked_name(top.get("name", path.stem), what="a nightly file's history")
    workspace = path.parent / top.get("workspace", ".")
    page = path.parent / top["page"] if "page" in top else workspace / "results" / "nightly" / f"{name}.html"
    inside = Path(os.path.realpath(page)).is_relative_to(os.path.realpath(workspace))
    if page.suffix != ".html" or not inside:
        wrong = f"is outside of the workspace {workspace}" if page.suffix == ".html" else "is not an .html file"
        remedy = f'Name a place in it, such as page = "{top.get("workspace", ".")}/{name}.html".'
        raise UsageError(f"`page` = {short(str(page))} {wrong}.", remedy=remedy)
    golden = top.get("golden")
    if golden is not None and "://" not in golden and os.path.exists(path.parent / golden):
        golden = str(path.parent / golden)
    limits = _checked(table.get("compare", {}), ("threshold",), where="[compare]")
    return Plan(path, name, workspace, golden, page, parts, limits.get("threshold"))


def _part(table: Any, defaults: Mapping[str, Any], where: str, folder: Path) -> Part:
    kinds = [kind for kind in _OWN if isinstance(table, dict) and kind in table]
    if len(kinds) != 1:
        has = "both suite and model" if kinds else "neither suite nor model"
        raise UsageError(f"{where} has {has}.", remedy='Give it suite = "NAME" or model = "FILE".')
    kind = kinds[0]
    given = {**defaults, **_checked(table, (*_COMMON, *_OWN[kind]), where=where)}
    if "budget" not in given:
        raise UsageError(f"{where} has no budget.", remedy='Give budget = "30m" there or in [defaults].')
    target = given.get("target", "cpu")
    chip = Target.parse(target)  # refused now, not at two in the morning
    subject = given.pop(kind)
    path = folder / subject
    if kind == "model" and not os.path.isfile(path):  # False for a name that is too long
        raise UsageError(f"the model {path} of {where} is not there.", remedy="Name a file beside the nightly file.")
    name = checked_name(given.pop("name", f"{Path(subject).stem}-{target}"), what=f"{where} (give it a `name`)")
    subject = str(path) if os.path.isfile(path) else subject
    if kind == "suite":
        load(subject, dtype=chip.usual_dtype)
    if "iree_tools" in given:
        given["iree_tools"] = str(folder / given["iree_tools"])
    return Part(name, (kind, subject, *_words(given)), parse_budget(given["budget"]))


def _words(given: Mapping[str, Any]) -> list[str]:
    """The options of a part's command."""
    pairs = [(key, one) for key, value in given.items() for one in (value if key in _TEXTS else [value])]
    return [f"--{_OPTIONS.get(key, key)}={one}" for key, one in pairs]


def _checked(table: Any, known: Collection[str], *, where: str) -> dict[str, Any]:
    """The table, if all its keys are known and of their types."""
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table.", remedy=f"Write {where} on a line of its own.")
    for key, value in table.items():
        if key not in known:
            close = difflib.get_close_matches(key, known, n=1)
            remedy = f"Did you mean `{close[0]}`?" if close else f"Known are: {', '.join(known)}."
            raise UsageError(f"{where} has no key `{short(key)[1:-1]}`.", remedy=remedy)
        kind = _TYPES.get(key, str)
        right = isinstance(value, int | float if kind is float else kind) and not isinstance(value, bool)
        if not right or (kind is list and not all(isinstance(one, str) for one in value)):
            raise UsageError(f"`{key}` in {where} is {short(value)}.", remedy=f"Give {_WORDS[kind]}.")
        if kind is str and (not value or "\0" in value or value.startswith("-")):
            remedy = "Give a name or a value, not an option."
            raise UsageError(f"`{key}` in {where} is {short(value)}.", remedy=remedy)
    return dict(table)
