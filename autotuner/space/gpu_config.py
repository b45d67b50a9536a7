"""The attributes of a GPU configuration: what the compiler's constraints give, and what they leave out.

The `knobs` attribute of a constraints op is a template of the real ones, with knobs in the places of values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu, linalg

from autotuner.iree.mlir import walk
from autotuner.space.constraints import ConstraintsError
from autotuner.space.table import Knob, Value
from autotuner.targets.backends import Backend, Chip

PREFETCH = "prefetch_num_stages"
BANK_CONFLICTS = "no_reduce_shared_memory_bank_conflicts"
REORDER = "reorder_workgroups"
WAVES = "waves_per_eu"
COLUMN_MAJOR = "mma_col_major"
COPIES = "operand_copies"
BY_THREADS, BY_DMA, BY_SWIZZLED_DMA = "threads", "dma", "dma-swizzled"
IN_ORDER, TRANSPOSE = "none", "transpose"

OPTIONS = "gpu_pipeline_options"
_FUNCTION_ATTRIBUTES = "llvm_func_attrs"
_WAVES_ATTRIBUTE = "amdgpu-waves-per-eu"
_PROMOTION = "promotion_types"
_LEVELS = ("workgroup", "subgroup", "reduction")
_DMA = "#iree_gpu.use_global_load_dma"
_DMA_BITS, _BANKS_BITS = 128, 1024
"""What a lane copies at once, and half of all banks of shared memory (gfx950): what is swizzled among itself."""


def free_knobs(pipeline: str, backend: Backend, chip: Chip, *, column_major: bool) -> tuple[Knob, ...]:
    """The knobs that the compiler pins and yet honours, found by comparing binaries."""
    free = [Knob(BANK_CONFLICTS, (0, 1)), *(Knob(name, values) for name, values in backend.free_knobs.items())]
    if pipeline == "VectorDistribute":
        # TileAndFuse takes the strategy and ignores it.
        free.append(Knob(REORDER, (IN_ORDER, TRANSPOSE)))
    if column_major:
        free.append(Knob(COLUMN_MAJOR, (0, 1)))
    if pipeline == "TileAndFuse" and chip.dma:
        free.append(Knob(COPIES, (BY_DMA, BY_SWIZZLED_DMA, BY_THREADS)))
    return tuple(free)


def copies(how: Value | None, promoted: Sequence[int], root: Any) -> dict[str, Any]:
    """How promoted operands get to shared memory: nothing when threads copy them."""
    if how not in (BY_DMA, BY_SWIZZLED_DMA):
        return {}
    swizzled = [how == BY_SWIZZLED_DMA and _along_depth(root, operand) for operand in promoted]
    texts = (_swizzled(bits(root, operand)) if yes else _DMA for operand, yes in zip(promoted, swizzled, strict=True))
    return {_PROMOTION: ir.ArrayAttr.get([ir.Attribute.parse(text) for text in texts])}


def chosen_copies(root: Any) -> Value:
    """What the compiler's own choice does."""
    own = entries(root.attributes["lowering_config"])
    if _PROMOTION not in own:
        return BY_THREADS
    return BY_SWIZZLED_DMA if any(str(one) != _DMA for one in own[_PROMOTION]) else BY_DMA


def dma_elements(bits: int) -> int:
    """The elements that DMA copies at once, which a swizzle keeps together."""
    return _DMA_BITS // bits


def _swizzled(bits: int) -> str:
    row = f"{_BANKS_BITS // bits}, {dma_elements(bits)}"
    return f"#iree_gpu.swizzle_operand<copy_config = {_DMA}, swizzle = #iree_codegen.xor_shuffle<{row}>>"


def _along_depth(root: Any, operand: int) -> bool:
    """Whether an operand lies along the loop that is summed over: threads read others across rows anyway."""
    maps = [m.value for m in linalg.get_indexing_maps(root)]
    kept = {loop for result in maps[-1].results for loop in loops_of(result)}
    return kept.isdisjoint(loops_of(maps[operand].results[-1]))


def bits(root: Any, operand: int) -> int:
    """Bits of an operand's element."""
    return int(ir.ShapedType(root.operands[operand].type).element_type.width)


def chosen_free(translation: Any, *, column_major: bool) -> dict[str, Value]:
    """The free knobs as the compiler set them."""
    configuration = entries(translation.configuration)
    values: dict[str, Value] = {PREFETCH: 0, BANK_CONFLICTS: 0, REORDER: IN_ORDER, WAVES: 0}
    values[COLUMN_MAJOR] = int(column_major)
    options = configuration.get(OPTIONS)
    if options is not None:
        values[PREFETCH] = options.prefetch_num_stages or 0
        values[BANK_CONFLICTS] = int(bool(options.no_reduce_shared_memory_bank_conflicts))
        strategy = options.reorder_workgroups_strategy
        values[REORDER] = TRANSPOSE if strategy is not None and strategy == _transpose() else IN_ORDER
    functions = entries(configuration.get(_FUNCTION_ATTRIBUTES))
    if _WAVES_ATTRIBUTE in functions:
        values[WAVES] = int(ir.StringAttr(functions[_WAVES_ATTRIBUTE]).value)
    return values


def translation_info(translation: Any, values: Mapping[str, Value], own: Any) -> Any:
    """The translation info of a configuration: `translation` with the free knobs, and the rest of `own`."""
    configuration = entries(translation.configuration)
    options = configuration.get(OPTIONS)
    configuration[OPTIONS] = iree_gpu.PipelineOptionsAttr.get(
        prefetch_num_stages=int(values[PREFETCH]) if PREFETCH in values else None,
        no_reduce_shared_memory_bank_conflicts=bool(values[BANK_CONFLICTS]),
        use_igemm_convolution=None if options is None else options.use_igemm_convolution,
        reorder_workgroups_strategy=_transpose() if values.get(REORDER) == TRANSPOSE else None,
    )
    if values.get(WAVES):
        waves = ir.StringAttr.get(str(values[WAVES]))
        configuration[_FUNCTION_ATTRIBUTES] = ir.DictAttr.get({_WAVES_ATTRIBUTE: waves})
    # What the compiler sets beside the knobs (how denormals are treated) is part of the program's meaning.
    for name, attribute in entries(own.configuration).items():
        if name not in (OPTIONS, _FUNCTION_ATTRIBUTES):
            configuration.setdefault(name, attribute)
    return iree_codegen.TranslationInfoAttr.get(
        translation.pass_pipeline,
        translation.codegen_spec,
        translation.workgroup_size,
        translation.subgroup_size,
        ir.DictAttr.get(configuration),
    )


def padding(parts: Mapping[str, Any], root: Any, dimensions: Sequence[int]) -> dict[str, Any]:
    """The padding that TileAndFuse needs when a loop is not a multiple of its tile, and nothing when all are.

    Its constraints round loops up to the matrix instruction and leave it to us to ask for the padding, without which
    such a configuration does not build.
    """
    workgroup, reduction = ([ir.IntegerAttr(t).value for t in parts[level]] for level in ("workgroup", "reduction"))
    last = max(i for i, tile in enumerate(reduction) if tile)
    reduction[last] *= parts["mma_kind"].mnk_shape[2]
    tiles = [max(pair) for pair in zip(workgroup, reduction, strict=True)]
    loops = list(dimensions)
    if len(tiles) < len(dimensions):  # IGEMM: one loop for window and channels, or one each
        kept, sums = len(_kept(root)), _sums(root, dimensions)
        loops[kept:] = sums if len(tiles) > kept + 1 else [math.prod(sums)]
    if all(loop % max(tile, 1) == 0 for loop, tile in zip(loops, tiles, strict=True)):
        return {}
    if not windowed(root):
        return {"padding": integers(tiles)}
    if len(tiles) == len(dimensions):
        # A direct convolution is padded as one: `padding` would tear its window.
        return {"padding_conv": integers(tiles)}
    found = {"padding": integers(tiles)}
    before = _padding_before_igemm(root, tiles, loops, dimensions)
    return {**found, "padding_conv": integers(before)} if before else found


def _padding_before_igemm(
    root: Any, tiles: Sequence[int], loops: Sequence[int], dimensions: Sequence[int]
) -> list[int] | None:
    """The sizes that the compiler pads a convolution with channels last to, before it becomes a matrix product; else
    None."""
    channel, kept = linalg.get_indexing_maps(root)[0].value.results[-1], _kept(root)
    if not isinstance(channel, ir.AffineDimExpr) or channel.position in kept:
        return None
    sizes = [*tiles[: len(kept)], *[0] * (len(dimensions) - len(kept))]
    # With few channels a padded one costs more than padding the product of window and channels.
    if loops[-1] % tiles[-1] and tiles[-1] // dimensions[channel.position] <= 2:
        sizes[channel.position] = tiles[-1]
    return sizes


def apart(parts: Mapping[str, Any], root: Any, dimensions: Sequence[int]) -> dict[str, Any]:
    """The tiles of an IGEMM with one loop for window and channels, for the compiler's own, which has two.

    It has two where image and filter have them in another order (gradients); its constraints have one loop all the
    same, and for the tile that is missing IREE 3.13 reads what lies behind the others.
    """
    instructions = -(-_sums(root, dimensions)[-1] // parts["mma_kind"].mnk_shape[2])
    tiles = {field: [ir.IntegerAttr(t).value for t in parts[field]] for field in _LEVELS}
    last = tiles["reduction"][-1]
    split = {"reduction": [last // (inner := math.gcd(last, instructions)), inner]}
    return {field: integers([*own[:-1], *split.get(field, [0, 0])]) for field, own in tiles.items()}


def joined(own: Mapping[str, Any]) -> dict[str, Any]:
    """The compiler's own tiles with one loop for window and channels, as its constraints have them."""
    tiles = {field: [ir.IntegerAttr(t).value for t in own[field]] for field in _LEVELS}
    return {**own, **{field: integers([*each[:-2], each[-2] * each[-1]]) for field, each in tiles.items()}}


def _sums(root: Any, dimensions: Sequence[int]) -> list[int]:
    """The sizes of what is summed over in the image's order: its channels, and the window as one."""
    kept, sizes = _kept(root), list[int]()
    before = False
    for result in linalg.get_indexing_maps(root)[0].value.results:
        summed = math.prod(dimensions[loop] for loop in loops_of(result) if loop not in kept)
        window = isinstance(result, ir.AffineBinaryExpr)
        if window and before:
            sizes[-1] *= summed
        elif not kept.issuperset(loops_of(result)):
            sizes.append(summed)
        before = window
    return sizes


def _kept(root: Any) -> set[int]:
    """The loops that the result has."""
    return {loop for result in linalg.get_indexing_maps(root)[2].value.results for loop in loops_of(result)}


def windowed(root: Any) -> bool:
    """Whether an operand is read through a sliding window."""
    maps = linalg.get_indexing_maps(root)
    return maps is not None and any(isinstance(e, ir.AffineBinaryExpr) for m in maps for e in m.value.results)


def _transpose() -> Any:
    return iree_gpu.ReorderWorkgroupsStrategyAttr.get(int(iree_gpu.ReorderWorkgroupsStrategy.Transpose))


# --- knobs and attributes -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a knob in the configuration, and the options that its values index, if they do."""

    field: str
    options: tuple[Any, ...] = ()


def places(knobs: Any) -> dict[str, Place]:
    """The knobs of a `knobs` attribute by name, with the top-level field of each."""
    found: dict[str, Place] = {}
    for field, attribute in entries(knobs).items():
        for knob in _knobs(attribute):
            options = tuple(knob.options) if isinstance(knob, iree_codegen.OneOfKnobAttr) else ()
            found.setdefault(knob.name, Place(field, options))
    return found


def _knobs(attribute: Any) -> Iterator[Any]:
    if isinstance(attribute, iree_codegen.IntKnobAttr | iree_codegen.OneOfKnobAttr):
        yield attribute
    elif isinstance(attribute, ir.ArrayAttr):
        for element in attribute:
            yield from _knobs(element)
    else:
        for child in entries(attribute).values():
            yield from _knobs(child)


def entries(attribute: Any) -> dict[str, Any]:
    """The named parts of a dictionary or a lowering config; nothing for any other attribute."""
    if isinstance(attribute, iree_gpu.LoweringConfigAttr):
        attribute = attribute.attributes
    if not isinstance(attribute, ir.DictAttr):
        return {}
    return {attribute[i].name: attribute[i].attr for i in range(len(attribute))}


def match(pattern: Any, real: Any, found: dict[str, int]) -> bool:
    """Read the values of knobs off a real configuration; False when it does not have the pattern's form.

    A part that the real configuration lacks says nothing about its knobs.
    """
    if isinstance(pattern, iree_codegen.IntKnobAttr):
        found[pattern.name] = real if isinstance(real, int) else ir.IntegerAttr(real).value
        return True
    if isinstance(pattern, iree_codegen.OneOfKnobAttr):
        names = option_names(pattern.options)
        wanted = option_name(real)
        if wanted not in names and isinstance(real, iree_gpu.MMAAttr | iree_gpu.VirtualMMAAttr):
            wanted = wanted.removesuffix(_COLUMN_MAJOR)
        if wanted not in names:
            return False
        found[pattern.name] = names.index(wanted)
        return True
    if isinstance(pattern, ir.ArrayAttr):
        elements = list(real)
        return len(elements) == len(pattern) and all(match(p, r, found) for p, r in zip(pattern, elements, strict=True))
    parts = real if isinstance(real, Mapping) else entries(real)
    return all(match(child, parts[name], found) for name, child in entries(pattern).items() if name in parts)


_COLUMN_MAJOR = "/col_major"


def option_names(options: Sequence[Any]) -> tuple[str, ...]:
    names = tuple(option_name(option) for option in options)
    return names if len(set(names)) == len(names) else tuple(str(option) for option in options)


def option_name(option: Any) -> str:
    """The name of an option: that of the matrix instruction, or the attribute's text."""
    if not isinstance(option, iree_gpu.MMAAttr | iree_gpu.VirtualMMAAttr):
        return str(option)
    return f"{_intrinsic(option).name}{_COLUMN_MAJOR if option.col_major else ''}"


def _intrinsic(mma: Any) -> Any:
    # The bindings build the attribute from its intrinsic but do not give the intrinsic back.
    virtual = isinstance(mma, iree_gpu.VirtualMMAAttr)
    for intrinsic in iree_gpu.VirtualMMAIntrinsic if virtual else iree_gpu.MMAIntrinsic:
        if mma == type(mma).get(int(intrinsic), mma.col_major):
            return intrinsic
    raise ConstraintsError(f"matrix instruction {mma} is not one that the IREE bindings know.")


def column_major(attribute: Any) -> bool:
    """Whether any matrix instruction in a configuration writes its result transposed."""
    if isinstance(attribute, iree_gpu.MMAAttr | iree_gpu.VirtualMMAAttr):
        return bool(attribute.col_major)
    return any(column_major(child) for child in entries(attribute).values())


def with_column_major(attribute: Any) -> Any:
    """The same configuration with every matrix instruction column-major."""
    if isinstance(attribute, iree_gpu.MMAAttr | iree_gpu.VirtualMMAAttr):
        return type(attribute).get(int(_intrinsic(attribute)), True)
    parts = {name: with_column_major(child) for name, child in entries(attribute).items()}
    if isinstance(attribute, iree_gpu.LoweringConfigAttr):
        return iree_gpu.LoweringConfigAttr.get(ir.DictAttr.get(parts))
    return ir.DictAttr.get(parts) if parts else attribute


def integers(values: Sequence[int]) -> Any:
    return ir.ArrayAttr.get([ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value) for value in values])


def batched(parts: Mapping[str, Any], count: int, *, at: int = 0) -> dict[str, Any]:
    """The parts of a lowering config for an operation with `count` batch loops more, before loop `at`."""
    result = dict(parts)
    for field, tile in (("workgroup", 1), ("reduction", 0), ("subgroup", 0), ("padding", 1), ("padding_conv", 1)):
        if field in parts:
            tiles = [ir.IntegerAttr(v).value for v in parts[field]]
            result[field] = integers([*tiles[:at], *[tile] * count, *tiles[at:]])
    if "subgroup_basis" in parts:
        counts, loops_of = ([ir.IntegerAttr(v).value for v in part] for part in parts["subgroup_basis"])
        moved = [loop + count if loop >= at else loop for loop in loops_of]
        counts = [*counts[:at], *[1] * count, *counts[at:]]
        result["subgroup_basis"] = ir.ArrayAttr.get([integers(counts), integers([*range(at, at + count), *moved])])
    return result


def loops_of(expression: Any) -> Iterator[int]:
    """The loops that an indexing expression depends on."""
    if isinstance(expression, ir.AffineDimExpr):
        yield expression.position
    elif isinstance(expression, ir.AffineBinaryExpr):
        yield from loops_of(expression.lhs)
        yield from loops_of(expression.rhs)


def root_operation(function: Any) -> Any:
    """The operation that the configuration is of."""
    for operation in walk(function):
        if "root_op" in operation.attributes and "lowering_config" in operation.attributes:
            return operation
    raise ConstraintsError(
        "the module with pipeline constraints has no root operation with a lowering config.",
        remedy="Make it with --compile-to=executable-configurations --iree-codegen-emit-pipeline-constraints.",
    )


def chosen(function: Any, root: Any) -> dict[str, Any]:
    """The configuration that the compiler chose, under the names that the `knobs` attribute uses."""
    translation = function.attributes["translation_info"]
    configuration = entries(translation.configuration)
    real: dict[str, Any] = entries(root.attributes["lowering_config"])
    if "decomposition_config" in root.attributes:
        real["decomposition_config"] = root.attributes["decomposition_config"]
    real["workgroup_size"] = list(translation.workgroup_size)
    real["subgroup_size"] = translation.subgroup_size
    if "gpu_pipeline_options" in configuration:
        options = configuration["gpu_pipeline_options"]
        flags = {
            "no_reduce_shared_memory_bank_conflicts": options.no_reduce_shared_memory_bank_conflicts,
            "use_igemm_convolution": options.use_igemm_convolution,
        }
        real["gpu_pipeline_options"] = {
            **{name: ir.BoolAttr.get(flag) for name, flag in flags.items() if flag is not None},
            **({} if options.prefetch_num_stages is None else {"prefetch_num_stages": options.prefetch_num_stages}),
        }
    return real
