"""The operations and attributes that a file of others may have: none that starts a program or writes a file.

The compiler runs what a spec says, and its dialects can do nearly anything: run a registered pass with options of its
own, parse a pass pipeline out of an attribute, link an object. What tuning specs, microkernel specs, configured
executables and models are made of is known; whatever else is in a file needs --trust.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iree.compiler import ir

from autotuner.errors import UsageError
from autotuner.iree.compile import first_error
from autotuner.iree.mlir import parse, symbol, walk
from autotuner.iree.tools import Tools
from autotuner.system import process
from autotuner.system.text import short
from autotuner.system.workspace import is_component
from autotuner.targets.backends import BACKENDS


def _names(text: str, *, dialect: str = "") -> frozenset[str]:
    return frozenset(f"{dialect}.{word}" if dialect else word for word in text.split())


SECONDS = 600.0
"""For a compile or a reading of a whole program, at most."""
MATHEMATICS = ("arith", "math", "complex", "index", "linalg", "tensor", "affine", "iree_linalg_ext")
"""Dialects that compute: in matchers, executables and models."""
_TRANSFORM = _names(
    """
    named_sequence sequence yield include foreach foreach_match annotate param.constant merge_handles
    get_operand get_result get_parent_op get_defining_op get_producer_of_operand get_consumers_of_result
    match.operation_name match.operation_empty match.param.cmpi
    match.structured match.structured.yield match.structured.body match.structured.dim match.structured.init
    match.structured.input match.structured.num_inits match.structured.num_inputs match.structured.rank
    match.structured.result match.structured.elemental_bitwidth match.structured.classify_contraction_dims
    match.structured.classify_convolution_dims
    iree.match.contraction iree.match.convolution iree.match.attention iree.match.online_attention
    iree.match.dims_equal iree.match.dim_bounds iree.match.dim_is_multiple_of iree.match.regions
    iree.match.cast_compatible_type iree.match.cast_compatible_dag_from_root iree.match.has_no_lowering_config
    structured.match structured.generalize structured.rewrite_in_destination_passing_style
    structured.fuse_into_containing_op
    apply_dce apply_cse apply_registered_pass
    util.get_nearest_symbol_table util.import_symbol util.cast_and_call
    """,
    dialect="transform",
)
_KERNELS = _names(
    """
    builtin.module util.func util.return util.call util.assume.int util.optimization_barrier func.func func.call
    func.return flow.dispatch flow.tensor.splat hal.dispatch.extern hal.return hal.executable hal.executable_end
    hal.executable.variant hal.executable.variant_end hal.executable.export hal.interface.binding.subspan
    hal.interface.constant.load hal.interface.workgroup.id hal.interface.workgroup.count hal.interface.workgroup.size
    iree_codegen.dispatch_config iree_codegen.yield iree_codegen.inner_tiled iree_codegen.load_from_buffer
    iree_codegen.store_to_buffer iree_codegen.extract_strided_metadata iree_codegen.fusion_barrier
    iree_codegen.index_hint iree_encoding.set_encoding iree_encoding.unset_encoding
    iree_tensor_ext.dispatch.tensor.load iree_tensor_ext.dispatch.tensor.store iree_tensor_ext.bitcast
    iree_tensor_ext.dispatch.workload.ordinal iree_tensor_ext.dispatch.workgroup_count_from_slice
    iree_tensor_ext.dispatch.workgroup_count_from_dag_root
    iree_tensor_ext.dispatch.workgroup_count_split_reduction_modifier
    amdgpu.fat_raw_buffer_cast memref.assume_alignment memref.cast memref.dim memref.extract_strided_metadata
    memref.load memref.store memref.subview scf.for scf.forall scf.forall.in_parallel scf.if scf.yield
    """
)
SPEC_OPS = _TRANSFORM | _KERNELS
"""What tuning specs, microkernel specs and configured executables are made of, beside MATHEMATICS."""
SPEC_PASSES = (
    *("inline", "canonicalize", "cse", "symbol-dce", "iree-global-opt-detach-elementwise-from-named-ops"),
    *("iree-util-hoist-into-globals", "iree-util-combine-initializers"),
)
"""What `transform.apply_registered_pass` may run, without options other than whole numbers and empty texts."""

MODEL_DIALECTS = (
    *MATHEMATICS,
    *("torch", "torch_c", "onnx", "stablehlo", "chlo", "vhlo", "tosa", "mhlo", "ml_program", "shape", "quant"),
    *("func", "util", "scf", "cf", "iree_encoding", "iree_tensor_ext", "check"),
)
"""Dialects of a model, with all of their operations."""
MODEL_OPS = _names(
    """
    builtin.module builtin.unrealized_conversion_cast
    hal.tensor.import hal.tensor.export hal.tensor.alias hal.tensor.barrier hal.return
    hal.devices.get hal.fence.create hal.fence.await hal.fence.join hal.fence.signal hal.buffer_view.dim
    """
)
MODEL_FAMILIES = ("flow.tensor.", "iree_input.global", "iree_input.tensor.")
"""Operations of a model whose names begin like this."""

ATTRIBUTES = _names(
    """
    hal.pipeline.layout hal.pipeline.binding hal.descriptor_type hal.device.promise hal.device.affinity
    flow.parameter.named stream.parameter.named util.byte_pattern util.uninitialized util.int.assumption
    util.inline.never util.inline.always
    iree_codegen.compilation_info iree_codegen.lowering_config iree_codegen.lowering_config_level
    iree_codegen.lowering_config_levels iree_codegen.translation_info iree_codegen.dispatch_lowering_pass_pipeline
    iree_codegen.no_pipeline iree_codegen.workgroup_mapping iree_codegen.denormal_fp_math iree_codegen.export_config
    iree_codegen.ukernel_descriptor iree_codegen.xor_shuffle
    rocm.builtin.tuning_module rocm.ukernel_provider rocm.tensor_ukernel_provider
    """
)
"""Attributes of dialects, by name: a pass pipeline is not among them, for the compiler runs it."""
ATTRIBUTE_DIALECTS = _names(
    """
    arith linalg math complex iree_cpu iree_gpu iree_encoding iree_linalg_ext iree_tensor_ext iree_vector_ext transform
    torch stablehlo chlo vhlo tosa mhlo ml_program quant gpu amdgpu
    """
)
"""Dialects whose attributes only describe."""
FORMATS = (
    *("embedded-elf-x86_64", "embedded-elf-arm_64"),
    *(backend.executable_format for backend in BACKENDS if not backend.on_host),
)
"""What an executable may be made as: others are linked by programs of the system, or written where they say."""
SETTINGS = _names(
    """
    abi cpu cpu_features data_layout enable_inner_tiled float_abi max_stack_allocation_size native_vector_size
    target_abi target_triple ukernels iree.encoding.resolver iree_codegen.default_tuning_spec iree_codegen.target_info
    iree_codegen.ukernel_provider
    """
)
"""Keys that an executable's target may set."""


_TARGET, _OBJECT = "#hal.executable.target<", "#hal.executable.object<"
_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_NAMED = re.compile(r"#([A-Za-z_][\w.]*)")
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+-]*")
_NAMING = ("builtin.module", "func.func", "util.func", "util.initializer", "ml_program.func")
_AS_READ = (
    "--mlir-print-op-generic",
    "--mlir-elide-elementsattrs-if-larger=16",
    "--mlir-elide-resource-strings-if-larger=16",
)
"""What iree-opt prints of a model that it reads: all but its weights. It runs no pass."""


class _RefusedError(Exception):
    """What is not allowed."""


def vet_spec(module: ir.Module, *, name: str) -> None:
    """Refuses a spec or a configured executable with anything in it that none of ours has."""
    _vet(module, name, _spec_op)


def vet_model(module: ir.Module, *, name: str) -> None:
    """The same for a model: its dialects compute; it has no code generator's business in it and no native code."""
    _vet(module, name, _model_op)


def vet_program(path: Path, tools: Tools) -> None:
    """`vet_model` of a file in text or bytecode; what does not parse is an error."""
    done = process.run([tools.iree_opt, *_AS_READ, *tools.printing, path, "-o", "-"], timeout=SECONDS)
    if not done.ok:
        raise UsageError(
            f"{path} is not a program that IREE reads: {first_error(done.why())}",
            remedy="Was it made for another version of IREE? Export it anew.",
        )
    with ir.Context() as context:
        vet_model(parse(done.stdout, context), name=str(path))


def _vet(module: ir.Module, name: str, judge: Any) -> None:
    try:
        for op in (module.operation, *walk(module.operation)):
            judge(op)
            for value in _attributes(op):
                _attribute(value, op.name)
    except (_RefusedError, RecursionError) as refused:
        what = refused if isinstance(refused, _RefusedError) else "attributes that are nested too deep"
        raise UsageError(
            f"{name} has {what}, which autotune does not take from others' files: "
            "IREE might start a program or write a file for it.",
            remedy="If you know where the file comes from, give --trust (docs/vetting.md).",
        ) from None


_COMPLEX = "unknown element type DenseTypedElementsAttr"
"""What IREE's bindings say of constants of complex numbers, which they have no class for: numbers, and nothing else."""


def _attributes(op: Any) -> Iterator[Any]:
    for name in op.attributes:
        try:
            yield op.attributes[name]
        except TypeError as error:
            if _COMPLEX not in str(error):
                raise


def _spec_op(op: Any) -> None:
    dialect = op.name.partition(".")[0]
    if op.name not in SPEC_OPS and dialect not in MATHEMATICS:
        raise _RefusedError(f"the operation {short(op.name)}")
    if op.name == "transform.apply_registered_pass":
        _registered_pass(op)


def _registered_pass(op: Any) -> None:
    name = ir.StringAttr(op.attributes["pass_name"]).value
    options = ir.DictAttr(op.attributes["options"]) if "options" in op.attributes else []
    harmless = all(isinstance(option.attr, ir.IntegerAttr) or _is_empty(option.attr) for option in options)
    if name not in SPEC_PASSES or not harmless or len(op.operands) > 1:
        raise _RefusedError(f"the pass {short(name)} in {op.name}")


def _is_empty(attribute: Any) -> bool:
    return isinstance(attribute, ir.StringAttr) and not attribute.value


def _model_op(op: Any) -> None:
    dialect = op.name.partition(".")[0]
    if dialect not in MODEL_DIALECTS and op.name not in MODEL_OPS and not op.name.startswith(MODEL_FAMILIES):
        raise _RefusedError(f"the operation {short(op.name)}")
    # Dispatches are named after their functions, and their files after them.
    if op.name in _NAMING and "sym_name" in op.attributes and not is_component(symbol(op)):
        raise _RefusedError(f"the name {short(symbol(op))} of {op.name}")


def _attribute(value: Any, where: str) -> None:
    """Looks into lists and tables by the bindings, into what dialects define by its text.

    To the bindings nearly every attribute of a dialect is a bare `Attribute`: no name, no dialect, no way to what is
    inside of it (its typeid is a number without a meaning). What is read here is not what the file's author wrote but
    what MLIR prints of the attribute that it read: aliases are resolved, each attribute of a dialect begins with # and
    its dialect's name however it was spelled, and quotes within strings are escaped.
    """
    if isinstance(value, ir.DenseElementsAttr | ir.DenseResourceElementsAttr):
        return
    if isinstance(value, ir.ArrayAttr):
        for one in value:
            _attribute(one, where)
        return
    if isinstance(value, ir.DictAttr):
        for entry in value:
            _attribute(entry.attr, where)
        return
    text = str(value)
    if text.startswith(_TARGET):
        _target(_inside(text, _TARGET), where)
    elif text.startswith(_OBJECT):
        _object(_inside(text, _OBJECT), where)
    else:
        for named in _NAMED.findall(_TEXT.sub('""', text)):
            if named not in ATTRIBUTES and named.partition(".")[0] not in ATTRIBUTE_DIALECTS:
                raise _RefusedError(f"the attribute #{short(named)[1:-1]} in {where}")


def _inside(text: str, opening: str) -> Any:
    """What stands between the angle brackets, as a list."""
    return ir.ArrayAttr(ir.Attribute.parse(f"[{text[len(opening) : -1]}]"))


def _target(parts: Any, where: str) -> None:
    """`#hal.executable.target<"backend", "format", {settings}>`."""
    form = ir.StringAttr(parts[1]).value
    if form not in FORMATS:
        raise _RefusedError(f"an executable of the form {short(form)} in {where}")
    for entry in parts[2] if len(parts) > 2 else ():
        if entry.name not in SETTINGS:
            raise _RefusedError(f"the setting {short(entry.name)} of an executable's target in {where}")
        _attribute(entry.attr, where)


def _object(parts: Any, where: str) -> None:
    """`#hal.executable.object<{path = "name.o"}>`: a file beside the spec, no code inside of it."""
    table = ir.DictAttr(parts[0])
    keys = {entry.name for entry in table}
    path = ir.StringAttr(table["path"]).value if "path" in keys else ""
    if keys != {"path"} or _FILE_NAME.fullmatch(path) is None:
        what = "native code inside of it" if "data" in keys else f"the object {short(path)}"
        raise _RefusedError(f"{what}, not a file beside the spec, in {where}")


def executables_in(folder: Path) -> tuple[Path, ...]:
    """The files of a folder of executables that are substituted; what is no MLIR would be linked as native code."""
    files = sorted(path for path in folder.iterdir() if not path.is_dir())
    for path in files:
        if path.suffix != ".mlir":
            raise UsageError(
                f"{path} is not an .mlir file: iree-compile would link it as native code.",
                remedy="Take it out, or give --trust if you know where it comes from.",
            )
    return tuple(files)
