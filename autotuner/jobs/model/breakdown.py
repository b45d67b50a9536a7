"""Where a model's time goes: convolutions, products, packing, all else, and what is between the dispatches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from autotuner.iree.run import DispatchTime
from autotuner.programs.structure import STATISTICS

CONV, GEMM, ATTENTION, PACKING = "conv", "gemm", "attention", "packing"
OTHER, MICROKERNEL = "elementwise, reduction", "microkernels"
BETWEEN, NOT_TOLD = "launch and waiting", "all else, launch and waiting"
"""What is left of the model's time: between the dispatches, or with all that no timing tells apart."""
_KINDS = {"contraction": GEMM, "convolution": CONV, "attention": ATTENTION}
_WORDS: Mapping[str, Sequence[str]] = {
    ATTENTION: ("attention", "online_attention"),
    CONV: ("conv", "depthwise_conv"),
    GEMM: (
        "matmul",
        "batch_matmul",
        "quantized_matmul",
        "quantized_batch_matmul",
        "scaled_matmul",
        "mmt4d",
        "batch_mmt4d",
        "matvec",
        "vecmat",
        "batch_matvec",
        "batch_vecmat",
        "contract",
        "horizontal_multi_contract",
        "inner_tiled",
    ),
    PACKING: ("pack", "unpack", "encode", "set_encoding", "unset_encoding", "im2col", "transpose", "slow_memcpy"),
}
"""How the compiler's names of dispatches begin; every other one computes elements or reduces."""
_ORDER = (CONV, GEMM, ATTENTION, MICROKERNEL, PACKING, OTHER)


def kind_of(export: str) -> str:
    """What a dispatch does, from the name that the compiler gave it: `main_dispatch_3_matmul_64x32x64_f32`."""
    named = re.search(r"(?:dispatch|encoding|initializer)_\d+(?:_(.+))?$", export)
    if named is None:  # the compiler numbers all its own
        return MICROKERNEL
    name = named.group(1) or ""
    for kind, words in _WORDS.items():
        if any(re.match(rf"{word}(?:_|$|\d)", name) for word in words):
            return kind
    return OTHER


@dataclass(frozen=True, slots=True)
class Share:
    """What the dispatches of one kind take of a call."""

    kind: str
    us: float
    calls: float | None = None
    busy: float | None = None
    """Cores that work at once, on average; None where it is not told."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "us": self.us, "calls": self.calls, "busy_cores": self.busy}


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One call of a model in parts that add up to it."""

    us: float
    shares: tuple[Share, ...]
    how: str

    @classmethod
    def told(cls, times: Mapping[str, DispatchTime], us: float) -> Breakdown:
        """By the runtime's statistics; `us` is the model's time without them."""
        found = []
        for kind in _ORDER:
            own = [time for name, time in times.items() if kind_of(name) == kind]
            total, busy = sum(time.us for time in own), sum(time.busy_us for time in own)
            if own:
                cores = busy / total if busy and total else None
                found.append(Share(kind, total, sum(time.calls for time in own), cores))
        return cls._whole(us, found, BETWEEN, STATISTICS)

    @classmethod
    def alone(cls, parts: Iterable[tuple[str, float, int]], us: float) -> Breakdown:
        """By timings of each dispatch alone: its root's kind, its µs, its calls. Nothing else was timed."""
        found: dict[str, Share] = {}
        for root, part, calls in parts:
            kind = _KINDS[root]
            known = found.get(kind, Share(kind, 0.0, 0))
            found[kind] = Share(kind, known.us + part, (known.calls or 0) + calls)
        how = "each dispatch timed alone with a warm cache, times its calls: this device keeps no statistics"
        return cls._whole(us, [found[kind] for kind in _ORDER if kind in found], NOT_TOLD, how)

    @classmethod
    def _whole(cls, us: float, shares: Sequence[Share], rest: str, how: str) -> Breakdown:
        total = sum(share.us for share in shares)
        if total > us > 0:
            how += f"; they add up to {total / us:.2f} times the model's time, and are shown in proportion"
            shares = [Share(s.kind, s.us * us / total, s.calls, s.busy) for s in shares]
            total = us
        return cls(us, (*shares, Share(rest, us - total)), how)

    def to_json(self) -> dict[str, Any]:
        return {"us": self.us, "how": self.how, "parts": [share.to_json() for share in self.shares]}


@dataclass(frozen=True, slots=True)
class TimeTable:
    """The default model and what came of it, side by side."""

    before: Breakdown | None = None
    after: Breakdown | None = None

    def __bool__(self) -> bool:
        return self.before is not None or self.after is not None

    def to_json(self) -> dict[str, Any] | None:
        if not self:
            return None
        return {
            "before": self.before.to_json() if self.before else None,
            "after": self.after.to_json() if self.after else None,
        }

    def rows(self) -> list[tuple[str, Share | None, Share | None]]:
        """Each kind with its share before and after."""
        sides = [{s.kind: s for s in side.shares} if side else {} for side in (self.before, self.after)]
        kinds = [kind for kind in (*_ORDER, BETWEEN, NOT_TOLD) if any(kind in side for side in sides)]
        return [(kind, sides[0].get(kind), sides[1].get(kind)) for kind in kinds]

    def lines(self) -> list[str]:
        """For the report."""
        lines = ["| what | default | | cores busy | best | | cores busy |", "|---|---|---|---|---|---|---|"]
        for kind, before, after in self.rows():
            cells = [*_cells(before, self.before), *_cells(after, self.after)]
            lines.append(f"| {' | '.join([kind, *cells])} |")
        whole = [f"{side.us / 1000:.3f} ms | | " if side else "– | – | – " for side in (self.before, self.after)]
        lines += [f"| the model | {'| '.join(whole)}|", "", f"How: {self.how}."]
        return lines

    @property
    def how(self) -> str:
        """Where the figures come from."""
        sides = {name: side.how for name, side in (("default", self.before), ("best", self.after)) if side}
        if len(set(sides.values())) == 1:
            return next(iter(sides.values()))
        return "; ".join(f"{name}: {how}" for name, how in sides.items())

    @property
    def shown(self) -> Breakdown | None:
        """The side that one line is about: what came of it, where there is that."""
        return self.after or self.before

    def short(self) -> str:
        """One line: the shares of what is shown, the largest first."""
        side = self.shown
        if side is None or not side.us:
            return ""
        ranked = sorted(side.shares, key=lambda share: share.us, reverse=True)
        parts = ", ".join(f"{share.kind} {share.us / side.us:.0%}" for share in ranked if share.us >= 0.005 * side.us)
        return f"{parts} ({'best' if self.after else 'default'}, by {side.how})"


def _cells(share: Share | None, side: Breakdown | None) -> tuple[str, str, str]:
    if side is None:
        return "–", "–", "–"
    if share is None:
        return "0 ms", "0.0 %", "–"
    part = f"{100 * share.us / side.us:.1f} %" if side.us else "–"
    return f"{share.us / 1000:.3f} ms", part, f"{share.busy:.1f}" if share.busy else "–"
