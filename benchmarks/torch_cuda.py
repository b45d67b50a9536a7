"""What torch (cuBLAS, cuDNN, its attention) takes on this machine's NVIDIA GPU: `python -m benchmarks.torch_cuda`.

Needs torch and nothing of autotune, so that it runs where only torch is installed. Prints one JSON document.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

PRODUCTS = ("4096x4096x4096", "2048x2048x2048", "1024x1024x1024", "64x8192x8192", "16x4096x4096")
TYPES = {"f16": "float16", "bf16": "bfloat16"}
CALLS, REPETITIONS = 100, 5


def time_us(torch: Any, call: Callable[[], object]) -> float:
    """The median of five times 100 calls between two events. They are recorded as a graph: launches cost nothing."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(CALLS):
            call()
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(CALLS):
            call()
    graph.replay()
    times = []
    for _ in range(REPETITIONS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(float(start.elapsed_time(end)) * 1000 / CALLS)
    return round(median(times), 2)


def main() -> None:
    torch = importlib.import_module("torch")
    torch.manual_seed(0)

    def make(*shape: int, dtype: str = "f16") -> Any:
        return torch.rand(shape, device="cuda", dtype=getattr(torch, TYPES[dtype])) * 2 - 1

    found: dict[str, float] = {}
    for dtype in TYPES:
        for product in PRODUCTS:
            m, n, k = map(int, product.split("x"))
            a, b = make(m, k, dtype=dtype), make(k, n, dtype=dtype)
            found[f"gemm {product} {dtype}"] = time_us(torch, partial(torch.mm, a, b))
    image = make(2, 1280, 32, 32).contiguous(memory_format=torch.channels_last)
    weights = make(1280, 1280, 3, 3).contiguous(memory_format=torch.channels_last)
    found["conv 2x32x32x1280 3x3x1280 f16"] = time_us(
        torch, lambda: torch.nn.functional.conv2d(image, weights, padding=1)
    )
    attend = torch.nn.functional.scaled_dot_product_attention
    for shape, causal in (((1, 16, 2048, 64), False), ((1, 8, 1024, 64), True)):
        query, key, value = make(*shape), make(*shape), make(*shape)
        name = f"attention {'x'.join(map(str, shape))} f16{' causal' if causal else ''}"
        found[name] = time_us(torch, partial(attend, query, key, value, is_causal=causal))
    machine = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
    print(json.dumps({**machine, "calls": CALLS, "repetitions": REPETITIONS, "us": found}, indent=1))


if __name__ == "__main__":
    main()
