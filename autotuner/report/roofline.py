"""How far a problem's times are from what its device can do: rate over intensity, under the roofs of the device."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from autotuner.report.charts import Figure, log_axis, scatter
from autotuner.report.page import Chart
from autotuner.report.reading import Run
from autotuner.report.tables import number
from autotuner.targets.backends import Peak
from autotuner.targets.catalog import peak_of

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
    measured_gbs: float | None = None

    def bound(self, intensity: float) -> float | None:
        """The highest rate at an intensity, GFLOP/s; a measured bandwidth counts before the data sheet's."""
        gbs = self.measured_gbs or self.gbs
        known = [roof for roof in (self.gflops, gbs * intensity if gbs else None) if roof]
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


def roofs(run: Run, *, measured: Mapping[str, float]) -> Roofs:
    """Of the device of a run. `measured`: GB/s by the name of a device."""
    device = str(run.environment.get("device_name") or "")
    peak: Peak | None = peak_of(run.row.target, device=device)
    kinds = {element_type(one) for one in (run, *run.parts)} - {""}
    rate = peak.tflops.get(next(iter(kinds))) if peak and len(kinds) == 1 else None
    name = peak.product if peak else device
    return Roofs(name, rate * 1e3 if rate else None, peak.gbs if peak else None, measured.get(device))


def chart(run: Run, *, measured: Mapping[str, float], beside: Sequence[Point] = ()) -> Chart | None:
    """The roofline; `beside` are other libraries' times of the same problem."""
    own = [*points(run), *beside]
    if not own:
        return None
    device = roofs(run, measured=measured)
    lowest, highest = min(p.intensity for p in own) / 4, max(p.intensity for p in own) * 4
    data = [_line(*roof, low=lowest, high=highest) for roof in _lines(device, own)]
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
        f"{device.measured_gbs:.4g} GB/s measured" if device.measured_gbs else "",
    ]
    told = ", ".join(word for word in known if word)
    first = own[0]
    size = f": {first.bytes / 2**20:.4g} MiB" if len({p.problem for p in own}) == 1 else ""
    return f"{source}{told or 'not known'}. Bytes: every operand once, in its own type{size}."


def _lines(device: Roofs, own: Sequence[Point]) -> Iterator[tuple[str, float, float | None, str]]:
    """Name, GB/s, GFLOP/s and colour of each roof; without a peak the fastest that was seen is drawn as one."""
    flat = device.gflops
    for name, gbs, colour in (
        ("data sheet", device.gbs, "@muted"),
        ("measured bandwidth", device.measured_gbs, "@c6"),
    ):
        if gbs:
            yield name, gbs, flat, colour
    if flat and not device.gbs and not device.measured_gbs:
        yield "data sheet", math.inf, flat, "@muted"
    if not flat:
        yield "fastest here", math.inf, max(point.gflops for point in own), "@muted"


def _line(name: str, gbs: float, flat: float | None, colour: str, *, low: float, high: float) -> Figure:
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
_OTHERS = (("@c4", "cross"), ("@c5", "triangle-up"), ("@c7", "x"), ("@c6", "star"))


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
