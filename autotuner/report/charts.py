"""What charts are made of, and those of a run's search and race, as figures of plotly. However long the run, a figure
stays small."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from autotuner.report.page import Chart, plain
from autotuner.report.reading import Candidate, Finalist, Run

POINTS = 1200
"""Of a chart: a browser draws so many at once without a pause."""
FINALISTS = 25
_COLOURS = {"baseline": "@ink", "default": "@ink", "stock": "@c2", "codegen": "@c1", "microkernel": "@c4"}
_WORDS = {"baseline": "default", "default": "default", "stock": "stock route", "codegen": "codegen"}
_NAME = 32
"""Characters of a name beside a chart."""
Figure = dict[str, Any]
_ONE = {"x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper"}
"""Where something is as fast as what it is compared with."""


# --- what charts are made of ---------------------------------------------------------------------------------------


def scatter(
    name: str,
    x: Sequence[Any],
    y: Sequence[Any],
    *,
    mode: str = "markers",
    texts: Sequence[str] = (),
    hover: str = "",
    **more: Any,
) -> Figure:
    """Points or lines; `hover` is what is said of a point that is pointed at."""
    made: Figure = {"type": "scatter", "mode": mode, "name": plain(name), "x": list(x), "y": list(y), **more}
    if texts:
        made["text"] = [plain(text) for text in texts]
    return {**made, "hovertemplate": f"{hover}<extra></extra>"} if hover else made


def bars(name: str, x: Sequence[Any], y: Sequence[Any], *, colour: str, unit: str, upright: bool = False) -> Figure:
    """Lengths of one kind, side by side or stacked."""
    value, row = ("y", "x") if upright else ("x", "y")
    return {
        "type": "bar",
        "orientation": "v" if upright else "h",
        "name": plain(name),
        "x": list(x),
        "y": list(y),
        "marker": {"color": colour},
        "hovertemplate": f"%{{{row}}}, {plain(name)}: %{{{value}:.4g}} {unit}<extra></extra>",
    }


def reach(values: Sequence[float], ends: Sequence[tuple[float, float]], *, colour: str = "@muted") -> Figure:
    """Intervals around values."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [high - value for value, (_, high) in zip(values, ends, strict=True)],
        "arrayminus": [value - low for value, (low, _) in zip(values, ends, strict=True)],
        "color": colour,
    }


@dataclass(frozen=True, slots=True)
class Mark:
    """A ratio in a row of its own, with its interval where it has one."""

    row: str
    value: float
    low: float | None = None
    high: float | None = None
    colour: str = "@muted"
    symbol: str = "circle"
    text: str = ""

    @property
    def ends(self) -> tuple[float, float]:
        return self.low or self.value, self.high or self.value


def forest(
    title: str, groups: Mapping[str, Sequence[Mark]], *, axis: str | Figure, note: str = "", rows: Sequence[str] = ()
) -> Chart:
    """Ratios with their intervals, a row for each name, beside the line where nothing has changed."""
    names = [plain(row) for row in rows or dict.fromkeys(mark.row for marks in groups.values() for mark in marks)]
    data = []
    for name, marks in groups.items():
        values = [mark.value for mark in marks]
        data.append(
            scatter(
                name,
                values,
                [plain(mark.row) for mark in marks],
                texts=[mark.text or f"{mark.value:.3f}" for mark in marks],
                hover="%{y}: %{text}",
                marker={
                    "color": [mark.colour for mark in marks],
                    "symbol": [mark.symbol for mark in marks],
                    "size": 10,
                },
                error_x=reach(values, [mark.ends for mark in marks]),
            )
        )
    order = {"categoryorder": "array", "categoryarray": names, "range": [-0.7, len(names) - 0.3]}
    layout = {
        "xaxis": {"title": {"text": axis}} if isinstance(axis, str) else axis,
        "yaxis": {"type": "category", **order},
        "shapes": [{"type": "line", **_ONE, "line": {"color": "@muted", "dash": "dot"}}],
        "showlegend": any(groups),
    }
    return Chart(title, {"data": data, "layout": layout}, note, height=120 + 28 * len(names))


def brief(name: str, *, most: int = _NAME) -> str:
    """A name beside a chart: the ends of a long one, by which it differs from others."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[-most // 2 :]}"


def log_axis(title: str) -> Figure:
    """An axis of ratios, with 1, 2 and 5 beside it."""
    return {"title": {"text": title}, "type": "log", "dtick": "D2"}


def thinned(points: Sequence[Any], most: int, *, key: Any) -> list[Any]:
    """At most so many, in order: the fastest half of them, and of the others every so many."""
    if len(points) <= most:
        return list(points)
    ranked = sorted(range(len(points)), key=lambda i: key(points[i]))
    others = sorted(ranked[most // 2 :])
    step = len(others) / (most - most // 2)
    kept = {*ranked[: most // 2], *(others[int(i * step)] for i in range(most - most // 2))}
    return [points[i] for i in sorted(kept)]


# --- a run's search and race -----------------------------------------------------------------------------------------


def progress(run: Run) -> Chart | None:
    """The best so far, over the candidates."""
    timed = list(enumerate(run.timed, start=1))
    if len(timed) < 2:
        return None
    best = list(accumulate((candidate.us or math.inf for _, candidate in timed), min))
    steps = [i for i, us in enumerate(best) if i in (0, len(best) - 1) or us < best[i - 1]]
    line = scatter(
        "best so far",
        [timed[i][0] for i in steps],
        [best[i] for i in steps],
        mode="lines",
        line={"shape": "hv", "color": "@good", "width": 2.5},
    )
    kinds = dict.fromkeys(candidate.row.kind for _, candidate in timed)
    shown = thinned(timed, POINTS, key=lambda point: point[1].us or math.inf)
    data = [*(_dots(kind, [p for p in shown if p[1].row.kind == kind]) for kind in kinds), line]
    layout = {"xaxis": {"title": {"text": "timed candidates"}}, "yaxis": log_axis("µs")}
    return Chart("Best so far", {"data": data, "layout": layout}, _shown(len(timed)))


def _dots(kind: str, points: Sequence[tuple[int, Candidate]]) -> Figure:
    size = 6 if kind in ("codegen", "microkernel") else 9
    return scatter(
        _WORDS.get(kind, kind),
        [at for at, _ in points],
        [candidate.us for _, candidate in points],
        texts=[candidate.name for _, candidate in points],
        hover="%{text}: %{y:.4g} µs",
        marker={"color": _COLOURS.get(kind, "@c5"), "size": size, "opacity": 0.75},
    )


def _shown(count: int) -> str:
    return f"{POINTS} of {count} are drawn: the fastest, and others evenly." if count > POINTS else ""


def importance(shares: Mapping[str, float | None]) -> Chart | None:
    """What share of the spread each knob explains by itself."""
    told = [(name, round(100 * share, 1)) for name, share in shares.items() if share is not None][::-1]
    if not told:
        return None
    data = [bars("share", [share for _, share in told], [plain(name) for name, _ in told], colour="@c1", unit="%")]
    note = "Per cent of the spread of log time that a knob's values explain by themselves, beyond chance."
    layout = {"xaxis": {"title": {"text": "%"}, "rangemode": "tozero"}, "yaxis": {"type": "category"}, "bargap": 0.35}
    return Chart("Which knobs matter", {"data": data, "layout": layout}, note, height=90 + 24 * len(told))


def shown_finalists(run: Run) -> list[Finalist]:
    """Those that a page has room for: what was confirmed, and the best of the race."""
    return sorted(run.finalists, key=lambda f: (f.phase == "confirm", f.median))[-FINALISTS:]


def finalists(run: Run) -> Chart | None:
    """The finalists' ratios to the default with their intervals."""
    shown = shown_finalists(run)
    groups: dict[str, list[Mark]] = {}
    for one in shown:
        groups.setdefault(one.phase, []).append(_mark(one))
    note = "Median and 95 % interval over blocks timed side by side. The race chooses; the confirmation is fresh data."
    rows = [mark.row for mark in map(_mark, shown)]
    return forest("Finalists", groups, axis="times as fast as the default", note=note, rows=rows) if shown else None


def _mark(one: Finalist) -> Mark:
    colour, symbol = ("@good", "diamond") if one.phase == "confirm" else ("@c1", "circle")
    row, blocks = f"{brief(one.name)}, {one.phase}", f"{one.blocks} blocks"
    if one.interval is None:
        text = f"{one.median:.3f}, too few blocks for an interval, {blocks}"
        return Mark(row, one.median, colour=colour, symbol=symbol, text=text)
    low, high = one.interval.low, one.interval.high
    return Mark(row, one.median, low, high, colour, symbol, f"{one.median:.3f} ({low:.3f} to {high:.3f}), {blocks}")
