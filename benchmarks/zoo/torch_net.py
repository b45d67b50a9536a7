"""A network of torch with its inputs, and weights as trained ones may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@dataclass
class Made:
    module: Any
    inputs: tuple[Any, ...]
    dynamic: Mapping[int, Mapping[int, str]] = field(default_factory=dict)
    """Of an input's number, the names of the axes that are known at run time only."""

    def of_type(self, dtype: str) -> Made:
        """In evaluation mode, floats in this type."""
        kind = TYPES[dtype]
        inputs = tuple(one.to(kind) if one.is_floating_point() else one for one in self.inputs)
        return Made(_seeded(self.module).eval().to(kind), inputs, self.dynamic)


class OneOutput(torch.nn.Module):
    """A network that returns a dictionary or an object, of which one tensor counts."""

    def __init__(self, module: Any, output: str) -> None:
        super().__init__()
        self.module, self.output = module, output

    def forward(self, x: Any) -> Any:
        found = self.module(x)
        return found[self.output] if isinstance(found, Mapping) else getattr(found, self.output)


def _seeded(module: Any) -> Any:
    """Statistics of batch norms that are none of the defaults: those would be folded into nothing."""
    for part in module.modules():
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.affine:
            part.running_mean.normal_(0.0, 0.1)
            part.running_var.uniform_(0.8, 1.2)
            part.weight.data.uniform_(0.5, 1.0)
            part.bias.data.normal_(0.0, 0.1)
    return module
