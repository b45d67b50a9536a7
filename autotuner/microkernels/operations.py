"""What a manifest may say of each operation: the names of its operands, of its sizes, and of its dimensions."""

from __future__ import annotations

from collections.abc import Mapping

from autotuner.problems import Attention, Conv, Gemm, Problem
from autotuner.problems.conv import LAYOUTS as CONV_LAYOUTS
from autotuner.problems.gemm import LAYOUTS as GEMM_LAYOUTS

OPERANDS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("lhs", "rhs", "out"),
    "conv": ("image", "weights", "out"),
    "attention": ("query", "key", "value", "out"),
}
"""In the problem's order; the output is the last."""
LAYOUTS: Mapping[str, tuple[str, ...]] = {"gemm": GEMM_LAYOUTS, "conv": CONV_LAYOUTS, "attention": ()}
_EXAMPLES: Mapping[str, Problem] = {
    "gemm": Gemm(1, 1, 1),
    "conv": Conv(1, 1, 1, 1, 1, 1, 1),
    "attention": Attention(1, 1, 1, 1, 1),
}


def variables(problem: Problem) -> dict[str, int]:
    """The problem's numbers by the names that expressions use."""
    match problem:
        case Gemm():
            return {"m": problem.m, "n": problem.n, "k": problem.k, "batch": problem.batch}
        case Conv():
            return _conv_variables(problem)
        case Attention():
            return {
                "batch": problem.batch,
                "heads": problem.heads,
                "queries": problem.queries,
                "keys": problem.keys,
                "width": problem.width,
                "causal": int(problem.causal),
            }
    raise ValueError(f"{problem.op} has no microkernels")


def variable_names(operation: str) -> tuple[str, ...]:
    return tuple(variables(_EXAMPLES[operation]))


def dimensions(problem: Problem, operand: str) -> str:
    """A letter for each dimension of the operand, as the problem has it."""
    match problem:
        case Gemm():
            lhs = "mk" if problem.layout[0] == "n" else "km"
            rhs = "kn" if problem.layout[1] == "n" else "nk"
            return ("b" if problem.batch > 1 else "") + {"lhs": lhs, "rhs": rhs, "out": "mn"}[operand]
        case Conv():
            if operand != "weights":
                return "nhwc" if problem.channels_last else "nchw"
            if problem.depthwise:
                return "yxc" if problem.channels_last else "cyx"
            if problem.channels_last:
                return "yxck" if problem.groups == 1 else "gkyxc"
            return "kcyx"
        case Attention():
            return {"query": "bhqd", "out": "bhqd"}.get(operand, "bhkd")
    raise ValueError(f"{problem.op} has no microkernels")


def spelled(operation: str, operand: str, layout: str) -> str:
    """The layout in the letters of `dimensions`: filters are known as HWCF and as YXCK, results as NHWK too."""
    if operation != "conv":
        return layout
    return layout.translate(str.maketrans("hwf", "yxk") if operand == "weights" else str.maketrans("kf", "cc"))


def letters(operation: str, operand: str) -> str:
    """All letters that a layout of this operand may have."""
    if operation == "gemm":
        return {"lhs": "bmk", "rhs": "bkn", "out": "bmn"}[operand]
    if operation == "conv":
        return "gkyxc" if operand == "weights" else "nhwc"
    return "bhqd" if operand in ("query", "out") else "bhkd"


def permutation(problem: Problem, operand: str, layout: str) -> tuple[int, ...] | None:
    """How the operand's dimensions are reordered to give this layout; None where they are not the same dimensions.

    A batch or group that the layout leaves out stays outermost.
    """
    have = dimensions(problem, operand)
    want = spelled(problem.op, operand, layout)
    if have[0] in "bg" and have[0] not in want:
        want = have[0] + want
    if sorted(have) != sorted(want):
        return None
    return tuple(have.index(letter) for letter in want)


def _conv_variables(conv: Conv) -> dict[str, int]:
    height, width = conv.output_size
    return {
        "n": conv.n,
        "h": conv.h,
        "w": conv.w,
        "c": conv.c,
        "kh": conv.kh,
        "kw": conv.kw,
        "f": conv.f,
        "stride_h": conv.stride[0],
        "stride_w": conv.stride[1],
        "dilation_h": conv.dilation[0],
        "dilation_w": conv.dilation[1],
        "pad_h": conv.pad[0],
        "pad_w": conv.pad[1],
        "groups": conv.groups,
        "ho": height,
        "wo": width,
        # The same by the names that MISA and MIOpen have for them.
        "hi": conv.h,
        "wi": conv.w,
        "k": conv.f,
        "y": conv.kh,
        "x": conv.kw,
        "group": conv.groups,
    }
