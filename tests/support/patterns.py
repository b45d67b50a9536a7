"""Examples of what is recognised in programs: what is read of them, and what they compute with layers joined."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from autotuner.carriers.calls import preprocess
from autotuner.carriers.microkernel import SPEC_FLAG
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Binding, Call, Instance
from autotuner.patterns.joins import joined_mlir
from autotuner.patterns.operations import Operation, read_joins, read_operations
from autotuner.problems import Array, Attention, Gemm, Problem
from autotuner.system import process
from autotuner.targets import Target

FOLDER = Path(__file__).parents[1] / "patterns" / "examples"
JOINED = Gemm.parse(shape="16x36x8", out="f16", epilogue="bias")
PACKED = replace(Attention.parse(shape="2x3x8x8x4"), layout="bs3hd")
"""What the layers of `queries_keys_values` become, and the attention of what they give."""
GATED = Gemm.parse(shape="16x64x8", out="f16", epilogue="silu,gated")
GATE = replace(GATED, n=32, epilogue=replace(GATED.epilogue, gated=False))


def example(name: str, *changes: tuple[str, str]) -> str:
    """An example, changed by exact replacements."""
    text = (FOLDER / f"{name}.mlir").read_text()
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return text


def read(text: str) -> tuple[Operation, ...]:
    """With all joined that can be."""
    return read_operations(text, joins=read_joins(text))


def names(text: str) -> list[list[str]]:
    """All that each operation can be taken for."""
    return [[problem.name for problem in operation.problems] for operation in read(text)]


def kernel_call(problem: Problem) -> Call:
    """Of a kernel for gfx942 that nobody runs."""
    *inputs, out = (Binding(n, "read", operand) for n, operand in enumerate(problem.operands))
    bindings, name = (*inputs, replace(out, access="write")), f"kernel_{problem.op}"
    kernel = Instance(name, name, "gfx942", (Path("k.hsaco"),), bindings, (), (64, 1, 1), 64, 0, (1, 1, 1))
    return Call(kernel, problem)


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
