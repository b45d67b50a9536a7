"""What the function of a program takes and gives: read where its dispatches are formed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

from iree.compiler import ir

from autotuner.errors import UsageError
from autotuner.iree.mlir import parse, walk

ASYNC = "$async"
"""What the compiler adds to the name of a function that it makes asynchronous: the body is there."""
_PARAMETERS = ("#flow.parameter.named<", "#stream.parameter.named<")
_LISTED = 12
_VIEW, _BUFFER, _FENCE = "!hal.buffer_view", "!hal.buffer", "!hal.fence"
_FENCED = "coarse-fences"
"""The model of a call whose last two arguments are fences: IREE's tools, which read it in the reflection, add them."""

Given = TypeVar("Given")
Role = Literal["read", "storage", "transients", "unread"]
"""What the function does with an argument: in storage it writes a result (`iree.abi.output`), in storage for transients
what it needs on the way (`iree.abi.transients`)."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An input of the program's function: a tensor, or a number where it has no shape."""

    shape: tuple[int | None, ...] | None
    element: str
    role: Role = "read"
    buffer: bool = False
    """It is passed as a bare `!hal.buffer`: `&SHAPExTYPE` in the words of IREE's tools."""

    @property
    def text(self) -> str:
        sizes = ["?" if size is None else str(size) for size in self.shape or ()]
        return "x".join([*sizes, self.element])

    @property
    def looked_at(self) -> bool:
        """Whether the runtime holds what is given against its shape and type."""
        return self.role in ("read", "storage")

    @property
    def left_out(self) -> bool:
        """Whether a caller may do without it."""
        return self.role in ("storage", "transients")

    @property
    def dynamic(self) -> bool:
        return self.shape is None or None in self.shape


_TRANSIENTS = Argument((1,), "i8", "transients")
_UNREAD = Argument((1,), "f32", "unread")
"""For a tensor that the function does not look at: its type is not known any more, and any will do."""


@dataclass(frozen=True, slots=True)
class Signature:
    """What a program's function takes and gives."""

    function: str
    arguments: tuple[Argument, ...]
    results: tuple[str, ...]
    """The element type of each; empty where it is not told."""
    shapes: tuple[tuple[int | None, ...], ...] = ()
    """Of each result."""
    scopes: tuple[str, ...] = ()
    """Of the parameters that the program loads from files."""
    imports: tuple[str, ...] = ()
    """Functions of other modules, which the program calls and does not have."""
    foreign: tuple[str, ...] = ()
    """The types of arguments and results that IREE's tools can neither make nor read."""

    def placed(self, given: Sequence[Given], *, made: Callable[[Argument], Given]) -> Sequence[Given]:
        """What the caller gave, one for each argument: storage may be left out, all of it."""
        stored = [one for one in self.arguments if one.left_out]
        if not given or len(given) != len(self.arguments) - len(stored) or any(one.dynamic for one in stored):
            return given
        rest = iter(given)
        return [made(one) if one.left_out else next(rest) for one in self.arguments]


def read_signature(functions: Mapping[str, Any], top: Sequence[Any], *, function: str | None) -> Signature:
    """That of the function that is asked for, or of the one that can be meant."""
    name = _choose(functions, function)
    called = functions.get(name, functions.get(name + ASYNC))
    body = functions.get(name + ASYNC, called)
    given = list(body.regions[0].blocks[0].arguments)
    tensors: dict[int, Argument] = {}
    results: list[Any] = []
    for op in walk(body):
        if op.name == "hal.tensor.import":
            tensors.update({n: _tensor(op.results[0].type) for n, one in enumerate(given) if one == op.operands[0]})
        elif op.name == "hal.tensor.alias":
            # Its operands: the tensor, the sizes of that, and the storage.
            stored = replace(_tensor(op.operands[0].type), role="storage")
            for number, one in enumerate(given):
                if one in list(op.operands)[1:] and _held(one):
                    tensors.setdefault(number, stored)
        elif op.name == "hal.tensor.transients":
            tensors |= {n: _TRANSIENTS for n, one in enumerate(given) if one in list(op.operands)[1:] and _held(one)}
        elif op.name == "util.return":
            results = list(op.operands)
    arguments = {
        number: replace(tensors.get(number) or _plain(one), buffer=str(one.type) == _BUFFER)
        for number, one in enumerate(given)
        if str(one.type) != _FENCE
    }
    foreign = [str(one.type) for n, one in enumerate(given) if n in arguments and n not in tensors and not _made(one)]
    foreign += [_FENCE] * (not _fences_are_added(called))
    foreign += [str(one.type) for one in results if str(one.type).startswith("!") and str(one.type) != _VIEW]
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


def _held(argument: Any) -> bool:
    """Whether it is memory; the others that stand beside it are sizes."""
    return str(argument.type) in (_VIEW, _BUFFER)


def _plain(argument: Any) -> Argument:
    """One that is no tensor for the function: a number, or a buffer that it does not look at."""
    return _UNREAD if _held(argument) else Argument(None, str(argument.type))


def _made(argument: Any) -> bool:
    """Whether an argument that is no tensor can be given: a number, or any buffer where nobody reads it."""
    kind = str(argument.type)
    return not kind.startswith("!") or kind == _VIEW or (kind == _BUFFER and not list(argument.uses))


def _fences_are_added(function: Any) -> bool:
    """Whether a function has no fences, or those that IREE's tools know of: two, behind all else."""
    kinds = [str(one.type) for one in function.regions[0].blocks[0].arguments]
    if _FENCE not in kinds:
        return True
    if "iree.reflection" not in function.attributes:
        return False
    told = ir.DictAttr(function.attributes["iree.reflection"])
    model = str(ir.StringAttr(told["iree.abi.model"]).value) if "iree.abi.model" in told else ""
    return model == _FENCED and kinds[-2:] == [_FENCE, _FENCE] and _FENCE not in kinds[:-2]


def signature_in(text: str, *, function: str | None) -> Signature:
    """The same of a program in any phase from its preprocessing on."""
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
    """The tensor behind a result, or the number that it is."""
    if str(value.type) != _VIEW:
        return Argument(None, str(value.type))
    owner = value.owner
    if not isinstance(owner, ir.Operation | ir.OpView) or owner.operation.name != "hal.tensor.export":
        return Argument(None, "")
    return _tensor(owner.operation.operands[0].type)
