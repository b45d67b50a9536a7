"""Typed access to a manifest's tables: unknown keys are refused, and errors name file and key."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from autotuner.errors import UsageError
from autotuner.microkernels.expressions import Expression
from autotuner.microkernels.instance import LARGEST
from autotuner.system.text import printable, short
from autotuner.system.workspace import refuse_endless

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Table:
    """One TOML table; `close` refuses the keys that were not read."""

    file: Path
    values: Mapping[str, object]
    prefix: str = ""
    asked: set[str] = field(default_factory=set)

    def error(self, key: str, what: str, remedy: str) -> UsageError:
        return UsageError(f"{self.file}: {printable(f'{self.prefix}{key}')}: {what}", remedy=remedy)

    def has(self, key: str) -> bool:
        self.asked.add(key)
        return key in self.values

    def text(self, key: str, *, default: str | None = None) -> str:
        if default is not None and not self.has(key):
            return default
        return self._typed(key, str, f'Write {key} = "…".')

    def choice(self, key: str, allowed: Collection[str], *, default: str | None = None) -> str:
        return self._known(key, self.text(key, default=default), allowed)

    def choices(self, key: str, allowed: Collection[str]) -> tuple[str, ...]:
        return tuple(self._known(key, value, allowed) for value in self.texts(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """A list with at least one entry, none of them twice."""
        remedy = f'Write {key} = ["…"].'
        values = self._typed(key, list, remedy)
        if not values or not all(isinstance(value, str) for value in values) or len(set(values)) < len(values):
            raise self.error(key, "it is not a list of different texts.", remedy)
        return tuple(values)

    def numbers(self, key: str) -> tuple[int, ...]:
        remedy = f"Write {key} = [1, 2], the default first."
        values = self._typed(key, list, remedy)
        fitting = all(type(value) is int and abs(value) <= LARGEST for value in values)
        if not values or not fitting or len(set(values)) < len(values):
            raise self.error(key, "it is not a list of different whole numbers of 32 bits.", remedy)
        return tuple(values)

    def expression(self, key: str, names: Collection[str], *, default: str | None = None) -> Expression:
        if default is not None and not self.has(key):
            return Expression(default)
        return self._expression(key, self._required(key), names)

    def expressions(
        self, key: str, names: Collection[str], *, most: int | None = None, default: tuple[str, ...] | None = None
    ) -> tuple[Expression, ...]:
        if default is not None and not self.has(key):
            return tuple(map(Expression, default))
        values = self._typed(key, list, f'Write {key} = ["…"].')
        if most is not None and not 1 <= len(values) <= most:
            raise self.error(key, f"it has {len(values)} entries.", f"Give 1 to {most}.")
        return tuple(self._expression(f"{key}[{i}]", value, names) for i, value in enumerate(values))

    def table(self, key: str) -> Table:
        """A subtable; None where it is missing."""
        values = self._typed(key, dict, f"Write [{self.prefix}{key}].") if self.has(key) else {}
        return Table(self.file, values, f"{self.prefix}{key}.")

    def tables(self, key: str) -> tuple[Table, ...]:
        remedy = f"Write [[{self.prefix}{key}]] for each."
        values = self._typed(key, list, remedy)
        if not all(isinstance(value, dict) for value in values):
            raise self.error(key, "it is not a list of tables.", remedy)
        return tuple(Table(self.file, value, f"{self.prefix}{key}[{i}].") for i, value in enumerate(values))

    def within(self, key: str, call: Callable[[], _T]) -> _T:
        """The call's result; errors get the file's and the key's name."""
        try:
            return call()
        except UsageError as error:
            raise self.error(key, error.message, error.remedy) from None

    def close(self) -> None:
        unknown = sorted(set(self.values) - self.asked)
        if unknown:
            raise self.error(unknown[0], "no such key.", f"Known keys: {', '.join(sorted(self.asked))}.")

    def _expression(self, key: str, value: object, names: Collection[str]) -> Expression:
        if not isinstance(value, int | str):
            raise self.error(key, "it is neither a whole number nor an expression.", 'Write 1 or "m // 128".')
        text = value if isinstance(value, str) else str(int(value))
        return self.within(key, lambda: Expression.parse(text, names=names))

    def _known(self, key: str, value: str, allowed: Collection[str]) -> str:
        if value not in allowed:
            raise self.error(key, f"{short(value)} is not known.", f"Choose from: {', '.join(allowed)}.")
        return value

    def _required(self, key: str) -> object:
        if not self.has(key):
            raise self.error(key, "it is missing.", "Add it; docs/manifest.md has all keys.")
        return self.values[key]

    def _typed(self, key: str, kind: type[_T], remedy: str) -> _T:
        value = self._required(key)
        if not isinstance(value, kind):
            raise self.error(key, f"it is not a {_WORDS[kind]}.", remedy)
        return value


_WORDS: Mapping[type, str] = {dict: "table", list: "list", str: "text"}


def read(file: Path) -> Table:
    """Reads the whole file, or says what is wrong with it."""
    refuse_endless(file, "manifest")
    try:
        return Table(file, tomllib.loads(file.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", remedy="Is the name right?") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(
            f"{file} is not TOML: {short(str(error))}.", remedy="Correct that line; docs/manifest.md has the form."
        ) from None
