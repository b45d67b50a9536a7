"""A model in ONNX by torch: its graph is executed operation by operation. Those of image networks and of
transformers are known."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

Operation = Callable[..., Any]


def network(torch: Any, path: str, device: Any, memory_format: Any) -> Callable[..., Any]:
    """The graph as a function of its inputs; NotImplementedError says why torch cannot execute it."""
    onnx = import_module("onnx")
    model = onnx.load(path)
    operations = _operations(torch)
    nodes = [node for node in model.graph.node if node.op_type != "Constant"]
    unknown = sorted({node.op_type for node in nodes} - operations.keys())
    if unknown:
        raise NotImplementedError(f"the graph has {', '.join(unknown)}, which is not executed by torch here")
    constants = {node.output[0]: node.attribute[0].t for node in model.graph.node if node.op_type == "Constant"}
    known = {}
    for name, tensor in [*((one.name, one) for one in model.graph.initializer), *constants.items()]:
        array = torch.from_numpy(onnx.numpy_helper.to_array(tensor).copy())
        if array.is_floating_point() and array.dim():  # shapes and limits stay on the host
            array = array.to(device)
            array = array.contiguous(memory_format=memory_format) if array.dim() == 4 else array
        known[name] = array
    given = [one.name for one in model.graph.input if one.name not in known]
    steps = [
        (
            operations[node.op_type],
            {one.name: onnx.helper.get_attribute_value(one) for one in node.attribute},
            list(node.input),
            node.output[0],
        )
        for node in nodes
    ]
    ends = [one.name for one in model.graph.output]

    def run(*inputs: Any) -> Any:
        images = [x.contiguous(memory_format=memory_format) if x.dim() == 4 else x for x in inputs]
        values = {**known, **dict(zip(given, images, strict=True))}
        for operation, attributes, names, out in steps:
            values[out] = operation(attributes, *(values.get(name) for name in names))
        return [values[name] for name in ends]

    return run


def _pads(attributes: dict[str, Any]) -> list[int]:
    """Both sides of height and width, as torch's `pad` takes them: the last dimension first."""
    top, left, bottom, right = attributes.get("pads", [0, 0, 0, 0])
    return [left, right, top, bottom]


def _plain(function: Operation) -> Operation:
    """Of torch's own functions one that has no attributes."""
    return lambda _, *tensors: function(*tensors)


def _operations(torch: Any) -> dict[str, Operation]:
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

    def gemm(at: dict[str, Any], a: Any, b: Any, c: Any = None) -> Any:
        a, b = a.t() if at.get("transA") else a, b.t() if at.get("transB") else b
        return torch.mm(a, b) if c is None else torch.addmm(c, a, b)

    def clip(at: dict[str, Any], x: Any, low: Any = None, high: Any = None) -> Any:
        limits = at.get("min", low), at.get("max", high)
        return x.clamp(*(None if one is None else float(one) for one in limits))

    def norm(at: dict[str, Any], x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
        return functional.batch_norm(x, mean, variance, scale, bias, eps=at.get("epsilon", 1e-5))

    def layer_norm(at: dict[str, Any], x: Any, scale: Any, bias: Any = None) -> Any:
        return functional.layer_norm(x, x.shape[at.get("axis", -1) :], scale, bias, at.get("epsilon", 1e-5))

    def lrn(at: dict[str, Any], x: Any) -> Any:
        return functional.local_response_norm(
            x, at["size"], at.get("alpha", 1e-4), at.get("beta", 0.75), at.get("bias", 1.0)
        )

    def rms_norm(at: dict[str, Any], x: Any, scale: Any) -> Any:
        return functional.rms_norm(x, x.shape[at.get("axis", -1) :], scale, at.get("epsilon", 1e-5))

    def gelu(at: dict[str, Any], x: Any) -> Any:
        return functional.gelu(x, approximate=at.get("approximate", b"none").decode())

    def attention(at: dict[str, Any], query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        attend, causal = functional.scaled_dot_product_attention, bool(at.get("is_causal", 0))
        return attend(query, key, value, mask, is_causal=causal, scale=at.get("scale"))

    plain = ("MatMul", "Relu", "Add", "Mul", "Sub", "Div", "Sqrt", "Erf", "Tanh", "Sigmoid")
    return {
        **{name: _plain(getattr(torch, name.lower())) for name in plain},
        "Attention": attention,
        "Gelu": gelu,
        "RMSNormalization": rms_norm,
        "Conv": conv,
        "MaxPool": max_pool,
        "AveragePool": average_pool,
        "GlobalAveragePool": lambda _, x: x.mean((2, 3), keepdim=True),
        "Gemm": gemm,
        "BatchNormalization": norm,
        "LayerNormalization": layer_norm,
        "LRN": lrn,
        "Sum": lambda _, x, *more: sum(more, x),
        "Clip": clip,
        "Shape": lambda _, x: torch.tensor(x.shape),
        "Identity": lambda _, x: x,
        "Flatten": lambda at, x: x.flatten(at.get("axis", 1)) if at.get("axis", 1) else x.reshape(1, -1),
        "Transpose": lambda at, x: x.permute(at["perm"]),
        "Concat": lambda at, *xs: torch.cat(xs, at["axis"]),
        "Reshape": lambda _, x, shape: x.reshape([int(size) for size in shape.tolist()]),
        "Dropout": lambda _, x, *_rest: x,
        "Softmax": lambda at, x: x.softmax(at.get("axis", -1)),
    }
