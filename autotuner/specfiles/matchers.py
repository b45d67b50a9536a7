"""What a matcher of a spec accepts: in words, and as a key that tells whether two accept the same."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from iree.compiler import ir

from autotuner.iree.mlir import ROLES, contraction_roles, positions, walk
from autotuner.patterns.graph import is_main

_STRUCTURE = "transform.iree.match."
_KINDS = ("contraction", "convolution", "attention", "online_attention")
_CONSTANT, _YIELD = "transform.param.constant", "transform.yield"
_GENERAL = ("transform.iree.match.dim_bounds", "transform.iree.match.dim_is_multiple_of")
_NAMING = ("sym_name", "sym_visibility")
_EQUAL = f"{_STRUCTURE}dims_equal"
_UNSAID = f"{_STRUCTURE}has_no_lowering_config"
"""What many ask beside: which operations are meant does not depend on it."""


@dataclass(frozen=True, slots=True)
class Matches:
    """What one matcher accepts."""

    kind: str
    """contraction, convolution, online_attention, dag, or the name of an operation."""
    sizes: tuple[tuple[str, tuple[int, ...]], ...]
    """The sizes that are asked for, by role; a role that is missing may have any."""
    types: tuple[str, ...]
    """Element types, or whole types where the matcher asks for those."""
    bounds: tuple[str, ...]
    exact: bool
    """It asks for one size of everything: such a matcher goes before those that take a range."""
    layout: str = ""
    """Of a product whose operands are transposed: `nt`, `tn` or `tt`, as `--layout` has it."""

    @property
    def text(self) -> str:
        shown = {role: ["?" if size < 0 else str(size) for size in dims] for role, dims in self.sizes if dims}
        sizes = " ".join(f"{role}={'x'.join(dims)}" for role, dims in shown.items())
        parts = (self.kind, sizes, ", ".join(self.bounds), "·".join(self.types), self.layout)
        return " ".join(part for part in parts if part)

    def to_json(self) -> dict[str, Any]:
        sizes = {role: list(dims) for role, dims in self.sizes}
        types, bounds = list(self.types), list(self.bounds)
        return {"kind": self.kind, "sizes": sizes, "types": types, "bounds": bounds, "exact": self.exact}


def symbols(module: Any) -> dict[str, Any]:
    """The operations of a module that have a name."""
    return {
        ir.StringAttr(op.operation.attributes["sym_name"]).value: op.operation
        for op in module.regions[0].blocks[0].operations
        if "sym_name" in op.operation.attributes
    }


def describe(matcher: Any) -> Matches:
    """Reads a matcher; one that no rule here knows is described by the operations that it asks for."""
    ops = [op for op in walk(matcher) if op.name not in (_CONSTANT, _YIELD)]
    structure = next((op for op in ops if op.name.removeprefix(_STRUCTURE) in _KINDS), None)
    bounds = tuple(_bound(op, structure) for op in ops if op.name in _GENERAL)
    if structure is not None:
        kind = structure.name.removeprefix(_STRUCTURE)
        roles = [*ROLES["attention" if "attention" in kind else kind], "strides", "dilations"]
        sizes = _sizes(ops, structure, roles)
        types = tuple(str(structure.attributes[name]) for name in _type_names(structure))
        wanted = roles[: len(structure.results)]
        ordered = tuple((role, sizes[role]) for role in wanted if role in sizes)
        exact = not bounds and len(ordered) == len(wanted)
        return Matches(kind, ordered, types, bounds, exact, _layout(structure))
    asked = [op for op in ops if op.name == f"{_STRUCTURE}cast_compatible_type"]
    types = tuple(str(op.attributes["target_type"]) for op in asked)
    named = next((op for op in ops if op.name == "transform.match.operation_name"), None)
    if named is not None:
        kind = ", ".join(ir.StringAttr(name).value for name in ir.ArrayAttr(named.attributes["op_names"]))
    elif (
        graph := next((op for op in ops if op.name == f"{_STRUCTURE}cast_compatible_dag_from_root"), None)
    ) is not None:
        kind, types = _dag(graph)
    else:
        kind = "any operation"
    return Matches(kind, (), types, bounds, exact=bool(types) and not bounds and not any("?" in t for t in types))


def _layout(structure: Any) -> str:
    """Which operands of a product are transposed; empty where none is, or where it is no plain product."""
    if structure.name != f"{_STRUCTURE}contraction" or "indexing_maps" not in structure.attributes:
        return ""
    maps = [ir.AffineMapAttr(entry).value for entry in ir.ArrayAttr(structure.attributes["indexing_maps"])]
    _, m, n, k = contraction_roles(maps)
    if not len(m) == len(n) == len(k) == 1:
        return ""
    lhs, rhs = (positions(one)[-1] for one in maps[:2])
    transposed = ("t" if lhs in m else "n") + ("t" if rhs in k else "n")
    return "" if transposed == "nn" else transposed


def _sizes(ops: list[Any], structure: Any, roles: list[str]) -> dict[str, tuple[int, ...]]:
    """By role, as they are asked for; a role that the operation's own maps have no loop for has none."""
    sizes: dict[str, tuple[int, ...]] = {}
    if structure.name == f"{_STRUCTURE}contraction" and "indexing_maps" in structure.attributes:
        maps = [ir.AffineMapAttr(entry).value for entry in ir.ArrayAttr(structure.attributes["indexing_maps"])]
        sizes = {role: () for role, loops in zip(roles, contraction_roles(maps), strict=False) if not loops}
    for op in ops:
        if op.name == _EQUAL:
            value = ir.OpResult(op.operands[0])
            if value.owner == structure and value.result_number < len(roles):
                sizes[roles[value.result_number]] = tuple(ir.DenseI64ArrayAttr(op.attributes["expected_values"]))
    return sizes


def _exact_key(matcher: Any) -> str | None:
    """Of a matcher that asks for one operation with one size of everything, in whatever words; None of any other."""
    ops = [op for op in _body(matcher) if op.name not in (_CONSTANT, _YIELD, _UNSAID)]
    structure = next((op for op in ops if op.name.removeprefix(_STRUCTURE) in _KINDS), None)
    if structure is None or any(op.name != _EQUAL for op in ops if op != structure):
        return None
    found = describe(matcher)
    if not found.exact:
        return None
    asked = [f"{name}={structure.attributes[name]}" for name in sorted(structure.attributes)]
    return " ".join([structure.name, *asked, *(f"{role}={dims}" for role, dims in found.sizes)])


def key(matcher: Any, named: Mapping[str, Any]) -> str:
    """The same for two matchers that accept the same, whatever constants they yield and in which order they ask.

    `named` are the symbols of the matcher's module: what a matcher includes is a part of it.
    """
    if (exact := _exact_key(matcher)) is not None:
        return exact
    keys = _Keys(named)
    return "\n".join(sorted(keys.op(op) for op in _body(matcher) if op.name not in (_CONSTANT, _YIELD)))


def body_key(sequence: Any, named: Mapping[str, Any]) -> str:
    """The same for two named sequences that do the same, in the same order."""
    return _Keys(named).sequence(sequence)


def _body(op: Any) -> list[Any]:
    return [child.operation for region in op.regions for block in region.blocks for child in block.operations]


@dataclass(frozen=True)
class _Keys:
    """Operations as text that does not depend on what their values are called."""

    named: Mapping[str, Any]
    known: dict[Any, str] = field(default_factory=dict)

    def sequence(self, sequence: Any) -> str:
        return "\n".join([str(sequence.attributes["function_type"]), *map(self.op, _body(sequence))])

    def op(self, op: Any) -> str:
        """The operation with what it works on, down to the arguments."""
        if op not in self.known:
            attributes = [f"{name}={op.attributes[name]}" for name in sorted(op.attributes) if name not in _NAMING]
            if op.name == "transform.include":
                target = ir.SymbolRefAttr(op.attributes["target"]).value
                if len(target) == 1 and target[0] in self.named:
                    attributes = [self.sequence(self.named[target[0]])]
            parts = (
                map(self.value, op.operands),
                attributes,
                map(self.op, _body(op)),
                (str(v.type) for v in op.results),
            )
            self.known[op] = " ".join([op.name, *(f"({'; '.join(part)})" for part in parts)])
        return self.known[op]

    def value(self, value: Any) -> str:
        if isinstance(value.owner, ir.Block):
            return f"argument {ir.BlockArgument(value).arg_number}:{value.type}"
        # Hashed: values that are used twice would double the text at every step.
        origin = hashlib.sha256(self.op(value.owner).encode()).hexdigest()
        return f"{ir.OpResult(value).result_number} of {origin}"


def _type_names(structure: Any) -> list[str]:
    names = ("lhs_type", "rhs_type", "query_type", "key_type", "value_type", "scale_type", "output_type")
    return [name for name in names if name in structure.attributes]


def _bound(op: Any, structure: Any) -> str:
    where = _where(op, structure)
    if op.name.endswith("dim_is_multiple_of"):
        return f"{where} % {ir.IntegerAttr(op.attributes['size']).value} = 0"
    low, high = (
        ir.IntegerAttr(op.attributes[name]).value if name in op.attributes else None
        for name in ("lower_bound", "upper_bound")
    )
    if low is not None and high is not None:
        return f"{low}<={where}<={high}"
    if high is not None:
        return f"{where}<={high}"
    return f"{where}>={low or 0}"


def _where(op: Any, structure: Any) -> str:
    """The dimension that a bound is for: by its role where that can be told, else by operand and number."""
    dim = ir.IntegerAttr(op.attributes["dim"]).value
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "transform.get_operand":
        return f"dimension {dim}"
    number = next(iter(ir.DenseI64ArrayAttr(owner.attributes["raw_position_list"])), 0)
    if (
        structure is not None
        and structure.name == f"{_STRUCTURE}contraction"
        and "indexing_maps" in structure.attributes
    ):
        maps = [ir.AffineMapAttr(entry).value for entry in ir.ArrayAttr(structure.attributes["indexing_maps"])]
        if 0 <= number < len(maps) == 3 and dim < len(maps[number].results):
            loop = positions(maps[number])[dim]
            for role, loops in zip(ROLES["contraction"], contraction_roles(maps), strict=True):
                if loop in loops:
                    return role
    return f"operand {number} dimension {dim}"


def _dag(graph: Any) -> tuple[str, tuple[str, ...]]:
    """A graph is told by the operation in it that does the work. Where others round its result or add to it, its types
    are those of what the graph takes and gives."""
    ops = [op for op in _body(graph) if not op.name.startswith("transform.")]
    if not ops:
        return "dag", ()
    root = ops[-1]
    work = next((op for op in reversed(ops) if is_main(op)), root)
    taken = root.operands if work == root else graph.regions[0].blocks[0].arguments
    return work.name, tuple(str(value.type) for value in (*taken, *root.results))
