"""What `autotune bench` has measured: other libraries beside IREE, as a section and as points of a roofline."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from autotuner.report.cells import interval, rate, text, us
from autotuner.report.charts import brief, log_axis, one_line
from autotuner.report.page import Chart, Column, Table, plain
from autotuner.report.reading import Run, number
from autotuner.report.roofline import Point
from autotuner.report.sections import Section
from autotuner.store.reader import Reader
from autotuner.system.text import count

_OURS = ("iree", "tuned")
"""The backends that a tuning run has itself."""
_COLOURS = {
    "iree": "@ink",
    "tuned": "@good",
    "numpy": "@c2",
    "torch": "@c4",
    "triton": "@c5",
    "onnxruntime": "@c6",
    "hipblaslt": "@c7",
}
"""Of a backend, whoever else is there."""


def libraries(run: Run) -> Section:
    """Every backend of every problem."""
    waited = any(number(row.get("call_us")) for _, row in _backends(run))
    rows: list[tuple[str, ...]] = [
        (
            text(problem.get("name")),
            text(row.get("backend")),
            us(number(row.get("us"))),
            rate(number(row.get("gflops"))),
            interval(row.get("over_iree")),
            us(number(row.get("cold_us"))),
            *((us(number(row.get("call_us"))),) if waited else ()),
            "" if number(row.get("error")) is None else f"{row['error']:.1e}",
            text(row.get("version")),
            f"{row['failure']}: {text(row.get('reason'))}" if row.get("failure") else text(row.get("how")),
        )
        for problem, row in _backends(run)
    ]
    times = ("cold µs", *(("one call, µs",) if waited else ()))
    numbers = [Column(title, "number") for title in ("µs", "GFLOP/s", "times as fast as iree", *times, "error")]
    columns = [Column("problem"), Column("backend"), *numbers, Column("version"), Column("how", "long")]
    if len({row[0] for row in rows}) == 1:  # which the page is called by
        columns, rows = columns[1:], [row[1:] for row in rows]
    left = [f"Left out: {text(one.get('backend'))}: {text(one.get('reason'))}{_install(one)}" for one in _left_out(run)]
    table = Table("Backends, timed in turns", columns, rows)
    return Section("libraries", "Libraries", tuple(left), wide=_chart(run), tables=(table,))


def headline(run: Run) -> str:
    """How many times as fast as each of the others IREE is."""
    several = len(run.document.get("problems") or []) > 1
    told = []
    for name, entry in (run.document.get("summary") or {}).items():
        if mean := number(entry.get("geometric_mean")):
            of = f" (of {count(int(number(entry.get('problems')) or 0), 'problem')})" if several else ""
            told.append(f"{mean:.3f} times as fast as {text(name)}{of}")
    by = next((text(one.get("by")) for one in (run.document.get("summary") or {}).values()), "")
    return f"{by} is {', '.join(told)}{', in the geometric mean' if several else ''}" if told else ""


def alone(problem: Mapping[str, Any], target: str) -> str:
    """The command that compares this problem of a suite alone."""
    _, _, options = text(problem.get("arguments")).partition(" ")
    backends = ",".join(text(row.get("backend")) for row in problem.get("backends") or [])
    return f"autotune bench {options} --target {shlex.quote(target)} --backends {shlex.quote(backends)}"


def _left_out(run: Run) -> list[Mapping[str, Any]]:
    return [one for one in run.document.get("left_out") or [] if isinstance(one, Mapping)]


def _install(left: Mapping[str, Any]) -> str:
    return f". Run: {line}" if (line := text(left.get("install"))) else ""


def other_notes(run: Run) -> tuple[str, ...]:
    """A run's notes, less those that say once more who was left out."""
    said = tuple(f"{text(one.get('backend'))} is left out: " for one in _left_out(run))
    return tuple(note for note in map(str, run.document.get("notes") or ()) if not note.startswith(said))


def _backends(run: Run) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    for problem in run.document.get("problems") or []:
        for row in problem.get("backends") or []:
            yield problem, row


def _chart(run: Run) -> tuple[Chart, ...]:
    """The time of each backend; of several problems, whose times are far apart, how it compares with IREE's default."""
    if len(run.document.get("problems") or []) > 1:
        return _beside_default(run)
    timed = [(text(p.get("name")), text(row.get("backend")), number(row.get("us"))) for p, row in _backends(run)]
    names = list(dict.fromkeys(backend for _, backend, time in timed if time))
    bars = [
        {
            "type": "bar",
            "name": plain(name),
            "x": [plain(problem) for problem, backend, time in timed if backend == name and time],
            "y": [time for _, backend, time in timed if backend == name and time],
            "marker": {"color": _COLOURS.get(name, "@c1")},
            "hovertemplate": f"%{{x}}, {plain(name)}: %{{y:.4g}} µs<extra></extra>",
        }
        for name in names
    ]
    layout = {
        "yaxis": {"title": {"text": "µs"}, "rangemode": "tozero"},
        "xaxis": {"type": "category"},
        "bargap": max(0.2, 0.8 - 0.12 * len(names)),  # few bars are no walls
        "bargroupgap": 0.1,
    }
    return (Chart("Time by backend", {"data": bars, "layout": layout}),) if bars else ()


def _beside_default(run: Run) -> tuple[Chart, ...]:
    points: dict[str, list[tuple[str, float]]] = {}
    for problem, row in _backends(run):
        ratio = number((row.get("over_iree") or {}).get("median"))
        if ratio and row.get("backend") != _OURS[0]:
            points.setdefault(text(row.get("backend")), []).append((brief(text(problem.get("name"))), ratio))
    dots = [
        {
            "type": "scatter",
            "mode": "markers",
            "name": plain(name),
            "x": [ratio for _, ratio in own],
            "y": [plain(problem) for problem, _ in own],
            "marker": {"color": _COLOURS.get(name, "@c1"), "size": 10},
            "hovertemplate": f"%{{y}}, {plain(name)}: %{{x:.3f}} times as fast as iree<extra></extra>",
        }
        for name, own in points.items()
    ]
    if not dots:
        return ()
    rows = list(dict.fromkeys(plain(brief(text(problem.get("name")))) for problem, _ in _backends(run)))[::-1]
    axis = log_axis("times as fast as iree", [1.0, *(r for own in points.values() for _, r in own)])
    layout = {
        "xaxis": axis,
        "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": rows},
        "shapes": [one_line()],
        "showlegend": True,
    }
    note = "To the right of the line: faster than IREE's default."
    return (
        Chart("Backends beside IREE's default", {"data": dots, "layout": layout}, note, height=130 + 28 * len(rows)),
    )


def beside(store: Reader, run: Run) -> list[Point]:
    """Other libraries' times of a run's own problem on the same device, from the latest comparison; of a comparison,
    those of all its problems."""
    if run.row.kind == "bench":
        return [point for problem, row in _backends(run) for point in _point(problem, row)]
    for other in store.runs_of(run.name, kinds=["bench"]):
        if (other.target, other.device) == (run.row.target, run.row.device) and other.result:
            rows = ((p, row) for p in other.result.get("problems") or [] for row in p.get("backends") or [])
            return [point for p, row in rows if row.get("backend") not in _OURS for point in _point(p, row)]
    return []


def _point(problem: Mapping[str, Any], row: Mapping[str, Any]) -> list[Point]:
    flops, size, time = number(problem.get("flops")), number(problem.get("bytes")), number(row.get("us"))
    if not flops or not size or not time:
        return []
    return [Point(text(row.get("backend")), text(problem.get("name")), flops, size, time)]
