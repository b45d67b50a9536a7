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

    def write(self, path: Path, *, seed: int = 0) -> Path:
        rng = np.random.default_rng(seed)
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent), undefined=jinja2.StrictUndefined, autoescape=False
        )
        weights = {name: _hex(array) for name, array in self._weights(rng).items()}
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


def _hex(array: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> str:
    return "0x" + array.astype("<f4").tobytes().hex().upper()
