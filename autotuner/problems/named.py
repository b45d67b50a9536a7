"""The problem that a name means: specs, flagfiles and results name theirs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from autotuner.errors import UsageError
from autotuner.problems.attention import Attention
from autotuner.problems.base import Problem
from autotuner.problems.conv import LAYOUTS as CONV_LAYOUTS
from autotuner.problems.conv import Conv
from autotuner.problems.gemm import LAYOUTS, Gemm

_STEPS = {"s": "stride", "d": "dilation", "p": "pad"}
_BATCHED = 4
"""Sizes of a product with its batch."""


def problem_named(name: str) -> Problem | None:
    """The problem that has this very name; None where it is no operation's."""
    op, *parts = name.split("_")
    parse = {"gemm": _gemm, "conv": _conv, "attention": _attention}.get(op)
    if parse is None:
        return None
    with suppress(UsageError, ValueError, IndexError):
        found = parse(parts)
        return found if found.name == name else None
    return None


def _gemm(parts: Sequence[str]) -> Problem:
    shape, dtype, acc, *rest = parts
    batch, _, sizes = shape.partition("x") if shape.count("x") + 1 == _BATCHED else ("1", "", shape)
    layout = next((number for number, part in enumerate(rest) if part in LAYOUTS), len(rest))
    return Gemm.parse(
        shape=sizes,
        batch=int(batch),
        dtype=dtype,
        acc=acc,
        out=rest[0] if layout else None,
        layout=rest[layout],
        epilogue=_epilogue(rest[layout + 1 :]),
    )


def _conv(parts: Sequence[str]) -> Problem:
    shape, filter, *rest = parts
    groups, steps = "1", {}
    while rest and rest[0][1:2].isdigit() and rest[0][0] in ("g", *_STEPS):
        word, value = rest[0][0], rest.pop(0)[1:]
        if word == "g":
            groups = value
        else:
            steps[_STEPS[word]] = value
    dtype, *rest = rest
    layouts = {layout.partition("-")[0]: layout for layout in CONV_LAYOUTS}
    place = next((number for number, part in enumerate(rest) if part in layouts), len(rest))
    return Conv.parse(
        shape=shape,
        filter=filter,
        groups=int(groups),
        dtype=dtype,
        out=rest[0] if place else None,
        layout=layouts[rest[place]],
        epilogue=_epilogue(rest[place + 1 :]),
        **steps,
    )


def _attention(parts: Sequence[str]) -> Problem:
    shape, dtype, *rest = parts
    attention = Attention.parse(shape=shape, dtype=dtype, causal="causal" in rest)
    layout = rest[-1] if rest and rest[-1] in Attention.layouts else attention.layout
    return replace(attention, flat="flat" in rest, layout=layout)


def _epilogue(parts: Sequence[str]) -> str:
    """`bias`, `clip0to6` and `clipm1to0p5` as the command line has them."""
    words = []
    for part in parts:
        if part.startswith("clip"):
            low, _, high = part.removeprefix("clip").replace("m", "-").replace("p", ".").partition("to")
            words.append(f"clip={low}:{high}")
        else:
            words.append(part)
    return ",".join(words)
