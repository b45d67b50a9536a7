"""ONNX Runtime on the processor: a graph of one operation, or a whole model from its file."""

from __future__ import annotations

import math
import time
from importlib import import_module
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotuner.jobs.bench.libraries.child import Message, Task

OPSET, IR = 17, 8
"""What every release of late reads."""
ELEMENTS = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "i1": "bool",
}
"""MLIR's names of types, in numpy's words."""
Feeds = dict[str, Any]


class Refusal(Exception):
    """ONNX Runtime does not compute this."""


def refusal(task: Task) -> str:
    """Why ONNX Runtime does not compute it; empty where it does."""
    if task["op"] == "model":
        return "" if task["format"] == "onnx" else "ONNX Runtime takes models in ONNX only"
    if task.get("activation"):
        return f"ONNX Runtime is not asked for {task['activation']} here"
    if task.get("norm"):
        return f"ONNX Runtime is not asked for a norm ({task['norm']}) here"
    op, dtype, result = task["op"], task["dtype"], task["result"]
    if (dtype, result) == ("f32", "f32"):
        return ""
    if op == "gemm" and (dtype, result) == ("i8", "i32") and not task["added"]:
        return ""
    return f"ONNX Runtime has no {op} of {dtype} with a result of {result} on the processor"


class Library:
    """ONNX Runtime's own kernels for processors."""

    name = "onnxruntime"

    def __init__(self, device: str, threads: int) -> None:
        if device != "cpu":
            raise RuntimeError("it is timed on the processor only")
        self._runtime, self._onnx = import_module("onnxruntime"), import_module("onnx")
        self.version = str(self._runtime.__version__)
        self._options = self._runtime.SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.inter_op_num_threads = 1
        self._options.log_severity_level = 3

    def prepare(self, task: Task, inputs: list[Message]) -> Prepared:
        if why := refusal(task):
            raise Refusal(why)
        if strange := [one["element"] for one in inputs if one["element"] not in ELEMENTS]:
            raise Refusal(f"numpy, by which ONNX Runtime is given its inputs, has no {strange[0]}")
        arrays = [np.fromfile(one["file"], ELEMENTS[one["element"]]).reshape(one["shape"]) for one in inputs]
        if task["op"] == "model":
            return Prepared(self._session(task["path"]), arrays, how="the model as it is", turns=False)
        make = {"gemm": self._product, "conv": self._convolution, "attention": self._attention}[task["op"]]
        how, nodes, feeds, constants = make(task, arrays)
        session = self._session(self._model(nodes, feeds, constants, task["result"]))
        last = task["op"] == "conv" and task["channels_last"]
        found = Prepared(session, list(feeds.values()), how=how, turns="weights" not in constants)
        found.turned = (0, 2, 3, 1) if last else None
        return found

    def _session(self, model: str | bytes) -> Any:
        return self._runtime.InferenceSession(model, self._options, providers=["CPUExecutionProvider"])

    def _model(self, nodes: list[Any], feeds: Feeds, constants: Feeds, result: str) -> bytes:
        helper, numpy_helper = self._onnx.helper, self._onnx.numpy_helper

        def kind(name: str) -> int:
            return int(helper.np_dtype_to_tensor_dtype(np.dtype(name)))

        takes = [helper.make_tensor_value_info(name, kind(x.dtype.name), x.shape) for name, x in feeds.items()]
        gives = [helper.make_tensor_value_info("out", kind(ELEMENTS[result]), None)]
        kept = [numpy_helper.from_array(np.ascontiguousarray(x), name) for name, x in constants.items()]
        graph = helper.make_graph(nodes, "problem", takes, gives, kept)
        opsets = [helper.make_opsetid("", OPSET)]
        whole: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=IR).SerializeToString()
        return whole

    # --- one operation --------------------------------------------------------------------------------------------

    def _product(self, task: Task, arrays: list[Any]) -> tuple[str, list[Any], Feeds, Feeds]:
        node, rank = self._onnx.helper.make_node, arrays[0].ndim
        turn = [*range(rank - 2), rank - 1, rank - 2]
        nodes, names = [], []
        for name, side in zip(("a", "b"), task["layout"], strict=True):
            names.append(f"{name}t" if side == "t" else name)
            if side == "t":
                nodes.append(node("Transpose", [name], [names[-1]], perm=turn))
        op = "MatMul" if task["dtype"] == "f32" else "MatMulInteger"
        nodes.append(node(op, names, ["sum"]))
        more = dict(zip(task["added"], arrays[2:], strict=True))
        ended, constants = self._ended(task, list(more))
        return op, [*nodes, *ended], {"a": arrays[0], "b": arrays[1], **more}, constants

    def _ended(self, task: Task, added: list[str]) -> tuple[list[Any], Feeds]:
        """From the sums to the result: what is added, and the clip."""
        node = self._onnx.helper.make_node
        nodes, last = [], "sum"
        for name in added:
            nodes.append(node("Add", [last, name], [f"with_{name}"]))
            last = f"with_{name}"
        limits = {name: np.float32(task[name]) for name in ("low", "high") if task[name] is not None}
        if not limits:
            return [*nodes, node("Identity", [last], ["out"])], {}
        given = ["low" if "low" in limits else "", "high" if "high" in limits else ""]
        return [*nodes, node("Clip", [last, *given], ["out"])], dict(limits)

    def _convolution(self, task: Task, arrays: list[Any]) -> tuple[str, list[Any], Feeds, Feeds]:
        """Channels first, as its kernels are, with constant weights, which it lays out for itself."""
        image, weights, *more = arrays
        last, groups = task["channels_last"], task["groups"]
        if task["depthwise"]:
            weights = (weights.transpose(2, 0, 1) if last else weights)[:, None]
        elif last and groups > 1:
            weights = weights.reshape(task["f"], *weights.shape[2:]).transpose(0, 3, 1, 2)
        elif last:
            weights = weights.transpose(3, 2, 0, 1)
        added = {}
        for name, array in zip(task["added"], more, strict=True):
            turned = array.transpose(0, 3, 1, 2) if last and array.ndim == 4 else array
            added[name] = np.ascontiguousarray(turned if turned.ndim == 4 else turned[:, None, None])
        settings = {"strides": task["stride"], "dilations": task["dilation"], "pads": [*task["pad"], *task["pad"]]}
        conv = self._onnx.helper.make_node("Conv", ["image", "weights"], ["sum"], group=groups, **settings)
        ended, constants = self._ended(task, list(added))
        first = np.ascontiguousarray(image.transpose(0, 3, 1, 2) if last else image)
        feeds, constants = {"image": first, **added}, {"weights": weights, **constants}
        return "Conv, channels first, constant weights", [conv, *ended], feeds, constants

    def _attention(self, task: Task, arrays: list[Any]) -> tuple[str, list[Any], Feeds, Feeds]:
        node, rank = self._onnx.helper.make_node, arrays[0].ndim
        constants: Feeds = {"scale": np.float32(1 / math.sqrt(task["width"]))}
        nodes = [
            node("Transpose", ["key"], ["turned"], perm=[*range(rank - 2), rank - 1, rank - 2]),
            node("MatMul", ["query", "turned"], ["raw"]),
            node("Mul", ["raw", "scale"], ["scores"]),
        ]
        if task["causal"]:
            hidden = ~np.tri(task["queries"], task["keys"], dtype=bool)
            constants["mask"] = np.where(hidden, -np.inf, 0).astype(np.float32)
            nodes.append(node("Add", ["scores", "mask"], ["seen"]))
        nodes.append(node("Softmax", ["seen" if task["causal"] else "scores"], ["weights"], axis=-1))
        nodes.append(node("MatMul", ["weights", "value"], ["out"]))
        feeds = dict(zip(("query", "key", "value"), arrays, strict=True))
        return "MatMul, Softmax, MatMul", nodes, feeds, constants


class Prepared:
    """A session with its inputs where it takes them, and copies of them."""

    turned: tuple[int, ...] | None = None
    """How the result's dimensions are brought back into the problem's order."""

    def __init__(self, session: Any, arrays: list[Any], *, how: str, turns: bool) -> None:
        self.how, self._session, self._turns = how, session, turns
        self._names = [one.name for one in session.get_inputs()]
        if len(self._names) != len(arrays):
            raise Refusal(f"its graph takes {len(self._names)} inputs, not {len(arrays)}")
        self._sets = [dict(zip(self._names, arrays, strict=True))]
        self._rotations: dict[int, Iterator[Feeds]] = {}
        names = {name: element for element, name in ELEMENTS.items()}
        outputs = self._run(self._sets[0])
        if strange := [one.dtype.name for one in outputs if one.dtype.name not in names]:
            raise Refusal(f"a result is {strange[0]}, which is compared with nothing")
        self.elements = [names[one.dtype.name] for one in outputs]

    def _run(self, feeds: Feeds) -> list[Any]:
        found: list[Any] = self._session.run(None, feeds)
        return found

    def results(self) -> list[tuple[bytes, list[int]]]:
        found = [x.transpose(self.turned) if self.turned else x for x in self._run(self._sets[0])]
        return [(np.ascontiguousarray(one).tobytes(), list(one.shape)) for one in found]

    def invoke(self, sets: int) -> tuple[float, int]:
        if sets > 1 and not self._turns:
            raise Refusal("what is constant in its graph cannot be taken in turns")
        while len(self._sets) < sets:
            self._sets.append({name: array.copy() for name, array in self._sets[0].items()})
        feeds = next(self._rotations.setdefault(sets, cycle(self._sets[:sets])))
        start = time.perf_counter()
        self._run(feeds)
        return time.perf_counter() - start, 1
