"""The dispatches of a compiled program, each as a program of its own, with its number of calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from autotuner.iree.mlir import Dispatch, by_name, parse, resources, root_of, text_context, walk
from autotuner.programs.signature import ASYNC, Signature, read_signature

ARITHMETIC: Mapping[str, Callable[[int, int], int]] = {
    "arith.addi": lambda a, b: a + b,
    "arith.subi": lambda a, b: a - b,
    "arith.muli": lambda a, b: a * b,
    "arith.divsi": lambda a, b: a // b,
    "arith.divui": lambda a, b: a // b,
    "arith.floordivsi": lambda a, b: a // b,
    "arith.ceildivsi": lambda a, b: -(-a // b),
    "arith.ceildivui": lambda a, b: -(-a // b),
    "arith.remsi": lambda a, b: a % b,
    "arith.remui": lambda a, b: a % b,
    "arith.minsi": min,
    "arith.minui": min,
    "arith.maxsi": max,
    "arith.maxui": max,
}
PASSED_ON = ("arith.index_cast", "arith.index_castui", "util.assume.int", "util.optimization_barrier")
_DEEPEST = 64


@dataclass(frozen=True)
class Value:
    """An operand or a result of a dispatch."""

    type: str
    dims: tuple[int | None, ...] = ()
    """For a tensor: the sizes of its dynamic dimensions, in order, as far as they follow from the inputs."""
    number: int | None = None
    """For a scalar: its value, if it follows from the inputs."""

    @property
    def is_tensor(self) -> bool:
        return self.type.startswith("tensor<")

    @property
    def number_text(self) -> str:
        """A scalar's value as text; where it is computed on the way (a zero point, say), any value will do."""
        if self.number is not None:
            return str(self.number)
        return "1" if self.type.startswith("i") else "0.5"

    @property
    def obstacle(self) -> str:
        """Why it cannot be generated; empty: it can."""
        if not self.is_tensor:
            unknown = self.type == "index" and self.number is None
            return "it takes a size or position that the inputs do not tell" if unknown else ""
        if "#" in self.type:
            return "data tiling packs its operands in an encoding that only the compiler knows, after specs are applied"
        return "its shape is dynamic, and the inputs do not tell its sizes (--input)" if None in self.dims else ""


@dataclass(frozen=True)
class FlowDispatch:
    """One dispatch of a program: the executable with all that a call of it needs."""

    symbol: str
    export: str
    text: str
    resources: str
    """The resource section after a module, with the values of its constants."""
    workload: tuple[int | None, ...]
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    tied: tuple[int | None, ...]
    """For each result, the operand that it is written into."""
    calls: int
    devices: tuple[str, ...] = field(repr=False, default=())
    attributes: tuple[str, ...] = field(repr=False, default=())

    @property
    def tensors(self) -> tuple[Value, ...]:
        """Its tensor operands."""
        return tuple(value for value in self.operands if value.is_tensor)

    @property
    def obstacle(self) -> str:
        """Why it cannot run alone; empty: it can."""
        if None in self.workload:
            return "its shape is dynamic, and the inputs do not tell its sizes (--input)"
        return next((value.obstacle for value in (*self.operands, *self.results) if value.obstacle), "")


@dataclass(frozen=True)
class Flow:
    """A program with formed dispatches."""

    signature: Signature
    pieces: tuple[FlowDispatch, ...]


def read_flow(text: str, *, function: str | None, shapes: Sequence[tuple[int, ...] | None] = ()) -> Flow:
    """Reads the output of `--compile-to=flow`, in which weights may be elided.

    `shapes` are those of the function's inputs, as far as they are known.
    """
    with ir.Context() as context:
        module = parse(text, context)
        top = list(module.body.operations)
        functions = {_symbol(op): op.operation for op in top if op.operation.name == "util.func"}
        signature = read_signature(functions, top, function=function)
        body = functions.get(signature.function + ASYNC, functions.get(signature.function))
        sizes = Sizes(body, shapes)
        calls: Counter[str] = Counter()
        sites: dict[str, Any] = {}
        for name, one in functions.items():
            if not _belongs(name, signature.function, functions):
                continue
            for op in walk(one):
                if op.name == "flow.dispatch":
                    for entry in ir.ArrayAttr(op.attributes["entry_points"]):
                        path = "::".join(ir.SymbolRefAttr(entry).value)
                        calls[path] += 1
                        sites.setdefault(path, op)
        executables = {_symbol(op): op.operation for op in top if op.operation.name == "flow.executable"}
        devices = tuple(_text(op) for op in top if op.operation.name == "util.global" and "!hal.device" in _type(op))
        # A dispatch on its own needs what dialects say of the module, not the name that an exporter gave it.
        attributes = tuple(f"{a.name} = {a.attr}" for a in _named(module.operation.attributes) if "." in a.name)
        pieces = []
        for path, op in sites.items():
            symbol, export = path.split("::", 1)
            workload, operands, results = _values(op, sizes)
            executable = executables.get(symbol)
            pieces.append(
                FlowDispatch(
                    symbol=symbol,
                    export=export,
                    text=_text(executable) if executable is not None else "",
                    resources=_resources(executable, context) if executable is not None else "",
                    workload=workload,
                    operands=operands,
                    results=results,
                    tied=_tied(op, len(results)),
                    calls=calls[path],
                    devices=devices,
                    attributes=attributes,
                )
            )
    return Flow(signature, tuple(pieces))


def read_roots(texts: Iterable[str]) -> dict[str, Dispatch]:
    """The root operations of configured executables, by the executable's name."""
    roots = {}
    for name, text in by_name(texts).items():
        with ir.Context() as context:
            module = parse(text, context)
            root = root_of(module.operation)
            if root is not None:
                roots[name] = root[1]
    return roots


@dataclass(frozen=True)
class Group:
    """Dispatches with the same root operation: one matcher hits them all, whatever is fused to it."""

    root: Dispatch
    pieces: tuple[FlowDispatch, ...]

    @property
    def calls(self) -> int:
        return sum(piece.calls for piece in self.pieces)

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(piece.symbol for piece in self.pieces)

    def leading(self, share: Mapping[str, float]) -> FlowDispatch:
        """The dispatch that represents the group: the one with the largest share that can run alone."""
        return max(self.pieces, key=lambda piece: (not piece.obstacle, share.get(piece.export, 0.0)))


def root_key(root: Dispatch) -> tuple[object, ...]:
    """A key that two roots share if one matcher hits both."""
    return (root.op, root.maps, root.element_types, root.loops, root.dynamic, root.strides, root.dilations)


def group(
    pieces: Sequence[FlowDispatch], roots: Mapping[str, Dispatch]
) -> tuple[tuple[Group, ...], tuple[FlowDispatch, ...]]:
    """The dispatches grouped by root operation; and those without one."""
    found: dict[tuple[object, ...], list[FlowDispatch]] = {}
    known: dict[tuple[object, ...], Dispatch] = {}
    other = []
    for piece in pieces:
        root = roots.get(piece.symbol)
        if root is None:
            other.append(piece)
            continue
        key = root_key(root)
        known.setdefault(key, root)
        found.setdefault(key, []).append(piece)
    return tuple(Group(known[key], tuple(members)) for key, members in found.items()), tuple(other)


def _belongs(name: str, function: str, functions: Mapping[str, Any]) -> bool:
    """Whether a function is this one, its asynchronous body, or a private function, which it may call."""
    if name in (function, function + ASYNC):
        return True
    return "sym_visibility" in functions[name].attributes and (
        ir.StringAttr(functions[name].attributes["sym_visibility"]).value == "private"
    )


def _values(op: Any, sizes: Sizes) -> tuple[tuple[int | None, ...], tuple[Value, ...], tuple[Value, ...]]:
    """Workload, operands and results of a dispatch, whose operation has them in one list."""
    counts = [int(n) for n in ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"])]
    given = iter(list(op.operands))
    workload, arguments, argument_dims, result_dims = ([next(given) for _ in range(count)] for count in counts)
    dims = iter(argument_dims)
    operands = [
        Value(str(v.type), tuple(sizes.of(next(dims)) for _ in range(_unknown(v.type))))
        if isinstance(v.type, ir.RankedTensorType)
        else Value(str(v.type), number=sizes.of(v))
        for v in arguments
    ]
    dims = iter(result_dims)
    results = [Value(str(v.type), tuple(sizes.of(next(dims)) for _ in range(_unknown(v.type)))) for v in op.results]
    return tuple(sizes.of(v) for v in workload), tuple(operands), tuple(results)


def _unknown(type: Any) -> int:
    tensor = ir.RankedTensorType(type)
    return sum(tensor.is_dynamic_dim(axis) for axis in range(tensor.rank))


def _tied(op: Any, results: int) -> tuple[int | None, ...]:
    if "tied_operands" not in op.attributes:
        return (None,) * results
    return tuple(
        None if (index := int(ir.IntegerAttr(entry).value)) < 0 else index
        for entry in ir.ArrayAttr(op.attributes["tied_operands"])
    )


def _symbol(op: Any) -> str:
    return str(ir.StringAttr(op.operation.attributes["sym_name"]).value)


def _type(op: Any) -> str:
    return str(op.operation.attributes["type"])


def _text(op: Any) -> str:
    """The operation as text without aliases, to be used in another module."""
    return str(op.operation.get_asm(use_local_scope=True))


def _resources(op: Any, context: ir.Context) -> str:
    """The resources of an operation; MLIR prints them after a module only."""
    with ir.Location.unknown(context):
        module = ir.Module.create()
        module.body.append(op.clone())
    return resources(str(module))


def _named(attributes: Any) -> list[Any]:
    return [attributes[i] for i in range(len(attributes))]


def tensor_type(value: Value) -> tuple[tuple[int, ...], str]:
    """The sizes of a tensor (dynamic ones as they follow from the inputs), and its element type."""
    with text_context():
        tensor = ir.RankedTensorType(ir.Type.parse(value.type))
        dims = iter(value.dims)
        sizes = [next(dims) if tensor.is_dynamic_dim(i) else int(tensor.shape[i]) for i in range(tensor.rank)]
        return tuple(size or 0 for size in sizes), str(tensor.element_type)


class Sizes:
    """Traces numbers back to the shapes of the function's inputs. In a loop it gives those of the first iteration."""

    def __init__(self, function: Any, shapes: Sequence[tuple[int, ...] | None]) -> None:
        self._arguments = list(function.regions[0].blocks[0].arguments)
        # A caller gives tensors and numbers; fences stand between them.
        given = [i for i, argument in enumerate(self._arguments) if str(argument.type) != "!hal.fence"]
        self._shapes = dict(zip(given, shapes, strict=False))

    def of(self, value: Any, depth: int = 0) -> int | None:
        """The number that a value has; None: it does not follow from the inputs."""
        owner = value.owner
        if depth > _DEEPEST:
            return None
        if isinstance(owner, ir.Block):
            start = _first_round(owner, ir.BlockArgument(value).arg_number)
            return None if start is None else self.of(start, depth + 1)
        op = owner.operation if hasattr(owner, "operation") else owner
        if op.name == "arith.constant":
            attribute = op.attributes["value"]
            return int(ir.IntegerAttr(attribute).value) if isinstance(attribute, ir.IntegerAttr) else None
        if op.name == "hal.buffer_view.dim":
            return self._dimension(op)
        if op.name in PASSED_ON:
            number = next((i for i, result in enumerate(op.results) if result == value), 0)
            return self.of(op.operands[number], depth + 1)
        if op.name in ARITHMETIC:
            left, right = (self.of(operand, depth + 1) for operand in op.operands)
            if left is None or right is None:
                return None
            try:
                return ARITHMETIC[op.name](left, right)
            except ZeroDivisionError:
                return None
        return None

    def _dimension(self, op: Any) -> int | None:
        index = next((i for i, argument in enumerate(self._arguments) if argument == op.operands[0]), -1)
        shape = self._shapes.get(index)
        axis = int(ir.IntegerAttr(op.attributes["index"]).value)
        return shape[axis] if shape is not None and axis < len(shape) else None


def _first_round(block: Any, number: int) -> Any:
    """The initial value of a loop block's argument; None for other blocks."""
    loop = block.owner.operation
    if loop.name == "scf.for":  # its bounds and step come first, the induction variable is the lower bound
        return loop.operands[0 if number == 0 else number + 2]
    if loop.name == "scf.while":
        before = loop.regions[0].blocks[0]
        if block == before:
            return loop.operands[number]
        return list(before.operations)[-1].operands[number + 1]  # behind the condition
    return None
