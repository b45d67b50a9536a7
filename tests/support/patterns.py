"""Examples of what is recognised in programs: and what is read of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autotuner.microkernels.instance import Binding, Call, Instance
from autotuner.patterns.operations import Operation, read_joins, read_operations
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention

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


def unfused_layers() -> str:
    """The layers of `queries_keys_values`, and the attention of `unfused` of what they give."""
    layers, text = example("queries_keys_values"), example("unfused")
    attention = text[text.index("  %half") : text.index("  util.return")].replace("16", "8").replace("f8", "f16")
    for name in "qkv":
        attention = attention.replace(f"ins(%{name} :", f"ins(%split_{name} :")
        begins = layers.index(f"  %{name}4 =")
        ends = layers.index("tensor<6x8x4xf16>\n", begins) + len("tensor<6x8x4xf16>\n")
        layers = layers[:begins] + layers[ends:]
    given = layers[: layers.index("  %scale = ")].replace("%x", "%tokens")
    return f"{given}{attention}  return %made : tensor<2x8x3x4xf16>\n}}\n"


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
