"""An MLP-Mixer whose width grows from block to block, written as MLIR with seeded random weights in it.

Every product of it has a size of its own: a model of many different dispatches, 64 by default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt

from autotuner.problems.dtypes import element_type


@dataclass(frozen=True)
class Mixer:
    """The sizes: a block mixes tokens, then channels, and widens what the next one gets."""

    blocks: int = 13
    tokens: int = 512
    hidden_tokens: int = 256
    width: int = 128
    wider: int = 32
    """So much each block is wider than the one before."""
    expand: int = 4
    dtype: str = "f16"

    @property
    def widths(self) -> list[int]:
        return [self.width + self.wider * block for block in range(self.blocks)]

    @property
    def products(self) -> list[tuple[str, int, int, int]]:
        """Name, M, N, K of each product, in order; the weights of those that mix tokens are on the left."""
        t, h = self.tokens, self.hidden_tokens
        found = []
        for block, d in enumerate(self.widths):
            found += [(f"b{block}_mix", h, d, t), (f"b{block}_back", t, d, h)]
            found += [(f"b{block}_wide", t, self.expand * d, d), (f"b{block}_narrow", t, d, self.expand * d)]
            if block + 1 < self.blocks:
                found.append((f"b{block}_next", t, self.widths[block + 1], d))
        return found

    def write(self, path: Path, *, seed: int = 0) -> Path:
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent), undefined=jinja2.StrictUndefined, autoescape=False
        )
        rng = np.random.default_rng(seed)
        weights = {}
        for name, m, n, k in self.products:
            left = name.endswith(("_mix", "_back"))
            shape = (m, k) if left else (k, n)
            weights[name] = (shape, self._hex(rng.normal(0.0, 0.7 / math.sqrt(k), shape)))
        text = environment.get_template("mixer.mlir.j2").render(
            products=self.products, weights=weights, tokens=self.tokens, widths=self.widths, e=self.dtype
        )
        path.write_text(text)
        return path

    def _hex(self, array: npt.NDArray[Any]) -> str:
        return "0x" + array.astype(element_type(self.dtype).numpy).tobytes().hex().upper()
