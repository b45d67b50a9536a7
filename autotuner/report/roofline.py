"""A run beside what its device can do: rate over intensity, under the roofs of the device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotuner.report.charts import Figure, log_axis, scatter
from autotuner.report.page import Chart
from autotuner.report.reading import Run
from autotuner.report.tables import number, text
from autotuner.store.reader import Reader
from autotuner.targets.catalog import peak_of

OURS = ("iree", "tuned")
"""The backends of a comparison that a tuning run has itself."""
NO_ROOFLINE = ("model", "suite")
"""Operations whose problem has no single intensity."""
_RATE = "%{y:.4g} GFLOP/s at %{x:.3g} FLOP per byte"
_MARKS = {
    "default": ("@ink", "square"),
    "stock": ("@c2", "diamond"),
    "best": ("@good", "circle"),
    "iree": ("@ink", "square"),
    "tuned": ("@good", "circle"),
}
_OTHERS = (("@c4", "cross"), ("@c5", "triangle-up"), ("@c7", "x"), ("@c6", "star"))


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


def points(run: Run, store: Reader) -> list[Point]:
    """Of a run's default, best stock route and best, and of other libraries that were timed on the same device; of a
    comparison those of all its problems."""
    if run.row.kind == "bench":
        return [*_backends(run.document)]
    if run.row.problem.get("op") in NO_ROOFLINE:
        return []
    stock, best = run.document.get("stock") or {}, run.document.get("best") or {}
    times = {
        "default": (run.document.get("baseline") or {}).get("us") or (run.baseline and run.baseline.us),
        "stock": stock.get("us") if stock.get("flags") else None,
        "best": best.get("us") or (run.best and run.best.us),
    }
    own = [point for what, us in times.items() for point in _point(what, run.row.problem, us)]
    for other in store.runs_of(run.name, kinds=["bench"]):
        if (other.target, other.device) == (run.row.target, run.row.device) and other.result:
            return [*own, *(point for point in _backends(other.result) if point.what not in OURS)]
    return own


def _backends(document: Mapping[str, Any]) -> Iterator[Point]:
    for problem in document.get("problems") or []:
        for row in problem.get("backends") or []:
            yield from _point(text(row.get("backend")), problem, row.get("us"))


def _point(what: str, problem: Mapping[str, Any], us: object) -> Iterator[Point]:
    flops, size, time = number(problem.get("flops")), number(problem.get("bytes")), number(us)
    if flops and size and time:
        yield Point(what, text(problem.get("name")), flops, size, time)


def roofs(run: Run) -> Roofs:
    """Of the device of a run, by its data sheet."""
    device = str(run.environment.get("device_name") or "")
    peak = peak_of(run.row.target, device=device)
    if peak is None:
        return Roofs(device, None, None)
    kind = str(((run.row.problem.get("shape") or {}).get("types") or [""])[0])
    rate = peak.tflops.get("f8" if kind.startswith("f8") else kind)
    return Roofs(peak.product, rate * 1e3 if rate else None, peak.gbs)


def roofline(own: Sequence[Point], device: Roofs) -> Chart | None:
    """These rates under the roofs of the device."""
    if not own:
        return None
    lowest, highest = min(p.intensity for p in own) / 4, max(p.intensity for p in own) * 4
    known = bool(device.gflops or device.gbs)
    flat = device.gflops if known else max(point.gflops for point in own)
    data = [_roof("data sheet" if known else "fastest here", device.gbs or math.inf, flat, lowest, highest)]
    words = list(dict.fromkeys(point.what for point in own))
    data += [_marks(what, i, [p for p in own if p.what == what], device) for i, what in enumerate(words)]
    layout = {"xaxis": log_axis("FLOP per byte"), "yaxis": log_axis("GFLOP/s")}
    return Chart("Roofline", {"data": data, "layout": layout}, _note(device), height=400)


def _note(device: Roofs) -> str:
    known = [
        f"{device.gflops / 1e3:.5g} TFLOP/s by data sheet" if device.gflops else "",
        f"{device.gbs:.5g} GB/s by data sheet" if device.gbs else "",
    ]
    told = ", ".join(word for word in known if word)
    of = f" of {device.product}" if device.product else ""
    return f"Roofs{of}: {told or 'not known'}. Bytes: every operand once, in its own type."


def _roof(name: str, gbs: float, flat: float | None, low: float, high: float) -> Figure:
    ridge = flat / gbs if flat else 0.0
    xs = sorted({low, high, *([ridge] if low < ridge < high else [])})
    ys = [min(gbs * x, flat if flat else math.inf) for x in xs]
    line = {"color": "@muted", "width": 2}
    return scatter(name, xs, ys, mode="lines", hover=f"{name}: {_RATE}", line=line)


def _marks(what: str, place: int, own: Sequence[Point], device: Roofs) -> Figure:
    colour, symbol = _MARKS.get(what, _OTHERS[place % len(_OTHERS)])
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
