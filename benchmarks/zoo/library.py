"""How long another library takes for a call that is waited for, as autotune's own calls are."""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

_SECONDS, _LEAST = 2.0, 10


def _median_us(call: Callable[[], object]) -> float:
    """Of calls for two seconds, after the first few."""
    began, times = time.perf_counter(), list[float]()
    while len(times) < 2 * _LEAST and (time.perf_counter() - began < 10 * _SECONDS or len(times) < 3):
        times.append(_seconds(call))
    while time.perf_counter() - began < _SECONDS:
        times.append(_seconds(call))
    return 1e6 * statistics.median(times[len(times) // 2 :])


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def onnx_runtime_us(file: Path, inputs: tuple[Any, ...], threads: int) -> float:
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    values = [runtime.OrtValue.ortvalue_from_numpy(one.numpy()) for one in inputs]
    given = dict(zip((one.name for one in session.get_inputs()), values, strict=True))
    names = [one.name for one in session.get_outputs()]
    return _median_us(lambda: session.run_with_ort_values(names, given))


def torch_graph_us(torch: Any, made: Any) -> float:
    """A CUDA graph of the network with its batch norms folded, in the faster of both orders in memory."""
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    module = made.module
    with contextlib.suppress(Exception):  # what cannot be traced is left as it is
        module = import_module("torch.fx.experimental.optimization").fuse(module)
    orders = [torch.contiguous_format]
    if any(one.dim() == 4 for one in made.inputs):
        orders.append(torch.channels_last)
    return min(_graph_us(torch, module.to("cuda"), made.inputs, order) for order in orders)


def _graph_us(torch: Any, module: Any, inputs: tuple[Any, ...], order: Any) -> float:
    with torch.no_grad():
        with contextlib.suppress(RuntimeError):  # of weights with five axes
            module = module.to(memory_format=order)
        given = [one.cuda() for one in inputs]
        given = [one.contiguous(memory_format=order) if one.dim() == 4 else one for one in given]
        side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(side):
            for _ in range(3):
                module(*given)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=side):
            module(*given)
    return _median_us(lambda: (graph.replay(), torch.cuda.synchronize()))
