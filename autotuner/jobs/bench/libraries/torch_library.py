"""torch: its products, convolutions and attention, on a GPU recorded as CUDA graphs, where launches cost nothing."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from importlib import import_module
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotuner.jobs.bench.libraries.child import Message, Task

GRAPH_SECONDS, MOST_CALLS = 0.01, 1000
"""A graph lasts about so long, and has at most so many calls on each copy of the inputs."""
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


class Refusal(Exception):
    """torch does not compute this."""


def refusal(task: Task, *, on_gpu: bool) -> str:
    """Why torch does not compute it; empty where it does."""
    if task["op"] == "model":
        return "" if task["format"] == "onnx" else "torch is given models in ONNX only"
    if task.get("activation"):
        return f"torch is not asked for {task['activation']} here"
    if task.get("norm"):
        return f"torch is not asked for a norm ({task['norm']}) here"
    op, dtype, result = task["op"], task["dtype"], task["result"]
    if op == "conv" and dtype not in ("f32", "f16", "bf16"):
        return f"torch has no convolution of {dtype}"
    if op == "attention" and dtype not in ("f32", "f16", "bf16"):
        return f"torch has no attention of {dtype}"
    if op == "gemm":
        if task["added"] and result != "f32":
            return f"torch would round to {result} before it adds bias or residual"
        if dtype == "i8" and task["batch"] > 1:
            return "torch has no batched product of i8"
        if dtype.startswith("f8") and (not on_gpu or task["layout"] != "nt" or task["batch"] > 1):
            return "torch multiplies f8 on a GPU and in layout nt only, without a batch"
        if dtype in ("f16", "bf16") and result != dtype and not (on_gpu and result == "f32"):
            return f"torch has no {result} result of {dtype} factors here"
    return ""


class Library:
    """torch on the processor or on one GPU."""

    name = "torch"

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

    def prepare(self, task: Task, inputs: list[Message]) -> Prepared:
        if why := refusal(task, on_gpu=self.on_gpu):
            raise Refusal(why)
        if self.on_gpu:
            self.torch.cuda.empty_cache()
        self._set_accuracy(task)
        tensors = tuple(self.tensor(one) for one in inputs)
        by_operation = {"gemm": self._product, "conv": self._convolution, "attention": self._attention}
        make = by_operation.get(task["op"], self._model)
        how, arguments, call, finish = make(task, tensors)
        return self._kind(task)(self.torch, how, arguments, call, finish)

    def _kind(self, task: Task) -> type[OnHost | OnGpu]:
        return OnHost if not self.on_gpu else OneByOne if task["op"] == "model" else OnGpu

    def _set_accuracy(self, task: Task) -> None:
        """The problem's own: sums in its accumulator's type, TF32 where the user allows it."""
        backends = self.torch.backends
        tf32, matmul = task.get("allow") == "tf32", backends.cuda.matmul
        matmul.allow_tf32 = backends.cudnn.allow_tf32 = tf32
        matmul.allow_fp16_reduced_precision_reduction = matmul.allow_bf16_reduced_precision_reduction = False
        if hasattr(matmul, "allow_fp16_accumulation"):
            matmul.allow_fp16_accumulation = task.get("acc") == "f16"

    def type(self, element: str) -> Any:
        if element not in TYPES or not hasattr(self.torch, TYPES[element]):
            raise Refusal(f"torch has no {element}")
        return getattr(self.torch, TYPES[element])

    def tensor(self, one: Message) -> Any:
        raw = self.torch.from_numpy(np.fromfile(one["file"], np.uint8))
        return raw.view(self.type(one["element"])).reshape(one["shape"]).to(self.device)

    # --- what is computed -----------------------------------------------------------------------------------------

    def _product(self, task: Task, tensors: Tensors) -> Any:
        torch, dtype, result = self.torch, task["dtype"], task["result"]
        a, b = (x.transpose(-1, -2) if side == "t" else x for x, side in zip(tensors, task["layout"], strict=False))
        name = "bmm" if task["batch"] > 1 else "mm"
        call = getattr(torch, name)
        if dtype == "i8":
            name, call = "_int_mm", torch._int_mm
        elif dtype.startswith("f8"):
            one = torch.ones((), device=self.device)
            wanted = self.type(result)
            name, fast = "_scaled_mm", task.get("allow") == "f16"

            def call(a: Any, b: Any) -> Any:
                return torch._scaled_mm(a, b, one, one, out_dtype=wanted, use_fast_accum=fast)

        elif dtype != result:
            wanted, plain = self.type(result), call
            name += f", out_dtype={TYPES[result]}"

            def call(a: Any, b: Any) -> Any:
                return plain(a, b, out_dtype=wanted)

        low, high = task["low"], task["high"]

        def multiply(a: Any, b: Any, *more: Any) -> Any:
            out = call(a, b)
            for added in more:
                out += added
            return out.clamp_(low, high) if low is not None or high is not None else out

        return f"torch.{name}", (a, b, *tensors[2:]), multiply, None

    def _convolution(self, task: Task, tensors: Tensors) -> Any:
        """In the layout that the problem has; filters are brought into torch's order before anything is timed."""
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
            more = [x.permute(0, 3, 1, 2) if x.dim() == 4 else x[:, None, None] for x in more]
        else:
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

        def finish(out: Any) -> Any:
            return out.permute(0, 2, 3, 1) if last else out

        return f"conv2d, {'channels last' if last else 'channels first'}", (image, weights, *more), convolve, finish

    def _attention(self, task: Task, tensors: Tensors) -> Any:
        attend, causal = self.torch.nn.functional.scaled_dot_product_attention, task["causal"]
        flat = tensors[0].dim() == 3
        if flat:
            tensors = tuple(x.unsqueeze(0) for x in tensors)

        def call(*given: Any) -> Any:
            return attend(*given, is_causal=causal)

        def finish(out: Any) -> Any:
            return out.squeeze(0) if flat else out

        if not self.on_gpu:
            return "scaled_dot_product_attention", tensors, call, finish
        name, best = self._fastest(call, tensors)
        return f"scaled_dot_product_attention, {name.lower()}", tensors, best, finish

    def _model(self, task: Task, tensors: Tensors) -> Any:
        """In both memory formats; the faster one counts."""
        torch, found = self.torch, []
        formats = {"channels last": torch.channels_last, "channels first": torch.contiguous_format}
        for name, form in formats.items():
            run, why = import_module("torch_model").network(torch, task["path"], self.device, form)
            if why:
                raise Refusal(why)
            ready = self._kind(task)(torch, f"its graph by torch, {name}", tensors, run, None)
            ready.invoke(1)
            found.append((min(seconds / count for seconds, count in (ready.invoke(1) for _ in range(3))), name, run))
        _, name, best = min(found, key=lambda one: one[0])
        return f"its graph by torch, {name}", tensors, best, None

    def _fastest(self, call: Callable[..., Any], tensors: Tensors) -> tuple[str, Callable[..., Any]]:
        """The best of torch's own kernels for it."""
        attention = import_module("torch.nn.attention")
        found: list[tuple[float, str, Callable[..., Any]]] = []
        for name in (one for one in SDPA if hasattr(attention.SDPBackend, one)):
            chosen = _chosen(attention.sdpa_kernel, getattr(attention.SDPBackend, name), call)
            with contextlib.suppress(RuntimeError):  # this one does not compute it
                chosen(*tensors)
                found.append((min(elapsed(self.torch, chosen, tensors) for _ in range(3)), name, chosen))
        if not found:
            raise Refusal("none of torch's attention kernels computes it")
        _, name, best = min(found, key=lambda one: one[0])
        return name, best


def _chosen(within: Callable[[Any], Any], backend: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(*given: Any) -> Any:
        with within(backend):
            return call(*given)

    return chosen


def elapsed(torch: Any, call: Callable[..., Any], tensors: Tensors, calls: int = 5) -> float:
    """Seconds of a call, by the device's own clock."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        call(*tensors)
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3 / calls


class Prepared:
    """A call on tensors, and copies of them."""

    def __init__(
        self, torch: Any, how: str, tensors: Tensors, call: Callable[..., Any], finish: Callable[[Any], Any] | None
    ) -> None:
        self._torch, self.how, self._call, self._finish = torch, how, call, finish
        self._sets = [tensors]
        names = {getattr(torch, name): element for element, name in TYPES.items() if hasattr(torch, name)}
        outputs = self._outputs()
        if strange := [one.dtype for one in outputs if one.dtype not in names]:
            raise Refusal(f"a result is {strange[0]}, which is compared with nothing")
        self.elements = [names[one.dtype] for one in outputs]

    def results(self) -> list[tuple[bytes, list[int]]]:
        found = [one.contiguous().cpu() for one in self._outputs()]
        return [(one.reshape(-1).view(self._torch.uint8).numpy().tobytes(), list(one.shape)) for one in found]

    def _outputs(self) -> list[Any]:
        out = self._call(*self._sets[0])
        whole = list(out) if isinstance(out, (list, tuple)) else [out]
        return [self._finish(one) for one in whole] if self._finish else whole

    def _copies(self, sets: int) -> list[Tensors]:
        while len(self._sets) < sets:
            self._sets.append(tuple(one.clone() for one in self._sets[0]))
        return self._sets[:sets]


class OnHost(Prepared):
    """On the processor, call by call."""

    _turns: dict[int, Iterator[Tensors]]

    def invoke(self, sets: int) -> tuple[float, int]:
        if not hasattr(self, "_turns"):
            self._turns = {}
        tensors = next(self._turns.setdefault(sets, cycle(self._copies(sets))))
        start = time.perf_counter()
        self._call(*tensors)
        return time.perf_counter() - start, 1


class OnGpu(Prepared):
    """Many calls recorded as one graph, timed by the device's own clock."""

    _graphs: dict[int, tuple[Any, int]]

    def invoke(self, sets: int) -> tuple[float, int]:
        if not hasattr(self, "_graphs"):
            self._graphs = {}
        if sets not in self._graphs:
            self._graphs[sets] = self._recorded(self._copies(sets))
        graph, count = self._graphs[sets]
        start, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3, count

    def _recorded(self, copies: list[Tensors], *, most: int = MOST_CALLS) -> tuple[Any, int]:
        torch = self._torch
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._call(*copies[0])
            side.synchronize()
            seconds = elapsed(torch, self._call, copies[0])
        rounds = max(1, min(most, math.ceil(GRAPH_SECONDS / max(seconds, 1e-7) / len(copies))))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            for _ in range(rounds):
                for tensors in copies:
                    self._call(*tensors)
        torch.cuda.synchronize()
        return graph, rounds * len(copies)


class OneByOne(OnGpu):
    """A graph of one call, waited for before the next begins, by the host's clock: as IREE's models are timed."""

    def invoke(self, sets: int) -> tuple[float, int]:
        if not hasattr(self, "_graphs"):
            self._graphs = {1: self._recorded(self._copies(sets), most=1)}
        start = time.perf_counter()
        self._graphs[1][0].replay()
        self._torch.cuda.synchronize()
        return time.perf_counter() - start, 1
