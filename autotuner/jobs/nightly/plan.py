"""The file of `autotune nightly`: which suites and models, how long, compared with what."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autotuner.errors import AutotuneError, UsageError
from autotuner.jobs.suite.load import load
from autotuner.system.names import checked_name, is_name
from autotuner.system.progress import parse_budget
from autotuner.system.text import short
from autotuner.system.workspace import refuse_endless
from autotuner.targets import Target

RATE, SMALLEST = 0.1, 1.0
"""Per cent: of nights that may alarm although nothing changed; the least change of a level that counts."""
_MOST_BYTES = 2**20
Check = Literal["text", "whole", "number", "yes", "texts"]
_TYPES: Mapping[Check, tuple[type, ...]] = {
    "text": (str,), "whole": (int,), "number": (int, float), "yes": (bool,), "texts": (list,),
}  # fmt: skip
_WORDS: Mapping[Check, str] = {
    "text": "text in quotes",
    "whole": "a whole number",
    "number": "a number",
    "yes": "true or false",
    "texts": "a list of texts",
}
_TOP: Mapping[str, Check] = {"name": "text", "workspace": "text", "golden": "text", "page": "text"}
_TABLES = ("defaults", "parts", "compare", "alarm")
_COMMON: Mapping[str, Check] = {
    "target": "text", "device": "text", "budget": "text", "effort": "text", "trials": "whole", "seed": "whole",
    "every": "whole", "flags": "texts", "microkernels": "text", "cache": "text", "state": "text", "iree_tools": "text",
}  # fmt: skip
_SUITE: Mapping[str, Check] = {"suite": "text", "name": "text", "sample": "whole", "threshold": "number"}
_MODEL: Mapping[str, Check] = {
    "model": "text", "name": "text", "function": "text", "inputs": "texts", "parameters": "texts", "top": "whole",
}  # fmt: skip
_COMPARE: Mapping[str, Check] = {"rule": "text", "threshold": "number", "fail": "yes"}
_ALARM: Mapping[str, Check] = {"rate": "number", "smallest": "number"}
_OPTIONS = {
    "target": "--target", "device": "--device", "budget": "--budget", "effort": "--effort", "trials": "--trials",
    "seed": "--seed", "microkernels": "--microkernels", "cache": "--cache",
    "iree_tools": "--iree-tools", "sample": "--sample", "threshold": "--threshold", "function": "--function",
    "top": "--top",
}  # fmt: skip
_REPEATED = {"flags": "--flag", "inputs": "--input", "parameters": "--parameters"}
_FILES = ("iree_tools", "model")
"""Keys that name files: relative ones are beside the nightly file."""


@dataclass(frozen=True)
class Part:
    """One suite or model of a night."""

    name: str
    command: tuple[str, ...]
    """What `autotune` is given, without workspace and output."""
    budget: float
    every: int = 1
    """Nights from one time to the next."""


@dataclass(frozen=True)
class Limits:
    """When a comparison and a trend count."""

    rule: str = "interval"
    threshold: float | None = None
    fail: bool = False
    """Exit 6 for what is slower than the golden set tonight, and not only for a change that stays."""
    rate: float = RATE
    smallest: float = SMALLEST


@dataclass(frozen=True)
class Plan:
    """What the file says."""

    path: Path
    name: str
    workspace: Path
    golden: str | None
    page: Path
    parts: tuple[Part, ...]
    limits: Limits = Limits()

    @property
    def history(self) -> Path:
        return self.workspace / "results" / "nightly" / f"{self.name}.jsonl"


def read_plan(path: Path) -> Plan:
    """The file, or one line that says which key is wrong and which one was meant."""
    refuse_endless(path)
    if not path.is_file():
        raise UsageError(f"there is no file {path}.", remedy="docs/nightly.md shows one.")
    if path.stat().st_size > _MOST_BYTES:
        raise UsageError(f"{path} is too large.", remedy="A nightly file has a few lines.")
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path} is not TOML: {error}.", remedy="docs/nightly.md shows a file.") from None
    try:
        return _plan(path.absolute(), table)
    except _KeyError as error:
        raise UsageError(f"{path}{_line(text, error.key)}: {error.message}", remedy=error.remedy) from None
    except AutotuneError as error:
        raise UsageError(f"{path}: {error.message}", remedy=error.remedy) from None


class _KeyError(UsageError):
    """A key that is not known, or whose value is of another type."""

    def __init__(self, message: str, *, key: str, remedy: str) -> None:
        super().__init__(message, remedy=remedy)
        self.key = key


def _line(text: str, key: str) -> str:
    """`:7` where the key is first given a value; nothing where it stands in another form."""
    for number, line in enumerate(text.splitlines(), 1):
        name, equals, _ = line.partition("=")
        if equals and name.strip().strip("\"'") == key:
            return f":{number}"
    return ""


def _plan(path: Path, table: Mapping[str, Any]) -> Plan:
    for key in _TABLES:
        wanted = list if key == "parts" else dict
        if key in table and not isinstance(table[key], wanted):
            raise UsageError(f"`{key}` is not a table.", remedy=f"Write [{'[parts]' if key == 'parts' else key}].")
    top = {key: value for key, value in table.items() if key not in _TABLES}
    _checked(top, _TOP, where="the file", more=_TABLES)
    defaults = _checked(table.get("defaults", {}), _COMMON, where="[defaults]")
    parts = tuple(_part(one, defaults, place, path.parent) for place, one in enumerate(table.get("parts", ()), 1))
    if not parts:
        raise UsageError("it has no parts.", remedy='Add [[parts]] with suite = "NAME" or model = "FILE".')
    names = [part.name for part in parts]
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two parts are called {short(min(twice))}.", remedy="Give one of them a `name`.")
    name = checked_name(str(top.get("name", path.stem)), what="a nightly file's history")
    workspace = path.parent / str(top.get("workspace", "."))
    page = path.parent / str(top["page"]) if "page" in top else workspace / "results" / "nightly" / f"{name}.html"
    if page.suffix != ".html":
        raise UsageError(f"`page` = {short(str(top.get('page')))} is not an .html file.", remedy="Name a page.")
    if not Path(os.path.realpath(page)).is_relative_to(os.path.realpath(workspace)):
        remedy = f'Name a place in it, such as page = "{top.get("workspace", ".")}/{name}.html".'
        raise _KeyError(f"`page` is outside of the workspace {workspace}.", key="page", remedy=remedy)
    golden = str(top["golden"]) if "golden" in top else None
    if golden is not None and "://" not in golden and (path.parent / golden).exists():
        golden = str(path.parent / golden)
    return Plan(path, name, workspace, golden, page, parts, _limits(table))


def _limits(table: Mapping[str, Any]) -> Limits:
    found = {
        **_checked(table.get("compare", {}), _COMPARE, where="[compare]"),
        **_checked(table.get("alarm", {}), _ALARM, where="[alarm]"),
    }
    limits = Limits(**found)
    if not 0 < limits.rate < 100:
        raise UsageError(f"`rate` in [alarm] is {limits.rate:g}.", remedy="Give per cent of nights, such as 0.1.")
    if not 0 <= limits.smallest < 100:
        raise UsageError(f"`smallest` in [alarm] is {limits.smallest:g}.", remedy="Give per cent, such as 1.")
    return limits


def _part(table: Any, defaults: Mapping[str, Any], place: int, folder: Path) -> Part:
    where = f"[[parts]] number {place}"
    if not isinstance(table, dict):
        raise UsageError(f"{where} is not a table.", remedy="Write [[parts]].")
    kinds = [kind for kind in ("suite", "model") if kind in table]
    if len(kinds) != 1:
        has = "both suite and model" if kinds else "neither suite nor model"
        raise UsageError(f"{where} has {has}.", remedy='Give it suite = "NAME" or model = "FILE".')
    kind = kinds[0]
    own = _checked(table, {**_COMMON, **(_SUITE if kind == "suite" else _MODEL)}, where=where)
    given = {**defaults, **own}
    if "budget" not in given:
        raise UsageError(f"{where} has no budget.", remedy='Give budget = "30m" there or in [defaults].')
    every = given.pop("every", 1)
    if every < 1:
        raise UsageError(f"`every` in {where} is {every}.", remedy="Give 1 or more nights.")
    chip = Target.parse(given.get("target", "cpu"))  # refused now, not at two in the morning
    subject, target = str(given.pop(kind)), str(given.get("target", "cpu"))
    path = folder / subject
    if kind == "model" and not path.is_file():
        raise UsageError(f"the model {path} of {where} is not there.", remedy="Name a file beside the nightly file.")
    if kind == "suite":
        load(str(path) if path.is_file() else subject, dtype=chip.usual_dtype)
    name = str(given.pop("name", f"{Path(subject).stem}-{target}"))
    if not is_name(name):
        name = checked_name(name, what=f"{where} (give it a `name`)")
    subject = str(path) if path.is_file() else subject
    return Part(name, (kind, subject, *_words(given, folder)), parse_budget(str(given["budget"])), every)


def _words(given: Mapping[str, Any], folder: Path) -> list[str]:
    words = []
    for key, value in given.items():
        if key in _REPEATED:
            words += [f"{_REPEATED[key]}={one}" for one in value]
        else:
            text = str(folder / value) if key in _FILES else f"{value}"
            words.append(f"{_OPTIONS[key]}={text}")
    return words


def _checked(table: Any, known: Mapping[str, Check], *, where: str, more: tuple[str, ...] = ()) -> dict[str, Any]:
    """The table, if all its keys are known and of their types."""
    for key, value in table.items():
        if key not in known:
            close = difflib.get_close_matches(key, [*known, *more], n=1)
            remedy = f"Did you mean `{close[0]}`?" if close else f"Known are: {', '.join([*known, *more])}."
            raise _KeyError(f"{where} has no key `{short(key)[1:-1]}`.", key=key, remedy=remedy)
        kind = known[key]
        right = isinstance(value, _TYPES[kind]) and (kind == "yes" or not isinstance(value, bool))
        if right and kind == "texts":
            right = all(isinstance(one, str) for one in value)
        if not right:
            raise _KeyError(f"`{key}` in {where} is {short(value)}.", key=key, remedy=f"Give {_WORDS[kind]}.")
        if kind == "text" and (not value or "\0" in value or value.startswith("-")):
            remedy = "Give a name or a value, not an option."
            raise _KeyError(f"`{key}` in {where} is {short(value)}.", key=key, remedy=remedy)
    return dict(table)
