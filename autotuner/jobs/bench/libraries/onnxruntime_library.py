"""ONNX Runtime on the processor: a graph of one operation, or a whole model from its file."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from autotuner.jobs.bench.libraries.child import Call, Task

OPSET, IR = 17, 8
"""What every release of late reads."""
Feeds = dict[str, Any]


class Library:
    """ONNX Runtime's own kernels for processors."""

    title = "ONNX Runtime"

    def __init__(self, device: str, threads: int) -> None:
        if device != "cpu":
            raise RuntimeError("it is timed on the processor only")
        self._runtime, self._onnx = import_module("onnxruntime"), import_module("onnx")
        self._node = self._onnx.helper.make_node
        self.version = str(self._runtime.__version__)
        self._options = self._runtime.SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.inter_op_num_threads = 1
        self._options.log_severity_level = 3

    def model(self, task: Task, arrays: list[Any]) -> Call:
        return self._call("the model as it is", task["path"], arrays, fixed=True)

    def gemm(self, task: Task, arrays: list[Any]) -> Call:
        whole = task["dtype"] == "i8" and not task["added"]
        _refuse(task, ("i8", "i32") if whole else ("f32", "f32"))
        rank = arrays[0].ndim
        turn = [*range(rank - 2), rank - 1, rank - 2]
        nodes, names = [], []
        for name, side in zip(("a", "b"), task["layout"], strict=True):
            names.append(f"{name}t" if side == "t" else name)
            if side == "t":
                nodes.append(self._node("Transpose", [name], [names[-1]], perm=turn))
        op = "MatMulInteger" if whole else "MatMul"
        nodes.append(self._node(op, names, ["sum"]))
        more = dict(zip(task["added"], arrays[2:], strict=True))
        ended, constants = self._ended(task, list(more))
        return self._operation(op, [*nodes, *ended], {"a": arrays[0], "b": arrays[1], **more}, constants)

    def conv(self, task: Task, arrays: list[Any]) -> Call:
        """Channels first, as its kernels are, with constant weights, which it lays out for itself."""
        _refuse(task, ("f32", "f32"))
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
        conv = self._node("Conv", ["image", "weights"], ["sum"], group=groups, **settings)
        ended, constants = self._ended(task, list(added))
        first = np.ascontiguousarray(image.transpose(0, 3, 1, 2) if last else image)
        feeds, constants = {"image": first, **added}, {"weights": weights, **constants}
        call = self._operation("Conv, channels first, constant weights", [conv, *ended], feeds, constants, fixed=True)
        return {**call, "shown": lambda out: out.transpose(0, 2, 3, 1) if last else out}

    def attention(self, task: Task, arrays: list[Any]) -> Call:
        _refuse(task, ("f32", "f32"))
        node, rank = self._node, arrays[0].ndim
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
        return self._operation("MatMul, Softmax, MatMul", nodes, feeds, constants)

    def _ended(self, task: Task, added: list[str]) -> tuple[list[Any], Feeds]:
        """From the sums to the result: what is added, and the clip."""
        nodes, last = [], "sum"
        for name in added:
            nodes.append(self._node("Add", [last, name], [f"with_{name}"]))
            last = f"with_{name}"
        limits: Feeds = {name: np.float32(task[name]) for name in ("low", "high") if task[name] is not None}
        if not limits:
            return [*nodes, self._node("Identity", [last], ["out"])], {}
        given = ["low" if "low" in limits else "", "high" if "high" in limits else ""]
        return [*nodes, self._node("Clip", [last, *given], ["out"])], limits

    def _operation(self, how: str, nodes: list[Any], feeds: Feeds, constants: Feeds, *, fixed: bool = False) -> Call:
        """The session of a graph of these nodes."""
        helper, kept = self._onnx.helper, self._onnx.numpy_helper.from_array
        kinds = {name: int(helper.np_dtype_to_tensor_dtype(x.dtype)) for name, x in feeds.items()}
        takes = [helper.make_tensor_value_info(name, kinds[name], x.shape) for name, x in feeds.items()]
        result = np.dtype("int32" if next(iter(feeds.values())).dtype.kind == "i" else "float32")
        gives = [helper.make_tensor_value_info("out", int(helper.np_dtype_to_tensor_dtype(result)), None)]
        values = [kept(np.ascontiguousarray(x), name) for name, x in constants.items()]
        graph = helper.make_graph(nodes, "problem", takes, gives, values)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
        return self._call(how, model.SerializeToString(), list(feeds.values()), fixed=fixed)

    def _call(self, how: str, model: str | bytes, arrays: list[Any], *, fixed: bool) -> Call:
        session = self._runtime.InferenceSession(model, self._options, providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_inputs()]
        if len(names) != len(arrays):
            raise NotImplementedError(f"its graph takes {len(names)} inputs, not {len(arrays)}")

        def compute(*inputs: Any) -> Any:
            return session.run(None, dict(zip(names, inputs, strict=True)))

        return {"how": how, "compute": compute, "inputs": arrays, "fixed": fixed}


def _refuse(task: Task, wanted: tuple[str, str]) -> None:
    op, dtype, result = task["op"], task["dtype"], task["result"]
    if (dtype, result) != wanted:
        raise NotImplementedError(f"ONNX Runtime has no {op} of {dtype} with a result of {result} on the processor")
