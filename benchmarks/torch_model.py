"""A model on this machine's NVIDIA GPU: torch under a CUDA graph beside modules that IREE compiled, in turns.

    python -m benchmarks.models inception_v1 --target sm_80 --write inception_v1.onnx
    python -m benchmarks.torch_model inception_v1.onnx default=default.vmfb tuned=tuned.vmfb

The ONNX graph is executed by torch, operation by operation, channels last (both memory formats are tried and the faster
counts). Needs torch, onnx and iree-base-runtime.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

ROUNDS, REPLAYS = 5, 200
_TIME = re.compile(r"real_time_median\s+([\d.]+) (ns|us|ms)")
_US = {"ns": 1e-3, "us": 1.0, "ms": 1e3}


def _pads(attributes: dict[str, Any]) -> list[int]:
    """Both sides of height and width, as torch's `pad` takes them: the last dimension first."""
    top, left, bottom, right = attributes.get("pads", [0, 0, 0, 0])
    return [left, right, top, bottom]


def _operations(torch: Any) -> dict[str, Callable[..., Any]]:
    functional = torch.nn.functional

    def conv(at: dict[str, Any], x: Any, weight: Any, bias: Any = None) -> Any:
        left, right, top, bottom = _pads(at)
        if (left, top) != (right, bottom):
            x, left, top = functional.pad(x, (left, right, top, bottom)), 0, 0
        stride, dilation = at.get("strides", [1, 1]), at.get("dilations", [1, 1])
        return functional.conv2d(x, weight, bias, stride, (top, left), dilation, at.get("group", 1))

    def max_pool(at: dict[str, Any], x: Any) -> Any:
        x = functional.pad(x, _pads(at), value=float("-inf")) if any(_pads(at)) else x
        return functional.max_pool2d(x, at["kernel_shape"], at.get("strides"))

    def average_pool(at: dict[str, Any], x: Any) -> Any:
        x = functional.pad(x, _pads(at)) if any(_pads(at)) else x
        return functional.avg_pool2d(x, at["kernel_shape"], at.get("strides"))

    def gemm(at: dict[str, Any], a: Any, b: Any, c: Any) -> Any:
        return torch.addmm(c, a.t() if at.get("transA") else a, b.t() if at.get("transB") else b)

    def norm(at: dict[str, Any], x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
        return functional.batch_norm(x, mean, variance, scale, bias, eps=at.get("epsilon", 1e-5))

    def lrn(at: dict[str, Any], x: Any) -> Any:
        return functional.local_response_norm(
            x, at["size"], at.get("alpha", 1e-4), at.get("beta", 0.75), at.get("bias", 1.0)
        )

    return {
        "Conv": conv,
        "MaxPool": max_pool,
        "AveragePool": average_pool,
        "GlobalAveragePool": lambda _, x: x.mean((2, 3), keepdim=True),
        "Gemm": gemm,
        "BatchNormalization": norm,
        "LRN": lrn,
        "Relu": lambda _, x: x.relu(),
        "Sum": lambda _, x, y: x + y,
        "Add": lambda _, x, y: x + y,
        "Concat": lambda at, *xs: torch.cat(xs, at["axis"]),
        "Reshape": lambda _, x, shape: x.reshape([int(size) for size in shape.tolist()]),
        "Dropout": lambda _, x, *_rest: x,
        "Softmax": lambda at, x: x.softmax(at.get("axis", -1)),
    }


def _graph(torch: Any, model: Any, image: Any, memory_format: Any) -> tuple[Any, Any]:
    """The network as a CUDA graph, and the tensor that a replay writes."""
    onnx = importlib.import_module("onnx")
    known, operations = {}, _operations(torch)
    constants = {node.output[0]: node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"}
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    for name, tensor in [*((one.name, one) for one in model.graph.initializer), *constants.items()]:
        array = torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
        if array.is_floating_point():  # shapes stay on the host
            array = array.cuda()
            array = array.contiguous(memory_format=memory_format) if array.dim() == 4 else array
        known[name] = array
    image = image.contiguous(memory_format=memory_format)

    def run() -> Any:
        values = {**known, model.graph.input[0].name: image}
        for node in nodes:
            given = [values[name] for name in node.input if name]
            attributes = {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute}
            values[node.output[0]] = operations[node.op_type](attributes, *given)
        return values[model.graph.output[0].name]

    side = torch.cuda.Stream()
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            run()
        side.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            result = run()
    return graph, result


def _replay_us(torch: Any, graph: Any) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    for _ in range(REPLAYS):
        graph.replay()
    start.record()
    for _ in range(REPLAYS):
        graph.replay()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1000 / REPLAYS


def _iree_words(tool: str, module: Path, function: str, image: Path) -> list[str | Path]:
    path = Path(sys.executable).parent / tool
    return [path, f"--module={module}", f"--function={function}", f"--input=@{image}", "--device=cuda"]


def _iree_result(module: Path, function: str, image: Path) -> Any:
    path = image.with_suffix(".result.npy")
    words = [*_iree_words("iree-run-module", module, function, image), f"--output=@{path}"]
    subprocess.run([str(word) for word in words], capture_output=True, timeout=120, check=True)
    return np.load(path).astype(np.float64)


def _iree_us(module: Path, function: str, image: Path) -> float:
    words = _iree_words("iree-benchmark-module", module, function, image)
    words += ["--benchmark_repetitions=5", "--benchmark_min_time=0.2s"]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=120, check=True)
    found = _TIME.search(done.stdout.replace("/", " "))
    if found is None:
        sys.exit(f"no time in: {done.stdout[-500:]}")
    return float(found[1]) * _US[found[2]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("modules", nargs="*", metavar="NAME=MODULE", help="compiled by IREE for cuda")
    options = parser.parse_args()
    onnx, torch = importlib.import_module("onnx"), importlib.import_module("torch")
    torch.backends.cudnn.benchmark = True
    model = onnx.load(options.model)
    given = model.graph.input[0].type.tensor_type
    shape = [size.dim_value for size in given.shape.dim]
    element = np.float16 if given.elem_type == onnx.TensorProto.FLOAT16 else np.float32
    array = np.random.default_rng(0).uniform(-1, 1, shape).astype(element)
    np.save(path := options.model.with_suffix(".input.npy"), array)
    formats = {"channels last": torch.channels_last, "channels first": torch.contiguous_format}
    recorded = {name: _graph(torch, model, torch.from_numpy(array).cuda(), kind) for name, kind in formats.items()}
    graphs = {name: graph for name, (graph, _) in recorded.items()}
    modules = {name: Path(module) for name, module in (one.split("=", 1) for one in options.modules)}
    function = model.graph.name
    graphs["channels first"].replay()
    torch.cuda.synchronize()
    expected = recorded["channels first"][1].double().cpu().numpy()
    errors = {
        name: np.linalg.norm(_iree_result(module, function, path) - expected) / np.linalg.norm(expected)
        for name, module in modules.items()
    }
    times: dict[str, list[float]] = {name: [] for name in (*graphs, *modules)}
    for _ in range(ROUNDS):
        for name, graph in graphs.items():
            times[name].append(_replay_us(torch, graph))
        for name, module in modules.items():
            times[name].append(_iree_us(module, function, path))
    us = {name: round(median(taken), 1) for name, taken in times.items()}
    best = min(us[name] for name in graphs)
    print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "us": us}, indent=1))
    for name in modules:
        print(f"{name}: {us[name] / best:.3f}x of torch's time, results {errors[name]:.1e} apart")


if __name__ == "__main__":
    main()
