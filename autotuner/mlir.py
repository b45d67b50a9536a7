"""Reads MLIR with the compiler's own bindings: the root operation of a dispatch, markers, configurations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu, linalg

from autotuner.errors import EnvironmentFailure

DIALECTS = (iree_codegen, iree_gpu, linalg)
"""Importing them registers their attributes and operations with every context."""

INNER_TILED = "iree_codegen.inner_tiled"


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The root operation of a dispatch, as the compiler has it when a spec is applied."""

    op: str
    maps: tuple[str, ...]
    operand_types: tuple[str, ...]
    element_types: tuple[str, ...]
    loops: tuple[int, ...]
    batch: tuple[int, ...]
    """The batch, m, n and k loops, as indices into `loops`."""
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]
    lowering_config: str
    translation_info: str

    def sizes(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self.loops[d] for d in dims)

    @property
    def work(self) -> int:
        product = 1
        for size in self.loops:
            product *= size
        return product


@dataclass(frozen=True, slots=True)
class CpuFacts:
    """What the compiler knows of the processor it compiles for."""

    vector_bytes: int
    vector_registers: int


@dataclass(frozen=True, slots=True)
class Applied:
    """One operation that carries the marker, with the configuration that it really has."""

    op: str
    lowering_config: str
    translation_info: str


def parse(text: str, context: ir.Context) -> ir.Module:
    try:
        return ir.Module.parse(text, context=context)
    except ir.MLIRError as error:
        raise EnvironmentFailure(
            f"the installed IREE cannot read back its own output: {str(error)[:200]}",
            remedy="Check with `autotune doctor` that compiler and bindings are both 3.13.0.",
        ) from error


def same_attributes(pairs: Iterable[tuple[str, str]]) -> list[bool]:
    """For each pair: do the two attribute texts mean the same (spaces, order of keys and defaults aside)?"""
    with ir.Context():
        return [left == right or ir.Attribute.parse(left) == ir.Attribute.parse(right) for left, right in pairs]


def walk(op: Any) -> Iterator[Any]:
    """Every operation below this one, outermost first."""
    for region in op.regions:
        for block in region.blocks:
            for child in block.operations:
                yield child.operation
                yield from walk(child.operation)


def read_root(text: str) -> Dispatch | None:
    """The contraction-like root operation with the most work, or None when no dispatch has one.

    `text` is what `--compile-to=executable-configurations --iree-codegen-add-tuner-attributes` printed.
    """
    with ir.Context() as context:
        found = []
        for op in walk(parse(text, context).operation):
            if "root_op" in op.attributes and "lowering_config" in op.attributes:
                dispatch = _dispatch(op)
                if dispatch is not None:
                    found.append(dispatch)
    return max(found, key=lambda d: d.work, default=None)


def read_cpu_facts(text: str) -> CpuFacts:
    """Vector width and registers, from the executable target that the compiler chose."""
    with ir.Context() as context:
        for op in walk(parse(text, context).operation):
            if op.name == "hal.executable.variant":
                target = str(op.attributes["target"])
                table = ir.DictAttr(ir.Attribute.parse(target[target.index("{") : target.rindex("}") + 1]))
                width = ir.IntegerAttr(table["native_vector_size"]).value
                triple = ir.StringAttr(table["target_triple"]).value
                features = ir.StringAttr(table["cpu_features"]).value.split(",")
                x86 = triple.startswith(("x86_64", "i386", "i686"))
                few = x86 and "+avx512f" not in features
                return CpuFacts(vector_bytes=int(width), vector_registers=16 if few else 32)
    raise EnvironmentFailure(
        "iree-compile made no executable for this problem.", remedy="Run `autotune doctor` and check --flag."
    )


def read_applied(texts: Iterable[str], *, marker: str) -> list[Applied]:
    """Every operation of the dumped configurations that carries the marker."""
    found = []
    with ir.Context() as context:
        for text in texts:
            if marker not in text:  # spares the parser the dispatches that only pack and unpack
                continue
            for op in walk(parse(text, context).operation):
                if marker in op.attributes:
                    config = op.attributes.get("lowering_config", "")
                    found.append(Applied(op.name, str(config), _translation_info(op)))
    return found


def tile_levels(lowering_config: str) -> dict[str, tuple[int, ...]]:
    """The levels of an `#iree_cpu.lowering_config<...>`: level name to tile sizes."""
    with ir.Context():
        body = lowering_config[lowering_config.index("<") + 1 : lowering_config.rindex(">")]
        table = ir.DictAttr(ir.Attribute.parse("{" + body + "}"))
        levels = {}
        for i in range(len(table)):
            entry = table[i]
            if isinstance(entry.attr, ir.ArrayAttr):
                levels[entry.name] = tuple(_tile(size) for size in entry.attr)
            elif isinstance(entry.attr, ir.DenseI64ArrayAttr):
                levels[entry.name] = tuple(int(v) for v in entry.attr)
    return levels


def _tile(size: Any) -> int:
    """A tile size; a scalable one stands in brackets of its own."""
    return _tile(size[0]) if isinstance(size, ir.ArrayAttr) else int(ir.IntegerAttr(size).value)


def _dispatch(op: Any) -> Dispatch | None:
    shapes = [ir.ShapedType(v.type) for v in op.operands if isinstance(v.type, ir.ShapedType)]
    if len(shapes) != 3 or not all(s.has_static_shape for s in shapes):
        return None
    if op.name == INNER_TILED:
        maps = [ir.AffineMapAttr(a).value for a in ir.ArrayAttr(op.attributes["indexing_maps"])]
        roles = _roles(maps)
    else:
        dims = linalg.infer_contraction_dimensions(op)
        if dims is None:
            return None
        maps = list(linalg.get_indexing_maps(op))
        maps = [ir.AffineMapAttr(m).value if isinstance(m, ir.Attribute) else m for m in maps]
        roles = tuple(tuple(int(d) for d in group) for group in (dims.batch, dims.m, dims.n, dims.k))
    batch, m, n, k = roles
    return Dispatch(
        op=op.name,
        maps=tuple(f"affine_map<{_map_text(x)}>" for x in maps),
        operand_types=tuple(str(s) for s in shapes),
        element_types=tuple(str(s.element_type) for s in shapes),
        loops=_loops(maps, shapes),
        batch=batch,
        m=m,
        n=n,
        k=k,
        lowering_config=str(op.attributes["lowering_config"]),
        translation_info=_translation_info(op),
    )


def _map_text(value: Any) -> str:
    text = str(value)
    return text[text.index("<") + 1 : text.rindex(">")] if text.startswith("affine_map<") else text


def _positions(value: Any) -> list[int | None]:
    """The loop that each result of an indexing map reads; None where it is not a plain loop."""
    results = []
    for expr in value.results:
        results.append(int(expr.position) if isinstance(expr, ir.AffineDimExpr) else None)
    return results


def _loops(maps: list[Any], shapes: list[Any]) -> tuple[int, ...]:
    loops = [1] * maps[0].n_dims
    for value, shape in zip(maps, shapes, strict=True):
        for axis, position in enumerate(_positions(value)):
            if position is not None:
                loops[position] = int(shape.shape[axis])
    return tuple(loops)


def _roles(maps: list[Any]) -> tuple[tuple[int, ...], ...]:
    lhs, rhs, out = ({p for p in _positions(m) if p is not None} for m in maps)
    groups = (lhs & rhs & out, (lhs & out) - rhs, (rhs & out) - lhs, (lhs & rhs) - out)
    return tuple(tuple(sorted(group)) for group in groups)


def _translation_info(op: Any) -> str:
    parent = op.parent
    while parent is not None:
        if "translation_info" in parent.operation.attributes:
            return str(parent.operation.attributes["translation_info"])
        parent = parent.operation.parent
    return ""
