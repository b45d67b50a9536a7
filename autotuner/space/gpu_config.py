"""The attributes of a GPU configuration: what the compiler's constraints give, and what they leave out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu, linalg

from autotuner.space import attributes
from autotuner.space.table import Knob, Value
from autotuner.targets.backends import Backend

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
_DMA = "#iree_gpu.use_global_load_dma"


_TRANSLATION_INFO = "#iree_codegen.translation_info"


@dataclass(frozen=True, slots=True)
class CompilationInfo:
    """The attributes of one configuration, as the text that stands for them in MLIR."""

    lowering_config: str
    translation_info: str
    decomposition_config: str | None = None
    """Attention only: an attribute of the operation, beside its compilation info."""

    @property
    def translation_attribute(self) -> str:
        """Whole, as a function has it: inside of a compilation info its name is left out."""
        return _TRANSLATION_INFO + self.translation_info.removeprefix(_TRANSLATION_INFO)


def free_knobs(pipeline: str, backend: Backend, root: Any, *, column_major: bool) -> tuple[Knob, ...]:
    """The knobs that the compiler pins and honours, found by comparing binaries."""
    free = [Knob(BANK_CONFLICTS, (0, 1)), *(Knob(name, values) for name, values in backend.free_knobs.items())]
    if pipeline == "VectorDistribute":
        # TileAndFuse takes the strategy and ignores it.
        free.append(Knob(REORDER, (IN_ORDER, TRANSPOSE)))
    if column_major:
        free.append(Knob(COLUMN_MAJOR, (0, 1)))
    if pipeline == "TileAndFuse" and copied_by_dma(root):
        free.append(Knob(COPIES, (BY_DMA, BY_SWIZZLED_DMA, BY_THREADS)))
    return tuple(free)


def copied_by_dma(root: Any) -> bool:
    """gfx950: whether the compiler itself lets the hardware copy this operation's operands to shared memory."""
    return "decomposition_config" not in root.attributes and _PROMOTION in _own(root)


def copies(parts: Mapping[str, Any], values: Mapping[str, Value], root: Any) -> dict[str, Any]:
    """How promoted operands get to shared memory: nothing when threads copy them."""
    match values.get(COPIES):
        case "dma":
            return {_PROMOTION: ir.ArrayAttr.get([ir.Attribute.parse(_DMA)] * len(parts["promote_operands"]))}
        case "dma-swizzled":
            return {_PROMOTION: _own(root)[_PROMOTION]}
        case _:
            return {}


def _own(root: Any) -> dict[str, Any]:
    return attributes.entries(root.attributes["lowering_config"])


def chosen_free(translation: Any, *, column_major: bool) -> dict[str, Value]:
    """The free knobs as the compiler set them."""
    configuration = attributes.entries(translation.configuration)
    values: dict[str, Value] = {PREFETCH: 0, BANK_CONFLICTS: 0, REORDER: IN_ORDER, WAVES: 0}
    values[COLUMN_MAJOR] = int(column_major)
    options = configuration.get(OPTIONS)
    if options is not None:
        values[PREFETCH] = options.prefetch_num_stages or 0
        values[BANK_CONFLICTS] = int(bool(options.no_reduce_shared_memory_bank_conflicts))
        strategy = options.reorder_workgroups_strategy
        values[REORDER] = TRANSPOSE if strategy is not None and strategy == _transpose() else IN_ORDER
    functions = attributes.entries(configuration.get(_FUNCTION_ATTRIBUTES))
    if _WAVES_ATTRIBUTE in functions:
        values[WAVES] = int(ir.StringAttr(functions[_WAVES_ATTRIBUTE]).value)
    return values


def translation_info(translation: Any, values: Mapping[str, Value], own: Any) -> Any:
    """The translation info of a configuration: `translation` with the free knobs, and what else `own` holds."""
    configuration = attributes.entries(translation.configuration)
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
    for name, attribute in attributes.entries(own.configuration).items():
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
    loops = [*dimensions[: len(tiles) - 1], math.prod(dimensions[len(tiles) - 1 :])]  # IGEMM: one reduction loop
    if all(loop % max(tile, 1) == 0 for loop, tile in zip(loops, tiles, strict=True)):
        return {}
    if not windowed(root):
        return {"padding": attributes.integers(tiles)}
    if len(tiles) == len(dimensions):
        # A direct convolution is padded as one: `padding` would tear its window.
        return {"padding_conv": attributes.integers(tiles)}
    found = {"padding": attributes.integers(tiles)}
    before = _padding_before_igemm(root, tiles, loops, dimensions)
    return {**found, "padding_conv": attributes.integers(before)} if before else found


def _padding_before_igemm(
    root: Any, tiles: Sequence[int], loops: Sequence[int], dimensions: Sequence[int]
) -> list[int] | None:
    """How far the compiler pads a convolution with channels last before it becomes a matrix product; else None."""
    image, _, out = (m.value for m in linalg.get_indexing_maps(root))
    channel = image.results[-1]
    kept = {loop for result in out.results for loop in attributes.loops(result)}
    if not isinstance(channel, ir.AffineDimExpr) or channel.position in kept:
        return None
    sizes = [*tiles[:-1], *[0] * (len(dimensions) - len(tiles) + 1)]
    # With few channels a padded one costs more than padding the product of window and channels.
    if loops[-1] % tiles[-1] and tiles[-1] // dimensions[channel.position] <= 2:
        sizes[channel.position] = tiles[-1]
    return sizes


def windowed(root: Any) -> bool:
    """Whether an operand is read through a sliding window."""
    maps = linalg.get_indexing_maps(root)
    return maps is not None and any(isinstance(e, ir.AffineBinaryExpr) for m in maps for e in m.value.results)


def _transpose() -> Any:
    return iree_gpu.ReorderWorkgroupsStrategyAttr.get(int(iree_gpu.ReorderWorkgroupsStrategy.Transpose))
