"""What `autotune bench` has measured: other libraries beside IREE, as a section and as points of a roofline."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from autotuner.report.charts import Mark, bars, brief, forest, log_axis
from autotuner.report.page import Chart, Section, plain
from autotuner.report.reading import Run
from autotuner.report.roofline import Point
from autotuner.report.tables import Field, Table, error, interval, number, text, us
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


_Pair = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A problem, and one of its backends."""


def _us(title: str, name: str) -> Field:
    return Field(title, lambda pair: us(pair[1].get(name)), "number")


def _how(pair: _Pair) -> str:
    row = pair[1]
    return f"{row['failure']}: {text(row.get('reason'))}" if row.get("failure") else text(row.get("how"))


_WAITED = _us("one call, µs", "call_us")
_FIELDS = (
    Field("problem", lambda pair: text(pair[0].get("name"))),
    Field("backend", lambda pair: text(pair[1].get("backend"))),
    _us("µs", "us"),
    Field("GFLOP/s", lambda pair: _rate(number(pair[1].get("gflops"))), "number"),
    Field("times as fast as iree", lambda pair: interval(pair[1].get("over_iree")), "number"),
    _us("cold µs", "cold_us"),
    _WAITED,
    Field("error", lambda pair: error(pair[1].get("error")), "number"),
    Field("version", lambda pair: text(pair[1].get("version"))),
    Field("how", _how, "long"),
)


def _rate(value: float | None) -> str:
    """GFLOP/s; of a small one the digits that it has."""
    return "" if value is None else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def libraries(run: Run) -> Section:
    """Every backend of every problem."""
    rows = [*_backends(run)]
    waited = any(number(row.get("call_us")) for _, row in rows)
    alone = len({text(problem.get("name")) for problem, _ in rows}) == 1  # which the page is called by
    fields = [field for field in _FIELDS[1 if alone else 0 :] if waited or field is not _WAITED]
    left = [f"Left out: {text(one.get('backend'))}: {text(one.get('reason'))}{_install(one)}" for one in _left_out(run)]
    table = Table.of("Backends, timed in turns", rows, fields)
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


def _backends(run: Run) -> Iterator[_Pair]:
    for problem in run.document.get("problems") or []:
        for row in problem.get("backends") or []:
            yield problem, row


def _chart(run: Run) -> tuple[Chart, ...]:
    """The time of each backend; of several problems, whose times are far apart, how it compares with IREE's default."""
    if len(run.document.get("problems") or []) > 1:
        return _beside_default(run)
    timed = [(text(p.get("name")), text(row.get("backend")), number(row.get("us"))) for p, row in _backends(run)]
    names = list(dict.fromkeys(backend for _, backend, time in timed if time))
    data = [
        bars(
            name,
            [plain(problem) for problem, backend, time in timed if backend == name and time],
            [time for _, backend, time in timed if backend == name and time],
            colour=_COLOURS.get(name, "@c1"),
            unit="µs",
            upright=True,
        )
        for name in names
    ]
    layout = {
        "yaxis": {"title": {"text": "µs"}, "rangemode": "tozero"},
        "xaxis": {"type": "category"},
        "bargap": max(0.2, 0.8 - 0.12 * len(names)),  # few bars are no walls
        "bargroupgap": 0.1,
    }
    return (Chart("Time by backend", {"data": data, "layout": layout}),) if data else ()


def _beside_default(run: Run) -> tuple[Chart, ...]:
    groups: dict[str, list[Mark]] = {}
    for problem, row in _backends(run):
        name, ratio = text(row.get("backend")), number((row.get("over_iree") or {}).get("median"))
        if ratio and name != _OURS[0]:
            groups.setdefault(name, []).append(
                Mark(
                    brief(text(problem.get("name"))),
                    ratio,
                    colour=_COLOURS.get(name, "@c1"),
                    text=f"{name}, {ratio:.3f} times as fast as iree",
                )
            )
    if not groups:
        return ()
    rows = list(dict.fromkeys(brief(text(problem.get("name"))) for problem, _ in _backends(run)))[::-1]
    axis = log_axis("times as fast as iree", [1.0, *(mark.value for marks in groups.values() for mark in marks)])
    note = "To the right of the line: faster than IREE's default."
    return (forest("Backends beside IREE's default", groups, axis=axis, note=note, rows=rows),)


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
