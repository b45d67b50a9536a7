"""Which routes are tried first for a whole model: what has won before on this backend with these operations.

The figures behind the order are in docs/measured.md and, for Neoverse, of a ResNet-50, an Inception and a SqueezeNet:
there im2col with data tiling is 30 times as fast as the default. Ukernels gain a tenth on the SqueezeNet, nothing on
the ResNet-50.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from autotuner.targets.knobs import Knob, sensible

_Plan = Mapping[str, tuple[str, ...]]
"""Operation -> the settings that it wants. A route has those of all operations of a model, and all must be in it."""
_TILED, _KERNELS = ("data-tiling",), ("data-tiling", "ukernels")


def _cpu(conv: tuple[str, ...], packed: tuple[str, ...]) -> _Plan:
    return {
        "gemm": packed,
        "conv": (*conv, *packed),
        "attention": ("decomposed", *packed),
    }


_IM2COL, _CHANNELS_LAST = ("im2col",), ("channels-last",)
_FIRST: Mapping[str, Sequence[_Plan]] = {
    "llvm-cpu": (
        _cpu(_IM2COL, _KERNELS),
        _cpu(_IM2COL, ("global-data-tiling", "ukernels")),
        _cpu(("nchwc",), _KERNELS),
        _cpu(_CHANNELS_LAST, _KERNELS),
    ),
    "cuda": (
        {"conv": ("channels-last", "O3"), "gemm": ("O3",), "attention": ("O3",)},
        {"conv": ("channels-last",), "gemm": ("aggressive-fusion",), "attention": ("aggressive-fusion",)},
    ),
    "rocm": (
        {"conv": ("channels-last", "O3"), "gemm": ("O3",), "attention": ("O3",)},
        {"conv": ("padded", "O3"), "gemm": ("data-tiling",), "attention": ("data-tiling",)},
        {"conv": ("channels-last",), "gemm": ("aggressive-fusion",), "attention": ("aggressive-fusion",)},
    ),
}
_ON_MACHINE: Mapping[tuple[str, str], Sequence[_Plan]] = {
    ("llvm-cpu", "aarch64"): (_cpu(_IM2COL, _KERNELS), _cpu(_IM2COL, _TILED))
}
"""What is tried before, where the processor is another one."""


def first_routes(
    knobs: Sequence[Knob], ops: Collection[str], *, backend: str, machine: str = ""
) -> tuple[tuple[str, ...], ...]:
    """The settings of the routes to begin with, each once."""
    plans = (*_ON_MACHINE.get((backend, machine), ()), *_FIRST.get(backend, ()))
    # A model without any operation that is known here still has fusion and the like.
    present = set(ops) or {"gemm"}
    fitting = [plan for plan in plans if present <= plan.keys()]
    found = (sensible(knobs, {name for op in present for name in plan[op]}) for plan in fitting)
    return tuple(dict.fromkeys(names for names in found if names))
