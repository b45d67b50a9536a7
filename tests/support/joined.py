"""Layers that a spec joins to one product: what is read of a program, and what it computes with them joined."""

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
from autotuner.problems import Array, Problem
from autotuner.system import process
from autotuner.targets import Target


def numbers(*shape: int, seed: int) -> str:
    """Eighths between -1 and 1, as MLIR writes a tensor's elements."""
    return str(_eighths(*shape, seed=seed).tolist())


def _eighths(*shape: int, seed: int) -> Array:
    found: Array = np.random.default_rng(seed).integers(-8, 9, shape) / 8
    return found


def read(text: str) -> tuple[Operation, ...]:
    """With all joined that can be."""
    return read_operations(text, joins=read_joins(text))


def problems(text: str) -> list[Problem]:
    """The widest of each operation."""
    return [operation.problems[0] for operation in read(text)]


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
    x = _eighths(2, 8, 8, seed=3).astype(np.float16)
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
