"""MobileNet V2 as exporters write it, normalisations folded into the convolutions, with seeded random weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from benchmarks.models.make import IR_VERSION, OPSET

_BLOCKS = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))
"""Expansion, channels, blocks, stride of the first."""
_FIRST, _LAST, _CLASSES, _SIZE = 32, 1280, 1000, 224


@dataclass
class _Graph:
    """Nodes and weights as they come."""

    rng: np.random.Generator
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def weight(self, array: npt.NDArray[Any]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def conv(self, x: str, inner: int, outer: int, *, kernel: int = 1, stride: int = 1, depthwise: bool = False) -> str:
        fan_in = kernel * kernel * (1 if depthwise else inner)
        shape = (outer, 1 if depthwise else inner, kernel, kernel)
        weight = self.weight(self.rng.normal(0.0, math.sqrt(2.0 / fan_in), shape))
        bias = self.weight(self.rng.normal(0.0, 0.1, outer))
        pad = kernel // 2
        return self.node(
            "Conv",
            *(x, weight, bias),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            group=inner if depthwise else 1,
        )

    def clip(self, x: str) -> str:
        return self.node("Clip", x, "zero", "six")


def write_mobilenet(path: Path, *, seed: int = 0) -> Path:
    graph = _Graph(np.random.default_rng(seed))
    x, channels = graph.clip(graph.conv("image", 3, _FIRST, kernel=3, stride=2)), _FIRST
    for expand, outer, count, first in _BLOCKS:
        for number in range(count):
            stride, inner = (first if number == 0 else 1), channels * expand
            y = graph.clip(graph.conv(x, channels, inner)) if expand > 1 else x
            y = graph.clip(graph.conv(y, inner, inner, kernel=3, stride=stride, depthwise=True))
            y = graph.conv(y, inner, outer)
            x = graph.node("Add", x, y) if stride == 1 and channels == outer else y
            channels = outer
    x = graph.node("Flatten", graph.node("GlobalAveragePool", graph.clip(graph.conv(x, channels, _LAST))), axis=1)
    rows = graph.weight(graph.rng.normal(0.0, 1.0 / math.sqrt(_LAST), (_CLASSES, _LAST)))
    graph.node("Gemm", x, rows, graph.weight(graph.rng.normal(0.0, 0.1, _CLASSES)), transB=1)
    limits = [
        numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("zero", 0.0), ("six", 6.0))
    ]
    body = helper.make_graph(
        graph.nodes,
        "mobilenet",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, _SIZE, _SIZE])],
        [helper.make_tensor_value_info(graph.nodes[-1].output[0], TensorProto.FLOAT, [1, _CLASSES])],
        [*graph.weights, *limits],
    )
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    onnx.checker.check_model(model)
    onnx.save(model, path)
    return path
