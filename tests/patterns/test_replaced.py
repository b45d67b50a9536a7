"""What is recognised is replaced: a spec calls kernels in its place, and the numbers stay as they are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import SPEC_FLAG, function_name, spec_mlir
from autotuner.iree.tools import Tools
from autotuner.patterns.joins import joined_mlir
from autotuner.patterns.operations import forms_of, read_joins
from autotuner.problems import Array, Attention, Gemm
from autotuner.problems.render import problem_mlir
from autotuner.system import process
from autotuner.targets import Target
from tests.support.kernels import spec_flags
from tests.support.patterns import GATED, JOINED, PACKED, example, kernel_call, read

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
        (example("norm_torch_rms"), "matmul|sqrt|powf", False),
        (example("norm_torch_layer"), "matmul|sqrt|powf", False),
        (example("norm_onnx_rms"), "matmul|sqrt|powf", False),
        (example("heads"), "linalg.transpose|linalg.generic", False),
        *[
            (attention(layout, causal=causal), "linalg.transpose|linalg.generic", True)
            for layout in ("bshd", "bs3hd")
            for causal in (False, True)
        ],
    ],
    ids=["gate", "joined", "torch rms", "torch layer", "onnx rms", "heads", "bshd", "bshd causal", "packed", "causal"],
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


@pytest.mark.parametrize("name", ["gate", "queries_keys_values"])
def test_a_joined_program_computes_the_same(name: str, tools: Tools, tmp_path: Path) -> None:
    hold_same_results(tools, example(name), tmp_path)


def test_a_gate_and_what_it_is_for_are_one_product() -> None:
    (operation,) = read(example("gate"))
    assert operation.problems[0] == GATED


@pytest.mark.parametrize("name", ["norm_torch_rms", "norm_torch_layer", "norm_onnx_rms"])
def test_a_norm_in_the_weights_leaves_the_numbers_as_they_are(name: str, tools: Tools, tmp_path: Path) -> None:
    (file := tmp_path / "program.mlir").write_text(example(name))
    (operation,) = read(preprocess(tools, file, FLAGS, timeout=120))
    problem = operation.problems[0]
    assert isinstance(problem, Gemm)
    spec = tmp_path / "spec.mlir"
    spec.write_text(
        computing_itself(spec_mlir([kernel_call(problem)], forms=[forms_of(operation.readings[:1])]), problem)
    )
    cpu = Target.parse("cpu").compile_flags
    x = np.random.default_rng(3).standard_normal((2, 8, 8)).astype(np.float16)
    plain, folded = (computed(tools, file, [*cpu, *more], x) for more in ((), (f"{SPEC_FLAG}={spec}",)))
    assert np.abs(plain).max() > 0.5
    np.testing.assert_allclose(folded, plain, rtol=5e-3, atol=5e-3)


def computing_itself(spec: str, problem: Gemm) -> str:
    """The spec with the problem's own operations in the place of its kernel."""
    own = problem_mlir(problem)
    head, body = own[own.index("func.func") :].split("{\n", 1)
    inputs = re.findall(r"(%\w+: tensor<[^>]*>)(?=, )", head)
    function = f"util.func private @{function_name(0)}({', '.join(inputs)}) -> {problem.output.mlir} {{\n"
    function += body.rstrip().removesuffix("}").replace("  return ", "  util.return ") + "  }\n"
    there = re.compile(rf"  util\.func private @{function_name(0)}\(.*?\n  }}\n", re.S)
    replaced, count = there.subn(lambda _: function, spec, count=1)
    assert count == 1
    return own[: own.index("func.func")] + replaced
