"""JSON of a stranger, read field by field: what is not there, or of another kind, is a refusal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from autotuner.errors import UsageError

MOST_TEXT = 4096
MOST_ENTRIES = 200_000
W = TypeVar("W", bound=str)


@dataclass(frozen=True)
class Fields:
    """An object of a document; `where` names it in errors."""

    table: Mapping[str, Any]
    where: str

    @classmethod
    def of(cls, value: object, where: str) -> Fields:
        if not isinstance(value, dict):
            raise UsageError(f"{where} is not an object.", remedy="Ask for the file again where it was made.")
        return cls(value, where)

    def wrong(self, name: str, wanted: str) -> UsageError:
        return UsageError(f"{self.where}: {name} is not {wanted}.", remedy="Ask for the file again where it was made.")

    def text(self, name: str, *, most: int = MOST_TEXT) -> str:
        value = self.table.get(name)
        if not isinstance(value, str) or len(value) > most or not value.isprintable():
            raise self.wrong(name, f"a line of text of at most {most} letters")
        return value

    def long_text(self, name: str) -> str:
        """What a program said: lines, of which the last are kept."""
        value = self.table.get(name)
        if not isinstance(value, str):
            raise self.wrong(name, "a text")
        return value[-MOST_TEXT:]

    def word(self, name: str, known: Sequence[W]) -> W:
        value = self.text(name)
        for one in known:
            if one == value:
                return one
        raise self.wrong(name, f"one of {', '.join(known)}")

    def whole(self, name: str, *, least: int = 0, most: int = 2**63 - 1) -> int:
        value = self.table.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self.wrong(name, f"a whole number from {least} to {most}")
        return value

    def number(self, name: str, *, most: float = 1e15) -> float:
        return checked_number(self.table.get(name), self, name, most=most)

    def truth(self, name: str) -> bool:
        value = self.table.get(name)
        if not isinstance(value, bool):
            raise self.wrong(name, "true or false")
        return value

    def maybe(self, name: str) -> bool:
        """Is it there, and something?"""
        return self.table.get(name) is not None

    def entries(self, name: str) -> list[Any]:
        value = self.table.get(name)
        if not isinstance(value, list) or len(value) > MOST_ENTRIES:
            raise self.wrong(name, f"a list of at most {MOST_ENTRIES} entries")
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        inner = Fields({str(i): one for i, one in enumerate(self.entries(name))}, f"{self.where}: {name}")
        return tuple(inner.text(key) for key in inner.table)

    def numbers(self, name: str) -> tuple[float, ...]:
        return tuple(checked_number(one, self, name) for one in self.entries(name))

    def object(self, name: str) -> Fields:
        return Fields.of(self.table.get(name), f"{self.where}: {name}")

    def objects(self, name: str) -> Iterator[Fields]:
        for one in self.entries(name):
            yield Fields.of(one, f"{self.where}: an entry of {name}")


def checked_number(value: object, fields: Fields, name: str, *, most: float = 1e15) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    if not known or not math.isfinite(float(value)) or not 0 <= float(value) <= most:  # type: ignore[arg-type]
        raise fields.wrong(name, "a number that is not negative")
    return float(value)  # type: ignore[arg-type]
