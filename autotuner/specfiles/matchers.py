"""What a matcher of a spec accepts: in words, and as a key that tells whether two accept the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir

from autotuner.iree.mlir import ROLES, contraction_roles, positions, walk
from autotuner.patterns.graph import is_main

_STRUCTURE = "transform.iree.match."
_KINDS = ("contraction", "convolution", "attention", "online_attention")
_CONSTANT, _YIELD, _INCLUDE = "transform.param.constant", "transform.yield", "transform.include"
_GENERAL = ("transform.iree.match.dim_bounds", "transform.iree.match.dim_is_multiple_of")
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
    return {symbol(op): op for op in _body(module) if "sym_name" in op.attributes}


def symbol(op: Any) -> str:
    return str(ir.StringAttr(op.attributes["sym_name"]).value)


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
    first = {op.name: op for op in reversed(ops)}
    asked = [op for op in ops if op.name == f"{_STRUCTURE}cast_compatible_type"]
    kind, types = "any operation", tuple(str(op.attributes["target_type"]) for op in asked)
    if (named := first.get("transform.match.operation_name")) is not None:
        kind = ", ".join(ir.StringAttr(name).value for name in ir.ArrayAttr(named.attributes["op_names"]))
    elif (graph := first.get(f"{_STRUCTURE}cast_compatible_dag_from_root")) is not None:
        kind, types = _dag(graph)
    return Matches(kind, (), types, bounds, exact=bool(types) and not bounds and not any("?" in t for t in types))


def _layout(structure: Any) -> str:
    """Which operands of a product are transposed; empty where none is, or where it is no plain product."""
    maps = _maps(structure)
    if not maps:
        return ""
    _, m, n, k = contraction_roles(maps)
    if not len(m) == len(n) == len(k) == 1:
        return ""
    lhs, rhs = (positions(one)[-1] for one in maps[:2])
    transposed = ("t" if lhs in m else "n") + ("t" if rhs in k else "n")
    return "" if transposed == "nn" else transposed


def _maps(structure: Any) -> list[Any]:
    """Those that a matcher of products asks for; none where it asks for none, or for something else."""
    if structure.name != f"{_STRUCTURE}contraction" or "indexing_maps" not in structure.attributes:
        return []
    return [ir.AffineMapAttr(entry).value for entry in ir.ArrayAttr(structure.attributes["indexing_maps"])]


def _sizes(ops: list[Any], structure: Any, roles: list[str]) -> dict[str, tuple[int, ...]]:
    """By role, as they are asked for; a role that the operation's own maps have no loop for has none."""
    maps = _maps(structure)
    loops_of = zip(roles, contraction_roles(maps), strict=False) if maps else ()
    sizes: dict[str, tuple[int, ...]] = {role: () for role, loops in loops_of if not loops}
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
    """The same for two matchers that accept the same, whatever constants they yield; of those that ask for one size of
    everything, whatever the order is in which they ask.

    `named` are the symbols of the matcher's module: what a matcher includes is a part of it.
    """
    return _exact_key(matcher) or _text(matcher, named, without=(_CONSTANT, _YIELD))


def body_key(sequence: Any, named: Mapping[str, Any]) -> str:
    """The same for two named sequences that do the same, in the same order."""
    return f"{sequence.attributes['function_type']}\n{_text(sequence, named)}"


def _text(sequence: Any, named: Mapping[str, Any], without: tuple[str, ...] = ()) -> str:
    """The operations of a sequence, whatever it and its values are called, with all that it includes."""
    texts = []
    for op in [op for op in _body(sequence) if op.name not in without]:
        text = op.get_asm(use_local_scope=True)
        if op.name == _INCLUDE:
            target = ir.SymbolRefAttr(op.attributes["target"]).value[0]
            text = text.replace(f"@{target}", body_key(named[target], named)) if target in named else text
        texts.append(text)
    return "\n".join(texts)


def _body(op: Any) -> list[Any]:
    return [child.operation for region in op.regions for block in region.blocks for child in block.operations]


def _type_names(structure: Any) -> list[str]:
    names = ("lhs_type", "rhs_type", "query_type", "key_type", "value_type", "scale_type", "output_type")
    return [name for name in names if name in structure.attributes]


def _bound(op: Any, structure: Any) -> str:
    where = _where(op, structure)
    if op.name.endswith("dim_is_multiple_of"):
        return f"{where} % {ir.IntegerAttr(op.attributes['size']).value} = 0"
    names = [name for name in ("lower_bound", "upper_bound") if name in op.attributes]
    bounds = {name: ir.IntegerAttr(op.attributes[name]).value for name in names}
    if len(bounds) == 2:
        return f"{bounds['lower_bound']}<={where}<={bounds['upper_bound']}"
    return (
        f"{where}<={bounds['upper_bound']}" if "upper_bound" in bounds else f"{where}>={bounds.get('lower_bound', 0)}"
    )


def _where(op: Any, structure: Any) -> str:
    """The dimension that a bound is for: by its role where that can be told, else by operand and number."""
    dim = ir.IntegerAttr(op.attributes["dim"]).value
    owner = op.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "transform.get_operand":
        return f"dimension {dim}"
    number = next(iter(ir.DenseI64ArrayAttr(owner.attributes["raw_position_list"])), 0)
    maps = [] if structure is None else _maps(structure)
    if 0 <= number < len(maps) and dim < len(maps[number].results):
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
