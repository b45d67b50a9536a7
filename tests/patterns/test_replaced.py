"""What is recognised is replaced: a spec calls kernels in its place, and the numbers stay as they are. The causal mask
of an attention is known by what it holds, however it is spelt, and no other is."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from iree.compiler import ir

from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import SPEC_FLAG, spec_mlir
from autotuner.iree.mlir import parse, walk
from autotuner.iree.tools import Tools
from autotuner.patterns.evaluate import known_values
from autotuner.patterns.joins import joined_mlir
from autotuner.patterns.operations import Operation, forms_of, read_joins, read_operations
from autotuner.patterns.ops import is_main
from autotuner.problems import Array
from autotuner.problems.attention import Attention
from autotuner.problems.render import problem_mlir
from autotuner.system import process
from autotuner.targets import Target
from tests.support.kernels import spec_flags
from tests.support.models import EXAMPLES
from tests.support.patterns import JOINED, PACKED, example, kernel_call, read, unfused_layers

FLAGS = Target.parse("gfx942").compile_flags


def hold_same_results(tools: Tools, text: str, folder: Path) -> None:
    """A program of 2x8x8 f16 computes the same on this processor with its layers joined."""
    (file := folder / "program.mlir").write_text(text)
    flags = Target.parse("cpu").compile_flags
    joins = read_joins(preprocess(tools, file, flags, timeout=120))
    (spec := folder / "joined.mlir").write_text(joined_mlir(joins))
    more = f"{SPEC_FLAG}={spec}"
    assert "tensor.concat" in preprocess(tools, file, [*flags, more], timeout=120)
    x = (np.random.default_rng(3).integers(-8, 9, (2, 8, 8)) / 8).astype(np.float16)
    plain, joined = (computed(tools, file, [*flags, *extra], x) for extra in ((), (more,)))
    assert np.abs(plain).max() > 0.5
    np.testing.assert_allclose(joined, plain, rtol=2e-3, atol=2e-3)


def computed(tools: Tools, program: Path, flags: list[str], given: Array) -> Array:
    """What a program gives on this processor."""
    module, input, output = (program.with_suffix(end) for end in (".vmfb", ".in.npy", ".out.npy"))
    np.save(input, given)
    compiled = process.run([tools.iree_compile, program, *flags, "-o", module], timeout=120)
    assert compiled.ok, compiled.stderr
    words = [f"--module={module}", "--device=local-task", "--function=main", f"--input=@{input}", f"--output=@{output}"]
    run = process.run([tools.iree_run_module, *words], timeout=60)
    assert run.ok, run.stderr
    result: Array = np.load(output)
    return result


def attention(layout: str, *, causal: bool) -> str:
    return problem_mlir(replace(Attention.parse(shape="2x3x8x8x4", causal=causal), layout=layout))


@pytest.mark.parametrize(
    ("text", "gone", "own"),
    [
        (example("gate"), "matmul|math.exp", False),
        (example("queries_keys_values"), "batch_matmul", False),
        (example("heads"), "linalg.transpose|linalg.generic", False),
        (example("layer_of_images"), "batch_matmul|linalg.generic", False),
        (example("convolution_from_zeros"), "linalg.conv", False),
        *[
            (attention(layout, causal=causal), "linalg.transpose|linalg.generic", True)
            for layout in ("bshd", "bs3hd")
            for causal in (False, True)
        ],
    ],
    ids=["gate", "joined", "heads", "images", "zeros", "bshd", "bshd causal", "packed", "causal"],
)
def test_a_spec_calls_a_kernel_for_the_whole_of_it(
    text: str, gone: str, own: bool, tools: Tools, tmp_path: Path
) -> None:
    """With the forms that were read; what is `own` also with those of the problem's template."""
    (program := tmp_path / "program.mlir").write_text(text)
    operations = read(preprocess(tools, program, FLAGS, timeout=120))
    calls = [kernel_call(operation.problems[0]) for operation in operations]
    forms = [forms_of(operation.readings[:1]) for operation in operations]
    spec = tmp_path / "spec.mlir"
    for given in (forms, []) if own else (forms,):
        spec.write_text(spec_mlir(calls, forms=given))
        after = preprocess(tools, program, [*FLAGS, *spec_flags(spec, [c.instance for c in calls])], timeout=120)
        assert set(prove(after, kernel_calls(calls)).found) == {1}
        assert not re.search(gone, after)


def test_layers_are_joined_for_each_kernel_of_what_they_become(tools: Tools, tmp_path: Path) -> None:
    (file := tmp_path / "program.mlir").write_text(example("queries_keys_values"))
    operations = read(preprocess(tools, file, FLAGS, timeout=120))
    assert [operation.problems[0] for operation in operations] == [JOINED, PACKED]
    for operation in operations:
        calls = [kernel_call(operation.problems[0])]
        (spec := tmp_path / "spec.mlir").write_text(spec_mlir(calls, forms=[forms_of(operation.readings[:1])]))
        text = preprocess(tools, file, [*FLAGS, *spec_flags(spec, [calls[0].instance])], timeout=120)
        assert prove(text, kernel_calls(calls)).found == (1,)
        assert "batch_matmul" not in text


def test_layers_are_joined_before_an_attention_that_is_written_out(tools: Tools, tmp_path: Path) -> None:
    (file := tmp_path / "program.mlir").write_text(unfused_layers())
    first, _, last = read(preprocess(tools, file, FLAGS, timeout=120))
    assert [first.problems[0], last.problems[0]] == [JOINED, PACKED]
    calls = [kernel_call(problem) for problem in (JOINED, PACKED)]
    (spec := tmp_path / "spec.mlir").write_text(
        spec_mlir(calls, forms=[forms_of(operation.readings[:1]) for operation in (first, last)])
    )
    text = preprocess(tools, file, [*FLAGS, *spec_flags(spec, [call.instance for call in calls])], timeout=120)
    assert prove(text, kernel_calls(calls)).found == (1, 1)
    assert not re.search("matmul|math.exp", text)


@pytest.mark.parametrize(
    "text",
    [example("gate"), example("queries_keys_values"), unfused_layers()],
    ids=["gate", "queries_keys_values", "written out"],
)
def test_a_joined_program_computes_the_same(text: str, tools: Tools, tmp_path: Path) -> None:
    hold_same_results(tools, text, tmp_path)


# --- causal masks -----------------------------------------------------------------------------------------------------


EXPORTED = EXAMPLES / "exported" / "torch_causal.mlir"
MANY = replace(Attention.parse(shape="2x1x8x8x4", dtype="f16", causal=True), flat=True)
FEW = replace(Attention.parse(shape="2x1x4x8x4", dtype="bf16", causal=True), flat=True)
HEADS = Attention.parse(shape="2x3x8x16x4", dtype="f16", causal=True)
"""In four dimensions, as its own template has it."""


@pytest.fixture(scope="module")
def exported(tools: Tools) -> str:
    return preprocess(tools, EXPORTED, FLAGS, timeout=120)


def by_function(text: str) -> dict[str, Operation]:
    """The attention of each function."""
    with ir.Context() as context:
        module = parse(text, context)
        bodies = [op for op in walk(module.operation) if op.name == "util.func" and any(map(is_main, walk(op)))]
        names = [ir.StringAttr(op.attributes["sym_name"]).value.removesuffix("$async") for op in bodies]
    return dict(zip(names, read_operations(text), strict=True))


def test_torchs_causal_masks_are_known_however_they_are_spelt_and_no_other_is(exported: str) -> None:
    found = {name: operation.problems for name, operation in by_function(exported).items()}
    causal = [name for name in found if name.startswith("causal_")]
    assert len(causal) == 9
    assert found == {**dict.fromkeys(found, ()), **dict.fromkeys(causal, (MANY,)), "causal_few": (FEW,)}


def test_a_mask_is_refused_for_what_it_holds(exported: str) -> None:
    """Of all that are not causal only one is not understood: a weight, which no matcher could tell from others."""
    with ir.Context() as context:
        module = parse(exported, context)
        attentions = [op for op in walk(module.operation) if is_main(op)]
        unknown = [known_values(op.operands[4]) is None for op in attentions]
    not_understood = [name for name, none in zip(by_function(exported), unknown, strict=True) if none]
    assert not_understood == ["other_stored"]


def test_a_spec_takes_every_spelling_and_leaves_the_others(exported: str, tools: Tools, tmp_path: Path) -> None:
    readings = [reading for operation in by_function(exported).values() for reading in operation.readings]
    calls = [kernel_call(problem) for problem in (MANY, FEW)]
    forms = [forms_of(reading for reading in readings if reading.problem == call.problem) for call in calls]
    spec = tmp_path / "spec.mlir"
    spec.write_text(spec_mlir(calls, forms=forms))
    flags = [*FLAGS, *spec_flags(spec, [call.instance for call in calls])]
    text = preprocess(tools, EXPORTED, flags, timeout=120)
    proof = prove(text, kernel_calls(calls))
    assert (proof.found, len(proof.instead)) == ((8, 1), 9)
    with ir.Context() as context:
        module = parse(text, context)
        functions = [op for op in walk(module.operation) if op.name == "util.func"]
        replaced = [op for op in functions if any(inner.name == "hal.dispatch.extern" for inner in walk(op))]
        assert all("causal_" in str(op.attributes["sym_name"]) for op in replaced)
        # With the attention goes what made its mask.
        assert not [inner for op in replaced for inner in walk(op) if inner.name == "linalg.generic"]


@pytest.mark.parametrize(
    ("old", "new", "known"),
    [
        ("", "", True),
        ("cmpi sge, %i, %j", "cmpi sle, %j, %i", True),
        ("cmpi sge, %i, %j", "cmpi uge, %i, %j", True),
        ("cmpi sge, %i, %j", "cmpi sgt, %i, %j", False),
        ("cmpi sge, %i, %j", "cmpi sle, %i, %j", False),
        ("cmpi sge, %i, %j", "cmpi sge, %j, %i", False),
        # Soft caps and other things are done to scores in the region of the operation.
        ("iree_linalg_ext.yield %score", "%cap = math.tanh %score : f32\n    iree_linalg_ext.yield %cap", False),
        ("arith.constant 0.5", "arith.constant 0.25", False),
    ],
)
def test_four_dimensions_are_read_by_what_they_hold_too(old: str, new: str, known: bool) -> None:
    (operation,) = read_operations(problem_mlir(HEADS).replace(old, new))
    assert operation.problems == ((HEADS,) if known else ())


SCORES = Path(__file__).with_name("mask_of_heads.mlir").read_text()


@pytest.mark.parametrize(
    ("last", "known"), [("%i", True), ("%last", False)], ids=["one mask for all heads", "another mask for each head"]
)
def test_a_mask_of_scores_for_each_head_is_causal_if_all_of_them_are(last: str, known: bool) -> None:
    text = problem_mlir(HEADS)
    start, end = text.index("  %unmasked"), text.index("  %empty")
    text = text[:start] + SCORES.replace("LAST", last) + text[end:]
    text = text.replace("tensor<8x16xi1>", "tensor<2x3x8x16xf16>").replace("-> (m, k2)", "-> (b, h, m, k2)")
    (operation,) = read_operations(text)
    assert operation.problems == ((HEADS,) if known else ())
