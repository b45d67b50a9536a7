"""A run beside what its device can do, and beside other libraries.

The roofline is rate over intensity, under the roofs of the device; `autotune bench` times other libraries' kernels.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotuner.report.charts import Figure, Mark, bars, brief, forest, log_axis, scatter
from autotuner.report.page import Chart, Section, plain
from autotuner.report.reading import Run
from autotuner.report.tables import Field, Table, error, interval, number, text, us
from autotuner.store.reader import Reader
from autotuner.system.text import count
from autotuner.targets.backends import Peak
from autotuner.targets.catalog import peak_of

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
NO_ROOFLINE = ("model", "suite")
"""Operations whose problem has no single intensity: their parts have."""
_RATE = "%{y:.4g} GFLOP/s at %{x:.3g} FLOP per byte"


@dataclass(frozen=True, slots=True)
class Point:
    """A time as a rate."""

    what: str
    problem: str
    flops: float
    bytes: float
    us: float

    @property
    def intensity(self) -> float:
        """FLOP a byte, every operand read or written once."""
        return self.flops / self.bytes

    @property
    def gflops(self) -> float:
        return self.flops / self.us / 1e3


@dataclass(frozen=True, slots=True)
class Roofs:
    """What bounds a rate; None where nobody knows."""

    product: str
    gflops: float | None
    gbs: float | None

    def bound(self, intensity: float) -> float | None:
        """The highest rate at an intensity, GFLOP/s."""
        known = [roof for roof in (self.gflops, self.gbs * intensity if self.gbs else None) if roof]
        return min(known, default=None)


def points(run: Run) -> list[Point]:
    """Of a run, and of its parts where it has some."""
    return [point for one in (run, *run.parts) for point in _points(one)]


def _points(run: Run) -> Iterator[Point]:
    flops, size = (number(run.row.problem.get(name)) for name in ("flops", "bytes"))
    if not flops or not size or run.row.problem.get("op") in NO_ROOFLINE or run.row.kind == "bench":
        return
    times = {"default": (run.document.get("baseline") or {}).get("us") or (run.baseline and run.baseline.us)}
    stock, best = run.document.get("stock") or {}, run.document.get("best") or {}
    times["stock"] = stock.get("us") if stock.get("flags") else None
    times["best"] = best.get("us") or (run.best and run.best.us)
    for what, value in times.items():
        if us := number(value):
            yield Point(what, run.name, flops, size, us)


def element_type(run: Run) -> str:
    """The type of a problem's inputs, in the words of the command line; empty where no row says."""
    types = (run.row.problem.get("shape") or {}).get("types") or [""]
    return "f8" if str(types[0]).startswith("f8") else str(types[0])


def roofs(run: Run) -> Roofs:
    """Of the device of a run, by its data sheet."""
    device = str(run.environment.get("device_name") or "")
    peak: Peak | None = peak_of(run.row.target, device=device)
    kinds = {element_type(one) for one in (run, *run.parts)} - {""}
    rate = peak.tflops.get(next(iter(kinds))) if peak and len(kinds) == 1 else None
    name = peak.product if peak else device
    return Roofs(name, rate * 1e3 if rate else None, peak.gbs if peak else None)


def roofline(run: Run, *, beside: Sequence[Point] = ()) -> Chart | None:
    """The roofline; `beside` are other libraries' times of the same problem."""
    own = [*points(run), *beside]
    if not own:
        return None
    device = roofs(run)
    lowest, highest = min(p.intensity for p in own) / 4, max(p.intensity for p in own) * 4
    data = [_roof(*roof, low=lowest, high=highest) for roof in _lines(device, own)]
    words = list(dict.fromkeys(point.what for point in own))
    data += [_marks(what, i, [p for p in own if p.what == what], device) for i, what in enumerate(words)]
    heights = [y for line in data for y in line["y"]] + [point.gflops for point in own]
    layout = {
        "xaxis": log_axis("FLOP per byte", [lowest, highest], room=1.0),
        "yaxis": log_axis("GFLOP/s", heights, room=1.5),
    }
    return Chart("Roofline", {"data": data, "layout": layout}, _note(device, own), height=400)


def _note(device: Roofs, own: Sequence[Point]) -> str:
    source = f"Roofs of {device.product}: " if device.product else "Roofs: "
    known = [
        f"{device.gflops / 1e3:.5g} TFLOP/s by data sheet" if device.gflops else "",
        f"{device.gbs:.5g} GB/s by data sheet" if device.gbs else "",
    ]
    told = ", ".join(word for word in known if word)
    first = own[0]
    size = f": {first.bytes / 2**20:.4g} MiB" if len({p.problem for p in own}) == 1 else ""
    return f"{source}{told or 'not known'}. Bytes: every operand once, in its own type{size}."


def _lines(device: Roofs, own: Sequence[Point]) -> Iterator[tuple[str, float, float | None, str]]:
    """Name, GB/s, GFLOP/s and colour of each roof; without a peak the fastest that was seen is drawn as one."""
    flat = device.gflops
    if device.gbs or flat:
        yield "data sheet", device.gbs or math.inf, flat, "@muted"
    if not flat:
        yield "fastest here", math.inf, max(point.gflops for point in own), "@muted"


def _roof(name: str, gbs: float, flat: float | None, colour: str, *, low: float, high: float) -> Figure:
    ridge = flat / gbs if flat and math.isfinite(gbs) else None
    xs = sorted({low, high, *([ridge] if ridge and low < ridge < high else [])})
    ys = [min(gbs * x, flat if flat else math.inf) for x in xs]
    line = {"color": colour, "width": 2, "dash": "solid" if math.isfinite(gbs) else "dash"}
    return scatter(name, xs, ys, mode="lines", hover=f"{name}: {_RATE}", line=line)


_MARKS = {
    "default": ("@ink", "square"),
    "stock": ("@c2", "diamond"),
    "best": ("@good", "circle"),
    "iree": ("@ink", "square"),
    "tuned": ("@good", "circle"),
}
_UNKNOWN = (("@c4", "cross"), ("@c5", "triangle-up"), ("@c7", "x"), ("@c6", "star"))


def _marks(what: str, place: int, own: Sequence[Point], device: Roofs) -> Figure:
    colour, symbol = _MARKS.get(what, _UNKNOWN[place % len(_UNKNOWN)])
    return scatter(
        what,
        [point.intensity for point in own],
        [point.gflops for point in own],
        texts=[f"{point.problem}, {what}{_reached(point, device)}" for point in own],
        hover=f"%{{text}}<br>{_RATE}",
        marker={"color": colour, "symbol": symbol, "size": 11, "line": {"color": "@paper", "width": 1}},
    )


def _reached(point: Point, device: Roofs) -> str:
    bound = device.bound(point.intensity) if device.gflops else None
    return f", {100 * point.gflops / bound:.0f} % of the roof" if bound else ""


# --- other libraries -------------------------------------------------------------------------------------------------


_Pair = tuple[Mapping[str, Any], Mapping[str, Any]]
"""A problem, and one of its backends."""


def _us(title: str, name: str) -> Field:
    return Field(title, lambda pair: us(pair[1].get(name)), "number")


def _how(pair: _Pair) -> str:
    row = pair[1]
    return f"{row['failure']}: {text(row.get('reason'))}" if row.get("failure") else text(row.get("how"))


_FIELDS = (
    Field("problem", lambda pair: text(pair[0].get("name"))),
    Field("backend", lambda pair: text(pair[1].get("backend"))),
    _us("µs", "us"),
    Field("GFLOP/s", lambda pair: _rate(number(pair[1].get("gflops"))), "number"),
    Field("times as fast as iree", lambda pair: interval(pair[1].get("over_iree")), "number"),
    _us("cold µs", "cold_us"),
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
    alone = len({text(problem.get("name")) for problem, _ in rows}) == 1  # which the page is called by
    fields = _FIELDS[1 if alone else 0 :]
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
