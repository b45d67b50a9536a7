"""torch: its products, convolutions and attention, on a GPU recorded as CUDA graphs, where launches cost nothing."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from autotuner.jobs.bench.libraries.child import Call, Message, Task, Timer

GRAPH_SECONDS, MOST_CALLS = 0.01, 1000
"""How long a graph lasts, about, and its most calls on each copy of the inputs."""
TYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "i1": "bool",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "i64": "int64",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E4M3FNUZ": "float8_e4m3fnuz",
}
"""MLIR's names of types, in torch's words."""
SDPA = ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH")
Tensors = tuple[Any, ...]
Compute = Callable[..., Any]


class Library:
    """torch on the processor or on one GPU."""

    title = "torch"

    def __init__(self, device: str, threads: int) -> None:
        self.torch = torch = import_module("torch")
        self.on_gpu = device != "cpu"
        if self.on_gpu and not torch.cuda.is_available():
            raise RuntimeError(f"torch {torch.__version__} finds no GPU")
        torch.set_grad_enabled(False)
        torch.set_num_threads(threads)
        self.device = torch.device(device)
        self.version = f"{torch.__version__}"
        if self.on_gpu:
            torch.cuda.set_device(self.device)
            torch.backends.cudnn.benchmark = True
            self.version += f" (CUDA {torch.version.cuda}, cuDNN {torch.backends.cudnn.version()})"

    # --- its tensors ----------------------------------------------------------------------------------------------

    def dtype(self, element: str) -> Any:
        if element not in TYPES or not hasattr(self.torch, TYPES[element]):
            raise NotImplementedError(f"torch has no {element}")
        return getattr(self.torch, TYPES[element])

    def array(self, one: Message) -> Any:
        raw = self.torch.from_numpy(np.fromfile(one["file"], np.uint8))
        return raw.view(self.dtype(one["element"])).reshape(one["shape"]).to(self.device)

    def copy(self, tensor: Any) -> Any:
        return tensor.clone()

    def result(self, tensor: Any) -> tuple[str, bytes, list[int]]:
        names = {getattr(self.torch, name): element for element, name in TYPES.items() if hasattr(self.torch, name)}
        host = tensor.contiguous().cpu()
        data = host.reshape(-1).view(self.torch.uint8).numpy().tobytes()
        return names.get(tensor.dtype, ""), data, list(tensor.shape)

    def timer(self, call: Call, sets: list[Tensors], plain: Callable[[Compute, list[Tensors]], Timer]) -> Timer:
        """On a GPU many calls as one graph; of a model one, waited for, by the host's clock: as IREE's are timed."""
        if not self.on_gpu:
            return plain(call["compute"], sets)
        torch = self.torch
        graph, count = self._recorded(call["compute"], sets, most=1 if call.get("fixed") else MOST_CALLS)
        if call.get("fixed"):
            return plain(lambda: (graph.replay(), torch.cuda.synchronize()), [()])

        def invoke() -> tuple[float, int]:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            return float(start.elapsed_time(end)) / 1e3, count

        return invoke

    def _recorded(self, compute: Compute, sets: list[Tensors], *, most: int) -> tuple[Any, int]:
        torch = self.torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                compute(*sets[0])
            side.synchronize()
            seconds = self.elapsed(compute, sets[0])
        rounds = max(1, min(most, math.ceil(GRAPH_SECONDS / max(seconds, 1e-7) / len(sets))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(rounds):
                for tensors in sets:
                    compute(*tensors)
        torch.cuda.synchronize()
        return graph, rounds * len(sets)

    def elapsed(self, compute: Compute, tensors: Tensors, calls: int = 5) -> float:
        """Seconds of a call, on a GPU by its own clock."""
        if not self.on_gpu:
            began = time.perf_counter()
            compute(*tensors)
            return time.perf_counter() - began
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            compute(*tensors)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3 / calls

    def fastest(self, ways: dict[str, Compute], tensors: Tensors, unfit: type[Exception]) -> tuple[str, Compute]:
        """The one that takes the least time; what raises `unfit` does not compute it."""
        found: list[tuple[float, str]] = []
        for name, compute in ways.items():
            with contextlib.suppress(unfit):
                compute(*tensors)
                found.append((min(self.elapsed(compute, tensors) for _ in range(3)), name))
        if not found:
            raise NotImplementedError(f"none of {', '.join(ways)} computes it")
        name = min(found)[1]
        return name, ways[name]

    def _begin(self, task: Task, *dtypes: str) -> None:
        """In the problem's own accuracy: sums in its accumulator's type, TF32 where the user allows it."""
        if dtypes and task["dtype"] not in dtypes:
            raise NotImplementedError(f"torch has no {task['op']} of {task['dtype']}")
        if self.on_gpu:
            self.torch.cuda.empty_cache()
        backends = self.torch.backends
        tf32, matmul = task.get("allow") == "tf32", backends.cuda.matmul
        matmul.allow_tf32 = backends.cudnn.allow_tf32 = tf32
        matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = False
        if hasattr(matmul, "allow_fp16_accumulation"):
            matmul.allow_fp16_accumulation = task.get("acc") == "f16"

    # --- what is computed -----------------------------------------------------------------------------------------

    def gemm(self, task: Task, tensors: list[Any]) -> Call:
        self._refuse_product(task)
        self._begin(task)
        torch, dtype, result = self.torch, task["dtype"], task["result"]
        a, b = (x.transpose(-1, -2) if side == "t" else x for x, side in zip(tensors, task["layout"], strict=False))
        name = "_int_mm" if dtype == "i8" else "bmm" if task["batch"] > 1 else "mm"
        plain, options = getattr(torch, name), {}
        if dtype.startswith("f8"):
            one = torch.ones((), device=self.device)
            name, plain = "_scaled_mm", torch._scaled_mm
            options = {"scale_a": one, "scale_b": one, "use_fast_accum": task.get("allow") == "f16"}
        if dtype != result and dtype != "i8":
            options |= {"out_dtype": self.dtype(result)}
        low, high = task["low"], task["high"]

        def multiply(a: Any, b: Any, *more: Any) -> Any:
            out = plain(a, b, **options)
            for added in more:
                out += added
            return out.clamp_(low, high) if low is not None or high is not None else out

        told = f", out_dtype={TYPES[result]}" if "out_dtype" in options and "scale_a" not in options else ""
        return {"how": f"torch.{name}{told}", "compute": multiply, "inputs": (a, b, *tensors[2:])}

    def _refuse_product(self, task: Task) -> None:
        dtype, result, why = task["dtype"], task["result"], ""
        if task["added"] and result != "f32":
            why = f"torch would round to {result} before it adds bias or residual"
        elif dtype == "i8" and task["batch"] > 1:
            why = "torch has no batched product of i8"
        elif dtype.startswith("f8") and (not self.on_gpu or task["layout"] != "nt" or task["batch"] > 1):
            why = "torch multiplies f8 on a GPU and in layout nt only, without a batch"
        elif dtype in ("f16", "bf16") and result != dtype and not (self.on_gpu and result == "f32"):
            why = f"torch has no {result} result of {dtype} factors here"
        if why:
            raise NotImplementedError(why)

    def conv(self, task: Task, tensors: list[Any]) -> Call:
        """In the layout that the problem has; filters are brought into torch's order before anything is timed."""
        self._begin(task, "f32", "f16", "bf16")
        torch, (image, weights, *more) = self.torch, tensors
        last, groups = task["channels_last"], task["groups"]
        if task["depthwise"]:
            weights = (weights.permute(2, 0, 1) if last else weights).unsqueeze(1)
        elif last and groups > 1:
            weights = weights.reshape(task["f"], *weights.shape[2:]).permute(0, 3, 1, 2)
        elif last:
            weights = weights.permute(3, 2, 0, 1)
        if last:
            image = image.permute(0, 3, 1, 2)  # so it lies in memory already
            more = [x.permute(0, 3, 1, 2) if x.dim() == 4 else x for x in more]
        more = [x if x.dim() == 4 else x[:, None, None] for x in more]
        form = torch.channels_last if last else torch.contiguous_format
        weights = weights.contiguous(memory_format=form)
        options = {name: tuple(task[name]) for name in ("stride", "dilation")}
        low, high = task["low"], task["high"]

        def convolve(image: Any, weights: Any, *more: Any) -> Any:
            out = torch.nn.functional.conv2d(image, weights, padding=tuple(task["pad"]), groups=groups, **options)
            for added in more:
                out = out + added
            return out.clamp_(low, high) if low is not None or high is not None else out

        how = f"conv2d, {'channels last' if last else 'channels first'}"
        shown: Compute = lambda out: out.permute(0, 2, 3, 1) if last else out  # noqa: E731
        return {"how": how, "compute": convolve, "inputs": (image, weights, *more), "shown": shown}

    def attention(self, task: Task, tensors: list[Any]) -> Call:
        """On a GPU by the fastest of torch's own kernels."""
        self._begin(task, "f32", "f16", "bf16")
        attend, causal, flat = (
            self.torch.nn.functional.scaled_dot_product_attention,
            task["causal"],
            tensors[0].dim() == 3,
        )
        inputs = tuple(x.unsqueeze(0) if flat else x for x in tensors)

        def compute(*given: Any) -> Any:
            return attend(*given, is_causal=causal)

        how, best = "scaled_dot_product_attention", compute
        if self.on_gpu:
            kernels = import_module("torch.nn.attention")
            ways = {name: _within(kernels, name, compute) for name in SDPA if hasattr(kernels.SDPBackend, name)}
            name, best = self.fastest(ways, inputs, RuntimeError)
            how += f", {name.lower()}"
        return {"how": how, "compute": best, "inputs": inputs, "shown": lambda out: out.squeeze(0) if flat else out}

    def model(self, task: Task, tensors: list[Any]) -> Call:
        """In both memory formats; the faster one counts."""
        self._begin(task)
        torch, made = self.torch, import_module("torch_model").network
        formats = {"channels last": torch.channels_last, "channels first": torch.contiguous_format}
        ways = {name: made(torch, task["path"], self.device, form) for name, form in formats.items()}
        name, best = self.fastest(ways, tuple(tensors), RuntimeError)
        return {"how": f"its graph by torch, {name}", "compute": best, "inputs": tensors, "fixed": True}


def _within(kernels: Any, name: str, compute: Compute) -> Compute:
    """The same by one of torch's kernels for attention."""

    def chosen(*given: Any) -> Any:
        with kernels.sdpa_kernel(getattr(kernels.SDPBackend, name)):
            return compute(*given)

    return chosen
