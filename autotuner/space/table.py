"""A search space as a table: one row a legal configuration, one column a knob."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Value = int | str | bool
Columns = Mapping[str, npt.NDArray[np.int64]]
ABSENT = -1
"""The value of a knob that a row's part of a joined space does not have."""


@dataclass(frozen=True, slots=True)
class Knob:
    """A named choice. Integer knobs are ordered (a neighbour is the next value); others are categories."""

    name: str
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if not self.values or len(set(self.values)) != len(self.values):
            raise ValueError(f"knob {self.name!r} needs distinct values, has {self.values}")
        if self.ordered and list(self.values) != sorted(self.values, key=int):
            raise ValueError(f"knob {self.name!r} needs its numbers ascending, has {self.values}")

    @property
    def ordered(self) -> bool:
        return all(isinstance(v, int) and not isinstance(v, bool) for v in self.values)


@dataclass(frozen=True, slots=True)
class Config:
    """One configuration: knob names with their values, in the space's order."""

    items: tuple[tuple[str, Value], ...]

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Config:
        return cls(tuple(values.items()))

    def as_dict(self) -> dict[str, Value]:
        return dict(self.items)

    def __getitem__(self, name: str) -> Value:
        return self.as_dict()[name]

    @property
    def key(self) -> str:
        """A short name of these knobs and values, whatever their order."""
        text = json.dumps(self.as_dict(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class _LazyColumns(Mapping[str, npt.NDArray[np.int64]]):
    """Columns of values, each made on first use: rows may be millions, and a rule reads few columns."""

    places: Mapping[str, tuple[npt.NDArray[np.int64], npt.NDArray[np.int16]]]
    """Each knob's values, and the index of each row's value."""

    def __getitem__(self, name: str) -> npt.NDArray[np.int64]:
        values, places = self.places[name]
        return values[places]

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def _strides(sizes: Sequence[int]) -> tuple[npt.NDArray[np.int64], bool]:
    """The weight of each knob in the code of a row, and whether codes are unique.

    Where there are more combinations than 64-bit numbers, weights are random (with a fixed seed) and codes wrap around:
    two of a million rows share a code in one of ten million spaces.
    """
    if math.prod(sizes) < 1 << 62:
        return np.array([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], np.int64), True
    drawn = np.random.default_rng(0).integers(np.iinfo(np.int64).min, np.iinfo(np.int64).max, len(sizes), np.int64)
    return drawn | 1, False


class Space:
    """The legal configurations over some knobs, as a table of value indices."""

    def __init__(self, knobs: Sequence[Knob], rows: npt.NDArray[np.integer]) -> None:
        self.knobs = tuple(knobs)
        if rows.ndim != 2 or rows.shape[1] != len(self.knobs):
            raise ValueError(f"{len(self.knobs)} knobs but rows of shape {rows.shape}")
        self._strides, exact = _strides([len(k.values) for k in self.knobs])
        codes = rows.astype(np.int64) @ self._strides
        table = rows.astype(np.int16)
        if not (np.diff(codes) > 0).all():
            _, first = np.unique(codes, return_index=True)
            first = first if exact else np.sort(first)
            codes, table = codes[first], table[first]
        self._codes = codes
        # The same in order, for a search, and whose they are.
        self._places = np.arange(len(codes)) if exact else np.argsort(codes)
        self._sorted = codes[self._places]
        self._rows = np.ascontiguousarray(table)
        # A long search keeps many configurations: they share these.
        self._pairs = [[(knob.name, value) for value in knob.values] for knob in self.knobs]

    @classmethod
    def empty(cls) -> Space:
        """A space without knobs and rows."""
        return cls((), np.zeros((0, 0), np.int64))

    @classmethod
    def product(cls, knobs: Sequence[Knob], rules: Sequence[Callable[[Columns], npt.NDArray[np.bool_]]] = ()) -> Space:
        """The combinations of integer knobs that obey every rule; a rule gets whole columns of values."""
        grid = np.indices([len(k.values) for k in knobs], dtype=np.int16).reshape(len(knobs), -1)
        values = [np.array([int(v) for v in k.values], np.int64) for k in knobs]
        for rule in rules:
            grid = grid[:, rule(_LazyColumns({k.name: (values[i], grid[i]) for i, k in enumerate(knobs)}))]
        return cls(knobs, grid.T)

    @classmethod
    def join(cls, name: str, parts: Mapping[str, Space]) -> Space:
        """The union of parts; knob `name` says which part a row is of, ABSENT fills what a part lacks."""
        wanted: dict[str, set[Value]] = {}
        for part in parts.values():
            for knob in part.knobs:
                wanted.setdefault(knob.name, set()).update(knob.values)
        for part in parts.values():
            for missing in wanted.keys() - {k.name for k in part.knobs}:
                wanted[missing].add(ABSENT)
        knobs = [Knob(name, tuple(parts))]
        knobs += [Knob(k, tuple(sorted(v, key=lambda x: (isinstance(x, str), x)))) for k, v in wanted.items()]
        tables = []
        for label, part in parts.items():
            table = np.zeros((len(part), len(knobs)), np.int16)
            table[:, 0] = knobs[0].values.index(label)
            own = {k.name: i for i, k in enumerate(part.knobs)}
            for column, knob in enumerate(knobs[1:], start=1):
                if knob.name in own:
                    source = own[knob.name]
                    translate = np.array([knob.values.index(v) for v in part.knobs[source].values], np.int16)
                    table[:, column] = translate[part._rows[:, source]]
                else:
                    table[:, column] = knob.values.index(ABSENT)
            tables.append(table)
        return cls(knobs, np.concatenate(tables))

    def cross(self, free: Sequence[Knob]) -> Space:
        """The product of this space with further knobs."""
        if not free:
            return self
        grid = np.indices([len(k.values) for k in free], dtype=np.int16).reshape(len(free), -1).T
        left = np.repeat(self._rows, len(grid), axis=0)
        right = np.tile(grid, (len(self), 1))
        return Space([*self.knobs, *free], np.concatenate([left, right], axis=1))

    def columns(self) -> Columns:
        """The values of the integer knobs, over all rows."""
        values = [np.array([int(v) for v in knob.values], np.int64) for knob in self.knobs]
        return {knob.name: values[i][self._rows[:, i]] for i, knob in enumerate(self.knobs)}

    def keep(self, mask: npt.NDArray[np.bool_]) -> Space:
        """A space of the rows where the mask holds."""
        return Space(self.knobs, self._rows[mask])

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> Config:
        row = self._rows[index]
        return Config(tuple(pairs[i] for pairs, i in zip(self._pairs, row, strict=True)))

    def __iter__(self) -> Iterator[Config]:
        return (self[i] for i in range(len(self)))

    def __contains__(self, config: object) -> bool:
        return isinstance(config, Config) and self.index(config) is not None

    def index(self, config: Config) -> int | None:
        """The row of a configuration; None: it is not legal."""
        values = config.as_dict()
        if values.keys() != {k.name for k in self.knobs}:
            return None
        try:
            places = [knob.values.index(values[knob.name]) for knob in self.knobs]
        except ValueError:
            return None
        if not len(self):
            return None
        found = self._at(np.array([places], np.int64) @ self._strides)
        return int(found[0]) if len(found) else None

    def around(self, index: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The rows that differ from this one in exactly one knob, and those that differ in two.

        They are found by their codes, without looking at every row.
        """
        steps, owners = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for number, (here, knob, stride) in enumerate(zip(self._rows[index], self.knobs, self._strides, strict=True)):
            others = np.delete(np.arange(len(knob.values), dtype=np.int64), int(here))
            steps.append((others - int(here)) * stride)
            owners.append(np.full(len(others), number))
        step, owner = np.concatenate(steps), np.concatenate(owners)
        one, two = np.nonzero(owner[:, None] < owner[None, :])
        return self._at(self._codes[index] + step), self._at(self._codes[index] + step[one] + step[two])

    def _at(self, codes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rows of those codes that are legal, in order."""
        place = np.minimum(np.searchsorted(self._sorted, codes), len(self) - 1)
        return np.sort(self._places[place[self._sorted[place] == codes]])

    @property
    def indices(self) -> npt.NDArray[np.int16]:
        """The table: one row a configuration, one column a knob, with indices of values."""
        return self._rows

    @cached_property
    def _scale(self) -> npt.NDArray[np.float32]:
        return np.array([1.0 / max(len(k.values) - 1, 1) for k in self.knobs], np.float32)

    def nearest(self, values: Mapping[str, Value], *, among: npt.NDArray[np.bool_] | None = None) -> int:
        """The legal row nearest to a proposal, `among` some of them; knobs that it lacks or that are unknown do not
        count."""
        if not len(self):
            raise ValueError("the space is empty")
        distance = np.zeros(len(self), np.float32)
        for column, knob in enumerate(self.knobs):
            if knob.name not in values:
                continue
            wanted = values[knob.name]
            if knob.ordered and isinstance(wanted, int):
                numbers = np.array([int(v) for v in knob.values], np.int64)
                position = np.interp(wanted, numbers, np.arange(len(numbers)))
                distance += (np.abs(self._rows[:, column] - position) * self._scale[column]).astype(np.float32)
            elif wanted in knob.values:
                distance += self._rows[:, column] != knob.values.index(wanted)
        return int((distance if among is None else np.where(among, distance, np.inf)).argmin())

    def sample(self, count: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Distinct random rows, at most as many as there are."""
        return rng.choice(len(self), size=min(count, len(self)), replace=False)

    def counts(self, name: str) -> dict[Value, int]:
        """How many rows each value of a knob has."""
        column = next(i for i, knob in enumerate(self.knobs) if knob.name == name)
        found = np.bincount(self._rows[:, column], minlength=len(self.knobs[column].values))
        return {value: int(n) for value, n in zip(self.knobs[column].values, found, strict=True)}
