"""The signature of a program's function, read where its dispatches are formed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from autotuner.errors import UsageError
from autotuner.iree.mlir import parse, walk

ASYNC = "$async"
"""The suffix of the function that has the body of an asynchronous one."""
_PARAMETERS = ("#flow.parameter.named<", "#stream.parameter.named<")
_LISTED = 12
_VIEW, _BUFFER, _FENCE = "!hal.buffer_view", "!hal.buffer", "!hal.fence"
_STORAGE = {"hal.tensor.alias": "storage for a result", "hal.tensor.transients": "storage for its transients"}
"""The attribute of an argument that is only written to."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An input of the program's function: a tensor, or a number where it has no shape."""

    shape: tuple[int | None, ...] | None
    element: str
    read: bool = True
    """The runtime checks its shape and type."""

    @property
    def text(self) -> str:
        sizes = ["?" if size is None else str(size) for size in self.shape or ()]
        return "x".join([*sizes, self.element])

    @property
    def dynamic(self) -> bool:
        return self.shape is None or None in self.shape


_UNREAD = Argument((1,), "f32", read=False)
"""A tensor that the function does not read: its type is unknown, and any will do."""


@dataclass(frozen=True, slots=True)
class Signature:
    """The signature of a program's function."""

    function: str
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    """The element type of each result; empty: unknown."""
    shapes: tuple[tuple[int | None, ...], ...] = ()
    """The shape of each result."""
    scopes: tuple[str, ...] = ()
    """Scopes of the parameters that the program loads from files."""
    imports: tuple[str, ...] = ()
    """Functions of other modules that the program calls."""
    foreign: tuple[str, ...] = ()
    """Arguments and results that are not supported: types, and storage that the caller would provide."""


def read_signature(functions: Mapping[str, Any], top: Sequence[Any], *, function: str | None) -> Signature:
    """The signature of the function that is named, or of the only one."""
    name = _choose(functions, function)
    called = functions.get(name, functions.get(name + ASYNC))
    body = functions.get(name + ASYNC, called)
    given = list(body.regions[0].blocks[0].arguments)
    tensors: dict[int, Argument] = {}
    stored: list[Any] = []
    results: list[Any] = []
    for op in walk(body):
        if op.name == "hal.tensor.import":
            tensors.update({n: _tensor(op.results[0].type) for n, one in enumerate(given) if one == op.operands[0]})
        elif op.name in _STORAGE:
            stored += [(one, _STORAGE[op.name]) for one in list(op.operands)[1:] if str(one.type) in (_VIEW, _BUFFER)]
        elif op.name == "util.return":
            results = list(op.operands)
    arguments = {n: tensors.get(n) or _plain(one) for n, one in enumerate(given) if str(one.type) != _FENCE}
    imported = [given[n] for n in tensors]
    foreign = [what for one, what in stored if one not in imported]
    kinds = [str(one.type) for one in (*called.regions[0].blocks[0].arguments, *results)]
    foreign += [kind for kind in kinds if kind.startswith("!") and kind != _VIEW]
    told = [_exported(value) for value in results]
    return Signature(
        function=str(ir.StringAttr(called.attributes["sym_name"]).value),
        arguments=tuple(arguments.values()),
        results=tuple(one.element for one in told),
        shapes=tuple(one.shape or () for one in told),
        scopes=_scopes(top),
        imports=tuple(name for name, op in functions.items() if not list(op.regions[0].blocks)),
        foreign=tuple(dict.fromkeys(foreign)),
    )


def _plain(argument: Any) -> Argument:
    """An argument that is no tensor in the function: a number, or a buffer that it does not read."""
    return _UNREAD if str(argument.type) == _VIEW else Argument(None, str(argument.type))


def signature_in(text: str, *, function: str | None) -> Signature:
    """The signature in a program of any phase from its preprocessing on."""
    with ir.Context() as context:
        module = parse(text, context)  # its operations live as long as it does
        top = list(module.body.operations)
        functions = [op.operation for op in top if op.operation.name == "util.func"]
        named = {str(ir.StringAttr(op.attributes["sym_name"]).value): op for op in functions}
        return read_signature(named, top, function=function)


def _choose(functions: Mapping[str, Any], wanted: str | None) -> str:
    public = [
        name.removesuffix(ASYNC)
        for name, op in functions.items()
        if "sym_visibility" not in op.attributes or ir.StringAttr(op.attributes["sym_visibility"]).value == "public"
    ]
    public = list(dict.fromkeys(public))
    listed = ", ".join(public[:_LISTED])
    if wanted is None:
        if len(public) == 1:
            return public[0]
        if "main" in public:
            return "main"
        if not public:
            raise UsageError("the model has no function that can be called.", remedy="Make one of them public.")
        raise UsageError(f"the model has {len(public)} functions.", remedy=f"Choose one by --function: {listed}.")
    if wanted.removesuffix(ASYNC) not in public:
        raise UsageError(f"the model has no function {wanted!r}.", remedy=f"It has: {listed or 'none'}.")
    return wanted.removesuffix(ASYNC)


def _tensor(kind: Any) -> Argument:
    shaped = ir.RankedTensorType(kind)
    sizes = tuple(None if shaped.is_dynamic_dim(i) else int(shaped.shape[i]) for i in range(shaped.rank))
    return Argument(sizes, str(shaped.element_type))


def _scopes(top: Iterable[Any]) -> tuple[str, ...]:
    """Of the parameters that globals begin as: `#flow.parameter.named<"SCOPE"::"KEY">`, or without a scope.

    Exporters write `#stream.parameter.named`.
    """
    found: dict[str, None] = {}
    for op in top:
        if op.operation.name != "util.global" or "initial_value" not in op.operation.attributes:
            continue
        try:
            text = str(op.operation.attributes["initial_value"])
        except TypeError:  # constants of complex numbers, which IREE's bindings have no class for
            continue
        if text.startswith(_PARAMETERS):
            scope, scoped, _ = text.partition("<")[2].partition("::")
            found[scope.strip('"') if scoped else ""] = None
    return tuple(found)


def _exported(value: Any) -> Argument:
    """The tensor or number of a result."""
    if str(value.type) != _VIEW:
        return Argument(None, str(value.type))
    owner = value.owner
    if not isinstance(owner, ir.Operation | ir.OpView) or owner.operation.name != "hal.tensor.export":
        return Argument(None, "")
    return _tensor(owner.operation.operands[0].type)
