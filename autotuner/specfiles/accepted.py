"""What a spec, an executable or a model from elsewhere may be made of. docs/specs.md shows these lists to users."""

from __future__ import annotations

from autotuner.targets.backends import BACKENDS


def _names(text: str, *, dialect: str = "") -> frozenset[str]:
    return frozenset(f"{dialect}.{word}" if dialect else word for word in text.split())


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
    func.return flow.dispatch hal.dispatch.extern hal.return hal.executable hal.executable_end hal.executable.variant
    hal.executable.variant_end hal.executable.export hal.interface.binding.subspan hal.interface.constant.load
    hal.interface.workgroup.id hal.interface.workgroup.count hal.interface.workgroup.size
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
    iree_codegen.ukernel_descriptor
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
