"""Charts as a page draws them: where each mark stands, in per cent. The page's style does the rest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Self

from autotuner.report.reading import Finalist, Run, name_of, time_of
from autotuner.store.rows import CandidateRow

POINTS = 1200
"""Points of a chart: a browser draws as many without a pause."""
FINALISTS = 25
_MARGIN = 0.04
"""Added to both ends of an axis, so that marks are not cut."""
_TICKS = 5
"""About the most that fit on a phone."""


@dataclass(frozen=True, slots=True)
class Scale:
    """An axis."""

    low: float
    high: float
    log: bool = False

    @classmethod
    def over(cls, values: Iterable[float], *, log: bool = False) -> Self:
        """An axis over all values, with a margin."""
        known = [math.log(value) if log else value for value in values]
        low, high = min(known), max(known)
        margin = _MARGIN * (high - low) or max(abs(high), 1.0) * _MARGIN
        low, high = (math.exp(end) if log else end for end in (low - margin, high + margin))
        return cls(low, high, log)

    def at(self, value: float) -> float:
        """In per cent, from the low end."""
        value, low, high = (math.log(x) if self.log else x for x in (value, self.low, self.high))
        return round(100 * (value - low) / (high - low), 2)

    @property
    def ticks(self) -> list[tuple[float, str]]:
        """Round values between the ends: where each is, and its name."""
        if self.log and self.high > 10 * self.low:
            decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            steps = (1, 2, 5) if self.high <= 100 * self.low else (1,)
            found = [step * 10.0**decade for decade in decades for step in steps]
        else:
            rough = (self.high - self.low) / _TICKS
            base = 10.0 ** math.floor(math.log10(rough))
            step = base * next(n for n in (1, 2, 5, 10) if n * base >= rough)
            found = [n * step for n in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]
        return [(self.at(value), f"{value:.6g}") for value in found if self.low <= value <= self.high]


@dataclass(frozen=True, slots=True)
class Mark:
    """A value in a row of its own, with its interval where it has one."""

    row: str
    value: float
    low: float | None = None
    high: float | None = None
    colour: str = "muted"
    text: str = ""
    link: str = ""

    @property
    def ends(self) -> tuple[float, float]:
        return self.value if self.low is None else self.low, self.value if self.high is None else self.high


@dataclass(frozen=True, slots=True)
class Rows:
    """A row for each mark: a dot with its interval; `line` is where nothing has changed."""

    title: str
    marks: Sequence[Mark]
    scale: Scale
    note: str = ""
    line: float | None = None


@dataclass(frozen=True, slots=True)
class Point:
    x: float
    y: float
    text: str
    colour: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class Plot:
    """Points, and a line through `path`."""

    title: str
    x: Scale
    y: Scale
    points: Sequence[Point]
    path: Sequence[tuple[float, float]]
    axes: tuple[str, str]
    """What is along x, and along y."""
    note: str = ""
    legend: Mapping[str, str] | None = None
    """Colours, and what has them."""
    names: Sequence[tuple[float, str]] = ()
    """Labels along x, by place in per cent, instead of numbers."""

    @property
    def line(self) -> str:
        """Points of a polyline, whose y axis points down."""
        return " ".join(f"{self.x.at(x)},{round(100 - self.y.at(y), 2)}" for x, y in self.path)


Chart = Rows | Plot


def forest(title: str, marks: Sequence[Mark], *, note: str = "") -> Rows:
    """Speedups with their intervals, and a line at 1."""
    scale = Scale.over([1.0, *(end for mark in marks for end in mark.ends)], log=True)
    return Rows(title, marks, scale, note, line=scale.at(1.0))


# --- a run's search and race -----------------------------------------------------------------------------------------

_COLOURS = {"baseline": "ink", "stock": "c2", "codegen": "c1", "microkernel": "c4"}


def progress(run: Run) -> Plot | None:
    """The best so far, over the candidates."""
    timed = list(enumerate(run.timed, start=1))
    if len(timed) < 2 or run.row.kind == "bench":  # which searches nothing
        return None
    times = [row.us or math.inf for _, row in timed]
    best = list(accumulate(times, min))
    steps = [i for i, us in enumerate(best) if i == 0 or us < best[i - 1]]
    corners = [(i + 1, best[j]) for i, j in zip(steps, [0, *steps], strict=False)]  # along, then down
    path = [point for i, along in zip(steps, corners, strict=True) for point in (along, (i + 1, best[i]))]
    every = math.ceil(len(timed) / POINTS)
    points = [_point(at, row, run) for at, row in timed if at % every == 0 or row.us == best[-1]]
    kinds = dict.fromkeys(row.kind for _, row in timed)
    legend = {_COLOURS.get(kind, "c5"): "default" if kind == "baseline" else kind for kind in kinds}
    return Plot(
        "Best so far",
        Scale.over([1, len(timed)]),
        Scale.over([us for us in times if us < math.inf], log=True),
        points,
        [*path, (len(timed), best[-1])],
        ("timed candidates", "µs"),
        f"One of {every} is drawn." if every > 1 else "",
        legend,
    )


def _point(at: int, row: CandidateRow, run: Run) -> Point:
    us = time_of(row) or math.inf
    return Point(at, us, f"{name_of(row)}: {us:.4g} µs", _COLOURS.get(row.kind, "c5"), run.link(row.ordinal))


def finalists(run: Run) -> Rows | None:
    """The finalists' ratios to the default with their intervals: what was confirmed, and the best of the race."""
    shown = sorted(run.finalists, key=lambda f: (f.phase == "confirm", f.median), reverse=True)[:FINALISTS]
    note = "Median and 95 % interval over blocks timed side by side. The race chooses; the confirmation is fresh data."
    return forest("Finalists", [_mark(one, run) for one in shown], note=note) if shown else None


def _mark(one: Finalist, run: Run) -> Mark:
    low, high = (one.interval.low, one.interval.high) if one.interval else (None, None)
    bounds = f" ({low:.3f} to {high:.3f})" if low is not None else ", too few blocks for an interval"
    text = f"{one.median:.3f}x{bounds}, {one.blocks} blocks"
    colour = "good" if one.phase == "confirm" else "c1"
    return Mark(f"{one.name}, {one.phase}", one.median, low, high, colour, text, run.link(one.ordinal))
