"""A transformer encoder written as MLIR, with seeded random weights in it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import jinja2
import numpy as np


@dataclass(frozen=True)
class Encoder:
    """The sizes of an encoder; two layers of a small language model by default."""

    layers: int = 2
    tokens: int = 256
    width: int = 512
    heads: int = 8
    hidden: int = 2048
    dtype: str = "f32"
    """f32 or f16, of weights and of what passes between operations."""

    def write(self, path: Path, *, seed: int = 0) -> Path:
        rng = np.random.default_rng(seed)
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent), undefined=jinja2.StrictUndefined, autoescape=False
        )
        kind = {"f32": "<f4", "f16": "<f2"}[self.dtype]
        arrays = self._weights(rng)
        weights = {name: _hex(a, "<f4" if name.endswith("_bias") else kind) for name, a in arrays.items()}
        path.write_text(environment.get_template("encoder.mlir.j2").render(weights=weights, **vars(self)))
        return path

    def _weights(self, rng: np.random.Generator) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
        shapes = {"q": (self.width, self.width), "k": (self.width, self.width), "v": (self.width, self.width)}
        shapes |= {"out": (self.width, self.width), "wide": (self.width, self.hidden)}
        shapes |= {"narrow": (self.hidden, self.width)}
        weights = {}
        for layer in range(self.layers):
            for name, shape in shapes.items():
                key = f"l{layer}_{name}"
                weights[key] = rng.normal(0.0, 1.0 / math.sqrt(shape[0]), shape).astype(np.float32)
                weights[f"{key}_bias"] = rng.normal(0.0, 0.1, shape[1:]).astype(np.float32)
        return weights


def _hex(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]], kind: str) -> str:
    return "0x" + array.astype(kind).tobytes().hex().upper()
