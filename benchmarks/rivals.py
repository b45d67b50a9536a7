"""What else computes a problem on this processor: numpy, and torch and ONNX Runtime where they are installed."""

from __future__ import annotations

import importlib
import math
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np

from autotuner.problems import Array, Attention, Conv, Gemm, Problem

Call = Callable[[], object]


def rivals(problem: Problem) -> Iterator[tuple[str, Call, Callable[[], Array]]]:
    """(name, what is timed, its result in the problem's layout)."""
    inputs = problem.inputs(0)
    yield from _numpy(problem, inputs)
    yield from _torch(problem, inputs)
    yield from _onnxruntime(problem, inputs)


def time_us(call: Call, *, repetitions: int = 15) -> float:
    """The median of repetitions of at least 20 ms."""
    call()
    times = []
    for _ in range(repetitions):
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < 0.02:
            call()
            count += 1
        times.append((time.perf_counter() - start) / count * 1e6)
    return median(times)


def _numpy(problem: Problem, inputs: tuple[Array, ...]) -> Iterator[tuple[str, Call, Callable[[], Array]]]:
    if isinstance(problem, Gemm) and problem.layout == "nn":
        a, b = inputs
        out = np.empty(problem.output.shape, np.float32)
        yield "numpy", lambda: np.matmul(a, b, out=out), lambda: out
    if isinstance(problem, Attention) and not problem.causal:
        query, key, value = inputs
        turned = np.ascontiguousarray(key.swapaxes(-1, -2))

        def attend() -> Array:
            scores = query @ turned
            scores *= np.float32(1 / math.sqrt(problem.width))
            scores -= scores.max(axis=-1, keepdims=True)
            np.exp(scores, out=scores)
            scores /= scores.sum(axis=-1, keepdims=True)
            result: Array = scores @ value
            return result

        yield "numpy", attend, attend


def _torch(problem: Problem, inputs: tuple[Array, ...]) -> Iterator[tuple[str, Call, Callable[[], Array]]]:
    torch = _optional("torch")
    if torch is None:
        return
    tensors = [torch.from_numpy(x) for x in inputs]
    if isinstance(problem, Gemm) and problem.layout == "nn":
        yield "torch", lambda: tensors[0] @ tensors[1], lambda: (tensors[0] @ tensors[1]).numpy()
    if isinstance(problem, Conv) and problem.groups == 1:
        image, weights = tensors
        if problem.channels_last:
            image, weights = image.permute(0, 3, 1, 2), weights.permute(3, 2, 0, 1)
            weights = weights.contiguous(memory_format=torch.channels_last)

        def convolve() -> Any:
            return torch.nn.functional.conv2d(
                image, weights, stride=problem.stride, padding=problem.pad, dilation=problem.dilation
            )

        yield "torch", convolve, lambda: _turned(problem, convolve().contiguous().numpy())
    if isinstance(problem, Attention):
        attention = torch.nn.functional.scaled_dot_product_attention

        def attend() -> Any:
            return attention(*tensors, is_causal=problem.causal)

        yield "torch", attend, lambda: attend().numpy()


def _onnxruntime(problem: Problem, inputs: tuple[Array, ...]) -> Iterator[tuple[str, Call, Callable[[], Array]]]:
    onnx, runtime = _optional("onnx"), _optional("onnxruntime")
    if onnx is None or runtime is None or not isinstance(problem, Conv) or problem.groups > 1:
        return
    image, weights = inputs
    if problem.channels_last:
        image, weights = image.transpose(0, 3, 1, 2), weights.transpose(3, 2, 0, 1)
    image, weights = np.ascontiguousarray(image), np.ascontiguousarray(weights)
    node = onnx.helper.make_node(
        "Conv",
        ["image", "weights"],
        ["out"],
        strides=problem.stride,
        dilations=problem.dilation,
        pads=[*problem.pad, *problem.pad],
    )
    real = onnx.TensorProto.FLOAT
    graph = onnx.helper.make_graph(
        [node],
        "conv",
        [onnx.helper.make_tensor_value_info("image", real, image.shape)],
        [onnx.helper.make_tensor_value_info("out", real, None)],
        [onnx.numpy_helper.from_array(weights, "weights")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    def convolve() -> Any:
        return session.run(None, {"image": image})[0]

    yield "onnxruntime (channels first)", convolve, lambda: _turned(problem, convolve())


def _turned(problem: Conv, channels_first: Array) -> Array:
    return channels_first.transpose(0, 2, 3, 1) if problem.channels_last else channels_first


def _optional(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
