"""Where a model's time goes: convolutions, products, packing, all else, and what is between the dispatches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autotuner.iree.run import DispatchTime
from autotuner.programs.structure import STATISTICS

CONV, GEMM, ATTENTION, PACKING = "conv", "gemm", "attention", "packing"
OTHER, MICROKERNEL = "elementwise, reduction", "microkernels"
BETWEEN = "launch and waiting"
"""The model's time between its dispatches."""
_PRODUCTS = "(batch_|quantized_|scaled_)*(matmul|mmt4d|matvec|vecmat)|(horizontal_multi_)?contract|inner_tiled"
_NAMED: Mapping[str, str] = {
    ATTENTION: "(online_)?attention",
    CONV: "(depthwise_)?conv",
    GEMM: _PRODUCTS,
    PACKING: "(un)?pack|encode|(un)?set_encoding|im2col|transpose|slow_memcpy",
}
"""How the compiler's names of dispatches begin; every other one computes elements or reduces."""
_ORDER = (CONV, GEMM, ATTENTION, MICROKERNEL, PACKING, OTHER)


def kind_of(export: str) -> str:
    """What a dispatch does, from the name that the compiler gave it: `main_dispatch_3_matmul_64x32x64_f32`."""
    named = re.search(r"(?:dispatch|encoding|initializer)_\d+(?:_(.+))?$", export)
    if named is None:  # the compiler numbers all its own
        return MICROKERNEL
    name = named.group(1) or ""
    return next((kind for kind, words in _NAMED.items() if re.match(rf"(?:{words})(?:_|$|\d)", name)), OTHER)


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One call of a model, and what the dispatches of each kind take of it."""

    us: float
    parts: Mapping[str, float]

    @classmethod
    def from_statistics(cls, times: Mapping[str, DispatchTime], us: float) -> Breakdown:
        """By the runtime's statistics; `us` is the model's time without them."""
        kinds = {name: kind_of(name) for name in times}
        found = {kind: sum(time.us for name, time in times.items() if kinds[name] == kind) for kind in _ORDER}
        return cls(us, {**found, BETWEEN: max(us - sum(found.values()), 0.0)})

    def to_json(self) -> dict[str, Any]:
        parts = [{"kind": kind, "us": us} for kind, us in self.parts.items() if us]
        return {"us": self.us, "how": STATISTICS, "parts": parts}


@dataclass(frozen=True, slots=True)
class TimeTable:
    """The default model and the tuned one, side by side."""

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

    def short(self) -> str:
        """One line: the shares of what is shown, the largest first."""
        side = self.after or self.before
        if side is None or not side.us:
            return ""
        ranked = sorted(side.parts.items(), key=lambda part: part[1], reverse=True)
        parts = ", ".join(f"{kind} {us / side.us:.0%}" for kind, us in ranked if us >= 0.005 * side.us)
        return f"{parts} ({'best' if self.after else 'default'}, by {STATISTICS})"
