"""The knobs attribute of a constraints op beside the real attributes: which knob stands where, and its value there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iree.compiler import ir
from iree.compiler.dialects import iree_codegen, iree_gpu

from autotuner.space.constraints import ConstraintsError


@dataclass(frozen=True, slots=True)
class Place:
    """Where a knob stands in the configuration, and what its values mean when they are indices of options."""

    field: str
    options: tuple[Any, ...] = ()


def places(knobs: Any) -> dict[str, Place]:
    """Every knob of a `knobs` attribute by name, with the top-level field that it is part of."""
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
    """What a person would call an option: the name of the matrix instruction, or the attribute's text."""
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


def loops(expression: Any) -> Iterator[int]:
    """The loops that an indexing expression depends on."""
    if isinstance(expression, ir.AffineDimExpr):
        yield expression.position
    elif isinstance(expression, ir.AffineBinaryExpr):
        yield from loops(expression.lhs)
        yield from loops(expression.rhs)


def root_operation(function: Any) -> Any:
    """The operation that the configuration is of."""
    for region in function.regions:
        for block in region.blocks:
            for child in block.operations:
                if "root_op" in child.operation.attributes and "lowering_config" in child.operation.attributes:
                    return child.operation
    raise ConstraintsError(
        "the module with pipeline constraints has no root operation with a lowering config.",
        remedy="Make it with --compile-to=executable-configurations --iree-codegen-emit-pipeline-constraints.",
    )


def chosen(function: Any, root: Any) -> dict[str, Any]:
    """The configuration that the compiler chose, under the names that the `knobs` attribute uses."""
    real = named(root.attributes["lowering_config"], function.attributes["translation_info"])
    if "decomposition_config" in root.attributes:
        real["decomposition_config"] = root.attributes["decomposition_config"]
    return real


def named(lowering_config: Any, translation: Any) -> dict[str, Any]:
    """A configuration under the names that the `knobs` attribute uses."""
    configuration = entries(translation.configuration)
    real: dict[str, Any] = entries(lowering_config)
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
