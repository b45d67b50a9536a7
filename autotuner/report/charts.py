"""What charts are made of, and those of a run's search and race, as figures of plotly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from autotuner.report.page import Chart, plain
from autotuner.report.reading import Finalist, Run, name_of, time_of
from autotuner.store.rows import CandidateRow

POINTS = 1200
"""Of a chart: a browser draws so many at once without a pause."""
FINALISTS = 25
_COLOURS = {"baseline": "@ink", "stock": "@c2", "codegen": "@c1", "microkernel": "@c4"}
_NAME = 32
"""Characters of a name beside a chart."""
Figure = dict[str, Any]
_ONE = {"type": "line", "x0": 1, "x1": 1, "y0": 0, "y1": 1, "yref": "paper", "line": {"color": "@muted", "dash": "dot"}}
"""Where something is as fast as what it is compared with."""


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


@dataclass(frozen=True, slots=True)
class Mark:
    """A ratio in a row of its own, with its interval where it has one."""

    row: str
    value: float
    low: float | None = None
    high: float | None = None
    colour: str = "@muted"
    text: str = ""


def forest(title: str, marks: Sequence[Mark], *, note: str = "") -> Chart:
    """Times as fast as the default with their intervals, a row for each, beside the line where nothing has changed."""
    names = [plain(mark.row if len(mark.row) <= _NAME else f"{mark.row[:14]}…{mark.row[-16:]}") for mark in marks]
    values = [mark.value for mark in marks]
    data = scatter(
        title,
        values,
        names,
        texts=[mark.text or f"{mark.value:.3f}" for mark in marks],
        hover="%{y}: %{text}",
        marker={"color": [mark.colour for mark in marks], "size": 10},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [(mark.high or mark.value) - mark.value for mark in marks],
            "arrayminus": [mark.value - (mark.low or mark.value) for mark in marks],
            "color": "@muted",
        },
    )
    layout = {
        "xaxis": {"title": {"text": "times as fast as the default"}},
        "yaxis": {"type": "category", "range": [-0.7, len({*names}) - 0.3]},
        "shapes": [_ONE],
        "showlegend": False,
    }
    return Chart(title, {"data": [data], "layout": layout}, note, height=120 + 28 * len(names))


# --- a run's search and race -----------------------------------------------------------------------------------------


def progress(run: Run) -> Chart | None:
    """The best so far, over the candidates."""
    timed = list(enumerate(run.timed, start=1))
    if len(timed) < 2:
        return None
    best = list(accumulate((row.us or math.inf for _, row in timed), min))
    steps = [i for i, us in enumerate(best) if i in (0, len(best) - 1) or us < best[i - 1]]
    line = scatter(
        "best so far",
        [timed[i][0] for i in steps],
        [best[i] for i in steps],
        mode="lines",
        line={"shape": "hv", "color": "@good", "width": 2.5},
    )
    every = math.ceil(len(timed) / POINTS)
    kinds = dict.fromkeys(row.kind for _, row in timed)
    data = [*(_dots(kind, [p for p in timed[::every] if p[1].kind == kind]) for kind in kinds), line]
    axis = {"title": {"text": "µs"}, "type": "log", "dtick": "D2"}
    layout = {"xaxis": {"title": {"text": "timed candidates"}}, "yaxis": axis}
    note = f"One of {every} is drawn." if every > 1 else ""
    return Chart("Best so far", {"data": data, "layout": layout}, note)


def _dots(kind: str, points: Sequence[tuple[int, CandidateRow]]) -> Figure:
    size = 6 if kind in ("codegen", "microkernel") else 9
    return scatter(
        "default" if kind == "baseline" else kind,
        [at for at, _ in points],
        [time_of(row) for _, row in points],
        texts=[name_of(row) for _, row in points],
        hover="%{text}: %{y:.4g} µs",
        marker={"color": _COLOURS.get(kind, "@c5"), "size": size, "opacity": 0.75},
    )


def importance(shares: Mapping[str, float | None]) -> Chart | None:
    """What share of the spread each knob explains by itself."""
    told = [(name, round(100 * share, 1)) for name, share in shares.items() if share is not None][::-1]
    if not told:
        return None
    data: Figure = {
        "type": "bar",
        "orientation": "h",
        "x": [share for _, share in told],
        "y": [plain(name) for name, _ in told],
        "marker": {"color": "@c1"},
        "hovertemplate": "%{y}: %{x:.4g} %<extra></extra>",
    }
    note = "Per cent of the spread of log time that a knob's values explain by themselves, beyond chance."
    layout = {"xaxis": {"title": {"text": "%"}, "rangemode": "tozero"}, "yaxis": {"type": "category"}, "bargap": 0.35}
    return Chart("Which knobs matter", {"data": [data], "layout": layout}, note, height=90 + 24 * len(told))


def finalists(run: Run) -> Chart | None:
    """The finalists' ratios to the default with their intervals: what was confirmed, and the best of the race."""
    shown = sorted(run.finalists, key=lambda f: (f.phase == "confirm", f.median))[-FINALISTS:]
    note = "Median and 95 % interval over blocks timed side by side. The race chooses; the confirmation is fresh data."
    return forest("Finalists", [_mark(one) for one in shown], note=note) if shown else None


def _mark(one: Finalist) -> Mark:
    colour = "@good" if one.phase == "confirm" else "@c1"
    row, blocks = f"{one.name}, {one.phase}", f"{one.blocks} blocks"
    if one.interval is None:
        return Mark(row, one.median, colour=colour, text=f"{one.median:.3f}, too few blocks for an interval, {blocks}")
    low, high = one.interval.low, one.interval.high
    return Mark(row, one.median, low, high, colour, f"{one.median:.3f} ({low:.3f} to {high:.3f}), {blocks}")
