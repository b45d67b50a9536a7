"""Reads MLIR with the compiler's own bindings: the root operation of a dispatch, markers, configurations."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal

from iree.compiler import ir
from iree.compiler.dialects import (
    iree_codegen,
    iree_gpu,  # noqa: F401  (to import a dialect registers its attributes and operations with every context)
    linalg,
)

from autotuner.errors import EnvironmentFailure

INNER_TILED = "iree_codegen.inner_tiled"
ATTENTION = "iree_linalg_ext.online_attention"
SCALED = "arith.scaling_extf"
"""What products of numbers with shared scales (MX) begin with."""
_SCALED_BODY = [SCALED, SCALED, "arith.mulf", "arith.addf", "linalg.yield"]
_UNMASKED_MAPS = 7
"""Query, key, value, scale, output, maximum, sum; a mask makes it eight."""


Kind = Literal["contraction", "convolution", "attention"]
ROLES: Mapping[Kind, tuple[str, ...]] = {
    "contraction": ("batch", "m", "n", "k"),
    "convolution": ("batch", "image", "channel", "filter", "input", "depth"),
    "attention": ("batch", "m", "n", "k1", "k2"),
}
"""The roles of each kind's loops, in the order of the compiler's matchers."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The root operation of a dispatch, at the point where specs are applied."""

    op: str
    kind: Kind
    maps: tuple[str, ...]
    operand_types: tuple[str, ...]
    element_types: tuple[str, ...]
    loops: tuple[int, ...]
    roles: tuple[tuple[str, tuple[int, ...]], ...]
    """The loops of each role, as indices into `loops`."""
    outputs: tuple[tuple[int, ...], ...]
    """The loops of each result's dimensions."""
    lowering_config: str
    translation_info: str
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    decomposition_config: str = ""
    dynamic: tuple[int, ...] = ()
    """Loops whose sizes are known only when the program runs; in `loops` they are 1 until `sized` says more."""

    def sized(self, sizes: Mapping[int, int]) -> Dispatch:
        """The dispatch with sizes for its dynamic loops."""
        loops = tuple(sizes.get(d, size) if d in self.dynamic else size for d, size in enumerate(self.loops))
        return replace(self, loops=loops)

    def dims(self, role: str) -> tuple[int, ...]:
        return dict(self.roles)[role]

    def sizes(self, role: str) -> tuple[int, ...]:
        return tuple(self.loops[d] for d in self.dims(role))

    @property
    def work(self) -> int:
        return math.prod(self.loops)

    @property
    def packed(self) -> bool:
        """Whether its operands are packed into tiles, so that it has inner loops."""
        return self.op in ("linalg.mmt4d", "linalg.batch_mmt4d", INNER_TILED)

    @property
    def typed(self) -> bool:
        """Whether matchers go by its name and operand types, because none knows its structure."""
        masked = self.kind == "attention" and len(self.maps) > _UNMASKED_MAPS
        return self.op == INNER_TILED or masked

    @property
    def scaled(self) -> bool:
        """Whether it is a product of numbers and their scales, which no matcher but one of its whole form knows."""
        return self.kind == "contraction" and len(self.maps) > len(("lhs", "rhs", "out"))


@dataclass(frozen=True, slots=True)
class Applied:
    """An operation with the marker, and its configuration."""

    op: str
    lowering_config: str
    translation_info: str
    decomposition_config: str


def parse(text: str, context: ir.Context) -> ir.Module:
    try:
        return ir.Module.parse(text, context=context)
    except ir.MLIRError as error:
        raise EnvironmentFailure(
            f"the MLIR bindings cannot read what the compiler printed: {str(error)[:200]}",
            remedy="See with `autotune doctor` whether both are of the same IREE.",
        ) from error


def resources(text: str) -> str:
    """The resource section after a printed module, with the values of its constants.

    The executables that the compiler dumps lack it. Line breaks are escaped within MLIR's strings, so nothing else
    begins like it.
    """
    return "".join(text.partition("\n{-#\n")[1:])


def same_attributes(pairs: Iterable[tuple[str, str]]) -> list[bool]:
    """For each pair, whether both attribute texts mean the same (spaces, order of keys and defaults aside)."""
    with text_context():
        return [left == right or ir.Attribute.parse(left) == ir.Attribute.parse(right) for left, right in pairs]


def walk(op: Any) -> Iterator[Any]:
    """Every operation below this one, outermost first."""
    for region in op.regions:
        for block in region.blocks:
            for child in block.operations:
                yield child.operation
                yield from walk(child.operation)


def maker(value: Any, *names: str) -> Any:
    """The operation that defines a value; None: it is an argument, or the operation has none of these names."""
    if isinstance(value.owner, ir.Block):
        return None
    made = value.owner.operation
    return made if not names or made.name in names else None


def symbol(op: Any) -> str:
    """The name that an operation is referred to by."""
    return str(ir.StringAttr(op.attributes["sym_name"]).value)


def read_root(text: str) -> Dispatch | None:
    """The contraction-like root operation with the most work, or None when no dispatch has one.

    `text` is what `--compile-to=executable-configurations --iree-codegen-add-tuner-attributes` printed.
    """
    with ir.Context() as context:
        found = root_of(parse(text, context).operation)
        return found[1] if found else None


def read_function(text: str) -> str:
    """The function around the root operation, as text; empty when there is none."""
    with ir.Context() as context:
        module = parse(text, context)  # operations live as long as their module
        found = root_of(module.operation)
        return str(enclosing(found[0], "translation_info")) if found else ""


def root_of(module: Any) -> tuple[Any, Dispatch] | None:
    """The root operation of a module, and its `Dispatch`."""
    found = []
    for op in walk(module):
        if "root_op" in op.attributes and "lowering_config" in op.attributes:
            dispatch = dispatch_of(op)
            if dispatch is not None:
                found.append((op, dispatch))
    return max(found, key=lambda pair: pair[1].work, default=None)


def read_applied(texts: Iterable[str], *, marker: str) -> list[Applied]:
    """Every operation of the dumped configurations that carries the marker."""
    found = []
    with program_context() as context:
        for text in texts:
            if marker not in text:  # spares the parser the dispatches that only pack and unpack
                continue
            for op in walk(parse(text, context).operation):
                if marker in op.attributes:
                    found.append(
                        Applied(
                            op.name,
                            _attribute(op, "lowering_config"),
                            _translation_info(op),
                            _attribute(op, "decomposition_config"),
                        )
                    )
    return found


def tile_levels(lowering_config: str) -> dict[str, tuple[int, ...]]:
    """The levels of an `#iree_cpu.lowering_config<...>`: level name to tile sizes."""
    with text_context():
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


def dispatch_of(op: Any) -> Dispatch | None:
    """The `Dispatch` of a contraction, convolution or online attention of known sizes; None for others."""
    shapes = [ir.ShapedType(v.type) for v in op.operands if isinstance(v.type, ir.ShapedType)]
    if not all(s.has_rank for s in shapes):
        return None
    strides: tuple[int, ...] = ()
    dilations: tuple[int, ...] = ()
    if op.name == ATTENTION:
        kind: Kind = "attention"
        maps = affine_maps(op)
        groups = _attention_roles(maps)
    elif _is_scaled(op):
        kind, maps = "contraction", _linalg_maps(op)
        groups = contraction_roles([*maps[:2], maps[-1]])
    elif len(shapes) != 3:
        return None
    elif op.name == INNER_TILED:
        kind, maps = "contraction", affine_maps(op)
        groups = contraction_roles(maps)
    elif linalg.isa_contraction_op(op):
        kind, maps = "contraction", _linalg_maps(op)
        contraction = linalg.infer_contraction_dimensions(op)
        groups = (contraction.batch, contraction.m, contraction.n, contraction.k)
    elif linalg.isa_convolution_op(op):
        kind, maps = "convolution", _linalg_maps(op)
        window = linalg.infer_convolution_dimensions(op)
        if window is None:  # A quantised one whose zero points are operands: the bindings tell no roles.
            return None
        groups = (window.batch, window.output_image, window.output_channel)
        groups += (window.filter_loop, window.input_channel, window.depth)
        strides, dilations = (tuple(int(v) for v in values) for values in (window.strides, window.dilations))
    else:
        return None
    roles = tuple((role, tuple(int(d) for d in dims)) for role, dims in zip(ROLES[kind], groups, strict=True))
    # The scale of an attention is a number: its operand has no shape.
    shaped = [m for m, v in zip(maps, op.operands, strict=True) if isinstance(v.type, ir.ShapedType)]
    loops = _loops(shaped, shapes)
    return Dispatch(
        op=op.name,
        kind=kind,
        maps=tuple(f"affine_map<{one}>" for one in maps),
        operand_types=tuple(str(v.type) for v in op.operands),
        element_types=tuple(_element_type(v.type) for v in op.operands),
        loops=tuple(1 if size is None else size for size in loops),
        roles=roles,
        outputs=tuple(tuple(p for p in positions(m) if p is not None) for m in maps[-len(op.results) :]),
        lowering_config=_attribute(op, "lowering_config"),
        translation_info=_translation_info(op),
        strides=strides,
        dilations=dilations,
        decomposition_config=_attribute(op, "decomposition_config"),
        dynamic=tuple(d for d, size in enumerate(loops) if size is None),
    )


def _is_scaled(op: Any) -> bool:
    inside = op.name == "linalg.generic" and [one.operation.name for one in op.regions[0].blocks[0].operations]
    return bool(inside == _SCALED_BODY)


def _attribute(op: Any, name: str) -> str:
    return str(op.attributes[name]) if name in op.attributes else ""


def _element_type(value_type: Any) -> str:
    return str(ir.ShapedType(value_type).element_type) if isinstance(value_type, ir.ShapedType) else str(value_type)


def affine_maps(op: Any) -> list[Any]:
    return [ir.AffineMapAttr(a).value for a in ir.ArrayAttr(op.attributes["indexing_maps"])]


def _linalg_maps(op: Any) -> list[Any]:
    return [ir.AffineMapAttr(one).value for one in linalg.get_indexing_maps(op)]


def _attention_roles(maps: list[Any]) -> tuple[Any, ...]:
    """Query, key, value and output maps say which loops are batch, m, n, k1 and k2."""
    query, key, value = maps[:3]
    output = maps[-3]
    detail = iree_codegen.get_attention_op_detail(query, key, value, output)
    return detail.batch_dims, detail.m_dims, detail.n_dims, detail.k1_dims, detail.k2_dims


def positions(value: Any) -> list[int | None]:
    """The loop that each result of an indexing map reads; None where it is not a plain loop."""
    results = []
    for expr in value.results:
        results.append(int(expr.position) if isinstance(expr, ir.AffineDimExpr) else None)
    return results


def map_positions(text: str) -> list[int | None]:
    """`positions` of a map in text."""
    return list(_map_positions(text))


@lru_cache(maxsize=4096)
def _map_positions(text: str) -> tuple[int | None, ...]:
    with text_context():
        return tuple(positions(ir.AffineMapAttr(ir.Attribute.parse(text)).value))


def _loops(maps: list[Any], shapes: list[Any]) -> tuple[int | None, ...]:
    """The size of each loop; None where it is dynamic in every operand that has it."""
    loops: list[int | None] = [1] * maps[0].n_dims
    known: set[int] = set()
    for value, shape in zip(maps, shapes, strict=True):
        for axis, position in enumerate(positions(value)):
            if position is None:
                continue
            if not shape.is_dynamic_dim(axis):
                loops[position] = int(shape.shape[axis])
                known.add(position)
            elif position not in known:
                loops[position] = None
    return tuple(loops)


def contraction_roles(maps: list[Any]) -> tuple[tuple[int, ...], ...]:
    lhs, rhs, out = ({p for p in positions(m) if p is not None} for m in maps)
    groups = (lhs & rhs & out, (lhs & out) - rhs, (rhs & out) - lhs, (lhs & rhs) - out)
    return tuple(tuple(sorted(group)) for group in groups)


def enclosing(op: Any, attribute: str) -> Any:
    """The nearest operation around this one that has the attribute, or None."""
    parent = op.parent
    while parent is not None and attribute not in parent.operation.attributes:
        parent = parent.operation.parent
    return None if parent is None else parent.operation


def _translation_info(op: Any) -> str:
    function = enclosing(op, "translation_info")
    return "" if function is None else str(function.attributes["translation_info"])


def by_name(texts: Iterable[str]) -> dict[str, str]:
    """Dumped executables by name."""
    named = {}
    with ir.Context() as context:
        for text in texts:
            module = parse(text, context)
            for op in walk(module.operation):
                if op.name == "hal.executable":
                    named[symbol(op)] = text
                    break
    return named


# --- Where attributes and types are read from text, or written ------------------------------------------------------

_PROGRAMS = 64
"""The number of programs that are parsed in one context, which keeps their attributes."""
_own = threading.local()


@cache
def text_context() -> ir.Context:
    """The shared context of attribute texts: to make one takes longer than to read a thousand attributes.

    It keeps what was read, which is little. Larger modules get contexts of their own.
    """
    return ir.Context()


def program_context() -> ir.Context:
    """This thread's context for candidates' programs: to make one takes thirty times as long as to read them."""
    if not getattr(_own, "left", 0):
        _own.context, _own.left = ir.Context(), _PROGRAMS
    _own.left -= 1
    return _own.context
