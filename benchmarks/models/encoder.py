"""A transformer encoder written as MLIR, with seeded random weights in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt

from autotuner.problems.dtypes import element_type

Weights = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Encoder:
    """The sizes of an encoder; two layers of a small language model by default."""

    layers: int = 2
    tokens: int = 256
    width: int = 512
    heads: int = 8
    hidden: int = 2048
    dtype: str = "f32"
    """f32, f16 or bf16, of weights and of what passes between operations."""

    def write(self, path: Path, *, weights: Weights | None = None) -> Path:
        """`weights`: other ones than those of seed 0."""
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent), undefined=jinja2.StrictUndefined, autoescape=False
        )
        arrays = self.weights() if weights is None else weights
        texts = {name: _hex(a, "f32" if name.endswith("_bias") else self.dtype) for name, a in arrays.items()}
        path.write_text(environment.get_template("encoder.mlir.j2").render(weights=texts, **vars(self)))
        return path

    def weights(self, *, seed: int = 0) -> Weights:
        rng = np.random.default_rng(seed)
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


def _hex(array: npt.NDArray[Any], dtype: str) -> str:
    return "0x" + array.astype(element_type(dtype).numpy).tobytes().hex().upper()
