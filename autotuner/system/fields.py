"""Reads dataclasses from a stranger's JSON by their types, and writes them. Missing fields and wrong types are
refused."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from autotuner.errors import UsageError

MOST_TEXT = 4096
MOST_ENTRIES = 200_000
T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """The limits of a number."""

    most: float = 1e15
    least: float = 0


def wrong(where: str, wanted: str) -> UsageError:
    return UsageError(f"{where} is not {wanted}.", remedy="Ask for the file again where it was made.")


def read(kind: type[T], value: object, where: str) -> T:
    """A dataclass from an object with its fields; one that has a default may be missing.

    Errors of its `__post_init__` are refusals, too.
    """
    if not isinstance(value, dict):
        raise wrong(where, "an object")
    hints, given = get_type_hints(kind, include_extras=True), {}
    for field in fields(kind):  # type: ignore[arg-type]
        required = field.default is MISSING and field.default_factory is MISSING
        if field.name in value or required:
            given[field.name] = _read(hints[field.name], value.get(field.name), f"{where}: {field.name}")
    try:
        return kind(**given)
    except ValueError as error:
        raise wrong(where, str(error)) from error


def _read(kind: Any, value: Any, where: str) -> Any:
    inner, origin = get_args(kind), get_origin(kind)
    if origin is Annotated:
        return _number(inner[0], value, where, inner[1])
    if origin in (Union, UnionType):
        return _any_of(inner, value, where)
    if origin is Literal:
        if value not in inner or not isinstance(value, str):
            raise wrong(where, f"one of {', '.join(inner)}")
        return value
    if origin in (tuple, list):
        return origin(_entries(inner, value, where))
    if origin is Mapping:
        if not isinstance(value, dict):
            raise wrong(where, "an object")
        return {_key(inner[0], name, where): _read(inner[1], one, f"{where}: {name}") for name, one in value.items()}
    if is_dataclass(kind):
        return read(kind, value, where)  # type: ignore[arg-type]
    if kind is bool and not isinstance(value, bool):
        raise wrong(where, "true or false")
    if kind is str and not (isinstance(value, str) and len(value) <= MOST_TEXT and value.isprintable()):
        raise wrong(where, f"a line of text of at most {MOST_TEXT} letters")
    return value if kind in (bool, str) else _number(kind, value, where, Limits())


def _any_of(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    """A value of one of several types: optional, or a text or number as in knobs."""
    if value is None and NoneType in kinds:
        return None
    known = [kind for kind in kinds if kind is not NoneType]
    if len(known) > 1 and type(value) in known and not isinstance(value, str):
        if isinstance(value, float) and not math.isfinite(value):
            raise wrong(where, "a number")
        return value
    return _read(known[0], value, where)


def _entries(kinds: tuple[Any, ...], value: Any, where: str) -> list[Any]:
    """The entries of a tuple: of one type, or of as many types."""
    alike = len(kinds) == 1 or kinds[1] is Ellipsis
    if not isinstance(value, list) or len(value) > MOST_ENTRIES or not (alike or len(value) == len(kinds)):
        raise wrong(where, f"a list of {f'at most {MOST_ENTRIES}' if alike else len(kinds)} entries")
    return [_read(kinds[0 if alike else place], one, f"{where}: an entry") for place, one in enumerate(value)]


def _key(kind: type, name: str, where: str) -> Any:
    if kind is str:
        return _read(str, name, where)
    if not (name.isascii() and name.isdigit() and len(name) < 10):
        raise wrong(where, "by whole numbers")
    return int(name)


def _number(kind: Any, value: Any, where: str, limits: Limits) -> Any:
    number = isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or not limits.least <= value <= limits.most:
        raise wrong(where, f"a {'whole ' if kind is int else ''}number from {limits.least:g} to {limits.most:g}")
    return kind(value)


def write(document: Any, **marks: object) -> bytes:
    """A document as JSON, with its kind and schema."""
    return json.dumps({**marks, **plain(document)}, indent=1).encode()


def plain(value: Any) -> Any:
    """A value as JSON; NaN and infinity become null."""
    if hasattr(value, "to_json"):
        return value.to_json()
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
