"""What is recognised is replaced: a spec calls kernels in its place, and the numbers stay as they are."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.microkernel import SPEC_FLAG, spec_mlir
from autotuner.iree.tools import Tools
from autotuner.patterns.joins import joined_mlir
from autotuner.patterns.operations import forms_of, read_joins
from autotuner.problems import Array
from autotuner.problems.attention import Attention
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
        (example("heads"), "linalg.transpose|linalg.generic", False),
        *[
            (attention(layout, causal=causal), "linalg.transpose|linalg.generic", True)
            for layout in ("bshd", "bs3hd")
            for causal in (False, True)
        ],
    ],
    ids=["gate", "joined", "heads", "bshd", "bshd causal", "packed", "causal"],
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
