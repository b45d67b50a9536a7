"""Reads what a spec's matcher accepts: its sizes where it is a plain one, and a key that equal matchers share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from autotuner.iree.mlir import ROLES, symbol, walk

_STRUCTURE = "transform.iree.match."
_KINDS = ("contraction", "convolution", "attention", "online_attention")
_RANGES = (f"{_STRUCTURE}dim_bounds", f"{_STRUCTURE}dim_is_multiple_of")
_TYPE = f"{_STRUCTURE}cast_compatible_type"
_CONSTANT, _YIELD = "transform.param.constant", "transform.yield"


@dataclass(frozen=True, slots=True)
class Matches:
    """The operations that a matcher accepts."""

    kind: str = "matcher"
    """contraction, convolution, attention, online_attention, or another operation."""
    sizes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The required sizes, by role; a missing role may have any size."""
    exact: bool = False
    """It requires one size of everything: such a matcher goes before those of a range."""

    @property
    def text(self) -> str:
        sizes = [f"{role}={'x'.join(map(str, dims))}" for role, dims in self.sizes if dims]
        return " ".join([self.kind, *sizes])

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "sizes": {role: list(dims) for role, dims in self.sizes}, "exact": self.exact}


def symbols(module: Any) -> dict[str, Any]:
    """The named operations of a module."""
    return {symbol(op): op for op in _body(module) if "sym_name" in op.attributes}


def describe(matcher: Any) -> Matches:
    """Reads a matcher; of an unusual one only whether it takes a range."""
    ops = list(walk(matcher))
    ranges = any(op.name in _RANGES for op in ops)
    structure = next((op for op in ops if op.name.removeprefix(_STRUCTURE) in _KINDS), None)
    if structure is None:
        types = [str(op.attributes["target_type"]) for op in ops if op.name == _TYPE]
        return Matches(exact=bool(types) and not ranges and not any("?" in type for type in types))
    kind = structure.name.removeprefix(_STRUCTURE)
    roles = [*ROLES["attention" if "attention" in kind else kind], "strides", "dilations"][: len(structure.results)]
    asked = _sizes(ops, structure)
    sizes = tuple((role, asked[number]) for number, role in enumerate(roles) if number in asked)
    return Matches(kind, sizes, exact=not ranges and len(sizes) == len(roles))


def _sizes(ops: list[Any], structure: Any) -> dict[int, tuple[int, ...]]:
    """The sizes by the number of the queried result."""
    sizes = {}
    for op in [op for op in ops if op.name == f"{_STRUCTURE}dims_equal"]:
        value = ir.OpResult(op.operands[0])
        if value.owner == structure:
            sizes[value.result_number] = tuple(ir.DenseI64ArrayAttr(op.attributes["expected_values"]))
    return sizes


def key(matcher: Any) -> str:
    """A key of what a matcher asks, in order, whatever constants it yields."""
    return _text(matcher, without=(_CONSTANT, _YIELD))


def body_key(sequence: Any) -> str:
    """A key of what a named sequence does, in order."""
    return f"{sequence.attributes['function_type']}\n{_text(sequence)}"


def _text(sequence: Any, without: tuple[str, ...] = ()) -> str:
    """A sequence's operations as text, independent of names."""
    return "\n".join(op.get_asm(use_local_scope=True) for op in _body(sequence) if op.name not in without)


def _body(op: Any) -> list[Any]:
    return [child.operation for region in op.regions for block in region.blocks for child in block.operations]
