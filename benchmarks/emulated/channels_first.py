"""Convolutions of models, with channels first: IREE emits no constraints for them, or crashes when it is asked.

What lies near the compiler's own choice is their space (`autotuner.space.gpu_own`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import jinja2
import numpy as np

from autotuner.problems import Operand
from autotuner.problems.accuracy import Array
from autotuner.problems.convnd import ConvNd

_TEMPLATE = Path(__file__).with_name("channels_first.mlir.j2")
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class ChannelsFirst(ConvNd):
    """A convolution in two dimensions, in groups, or the gradient of its filter; rounded to the operands' type."""

    op = "channels-first"
    # Not the name of one of the package's, which Jinja takes as well.
    template = cast(Any, jinja2.Template(_TEMPLATE.read_text(), undefined=jinja2.StrictUndefined))

    @property
    def name(self) -> str:
        return f"nchw_{super().name}"

    def unbatched(self) -> tuple[ConvNd, int]:
        return self, 0  # as a dispatch of a model: nothing is known of its groups

    @property
    def operands(self) -> tuple[Operand, ...]:
        return tuple(replace(one, shape=_first(one.shape)) for one in super().operands)

    def plain(self, left: Array, right: Array) -> Array:
        return np.moveaxis(super().plain(np.moveaxis(left, 1, -1), np.moveaxis(right, 1, -1)), -1, 1)

    def template_values(self) -> Mapping[str, object]:
        lhs, rhs, out = (one.shape for one in self.operands)
        weight, grouped = self.direction == "weight", self.groups > 1
        places = (1, 1, 0) if weight else (1, 0, 1)
        padded = (*lhs[:2], *(size + 2 * pad for size, pad in zip(lhs[2:], self.pad, strict=True)))
        split = [self._split(shape, at) for shape, at in zip((padded, rhs, out), places, strict=True)]
        group = ["g"] if grouped else []
        maps = (["n", *group, "c", "y + p", "x + q"], ["n", *group, "f", "p", "q"], [*group, "f", "c", "y", "x"])
        loops = ", ".join([*maps[2], "n", "p", "q"])
        return {
            "inputs": [
                {"name": "image", "shape": lhs, "at": 1},
                {"name": "results" if weight else "filters", "shape": rhs, "at": places[1]},
            ],
            "out": {"shape": out, "at": places[2]},
            "element": self.element.mlir,
            "groups": self.groups,
            "pad": self.pad,
            "padded": padded,
            "split": split,
            "named": None if weight else "linalg.conv_2d_ngchw_gfchw",
            "maps": [f"affine_map<({loops}) -> ({', '.join(one)})>" for one in maps],
            "iterators": ['"parallel"'] * len(maps[2]) + ['"reduction"'] * 3,
        }


def _first(shape: Sizes) -> Sizes:
    return shape[0], shape[-1], *shape[1:-1]
