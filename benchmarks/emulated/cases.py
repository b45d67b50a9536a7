"""What is executed: problems on chips. They are small: an emulated multiply-add takes a millionth of a second."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.convnd import ConvNd
from autotuner.targets import Target
from benchmarks.emulated.channels_first import ChannelsFirst

Rows = tuple[int, int | None]


@dataclass(frozen=True)
class Case:
    """A problem on a chip; with `rows` the specs of a bucket, in a program whose M is known only when it runs."""

    chip: str
    problem: Problem
    rows: Rows | None = None

    @property
    def name(self) -> str:
        if self.rows is None:
            return f"{self.problem.name} on {self.chip}"
        low, high = self.rows
        return f"{self.problem.name} on {self.chip}, M {low} to {high or 'any'}"

    @property
    def called(self) -> Problem:
        """The problem with the chip's own types."""
        return Target.parse(self.chip).prepare(self.problem)

    @property
    def tuned(self) -> Problem:
        """The problem that its candidates are for: at the bound of its bucket."""
        called = self.called
        if self.rows is None or not isinstance(called, Gemm):
            return called
        return replace(called, m=self.rows[1] or 2 * (self.rows[0] - 1))


_PLAIN = Gemm.parse(shape="128x128x256")
_TURNED = Gemm.parse(shape="128x128x256", layout="nt", dtype="bf16")
_ODD = Gemm.parse(shape="100x72x56", layout="nt")
_ROUNDED = Gemm.parse(shape="128x128x128", layout="nt", out="f16", epilogue="bias,gelu")
_BATCH = Gemm.parse(shape="128x128x128", batch=4)
_VECTOR = Gemm.parse(shape="1x256x512", layout="nt")
_INTEGERS = Gemm.parse(shape="128x128x256", dtype="i8")
_EIGHT = Gemm.parse(shape="128x128x256", dtype="f8", layout="nt")
_BY_ROWS = Gemm.parse(shape="128x128x256", dtype="f8row")
_BY_BLOCKS = Gemm.parse(shape="128x128x256", dtype="f8b128")
_CONV = Conv.parse(shape="2x16x16x64", filter="3x3x64")
_CONV_NCHW = Conv.parse(shape="2x16x16x64", filter="3x3x64", layout="nchw-fchw")
_VOLUME = ConvNd.parse(shape="1x4x8x8x32", filter="3x3x3x32", pad="1x1x1")
_BACK_DATA = ConvNd.parse(shape="1x16x16x32", filter="3x3x32", direction="data", pad="1x1")
_BACK_WEIGHT = ConvNd.parse(shape="2x16x16x32", filter="3x3x32", direction="weight", pad="1x1")
_GROUPS = tuple(
    ConvNd.parse(shape="1x16x16x64", filter="3x3x64", direction=one, pad="1x1", groups=2) for one in ("forward", "data")
)
_NEAR = tuple(
    ChannelsFirst.parse(shape=shape, filter="3x3x64", direction=one, pad="1x1", groups=groups, out="f16")
    for shape, one, groups in (
        ("1x16x16x32", "weight", 1),
        ("1x16x16x64", "forward", 2),
        ("2x14x14x64", "weight", 2),
    )
)
"""Convolutions whose space lies near the compiler's own choice."""
_ATTENTION = Attention.parse(shape="1x2x128x128x64")
_ANY_M = Gemm.parse(shape="77x128x128", layout="nt")
_BATCH_ANY_M = Gemm.parse(shape="77x128x128", layout="nt", batch=3)
_CONVS = (_CONV, _CONV_NCHW, _VOLUME, _BACK_DATA, _BACK_WEIGHT)
_BASIC = (_PLAIN, _TURNED, _ODD, _ROUNDED, _BATCH, _VECTOR, _INTEGERS)
_CHIPS: dict[str, tuple[Problem, ...]] = {
    "gfx942": (*_BASIC, _EIGHT, _BY_ROWS, _BY_BLOCKS, *_CONVS, *_GROUPS, *_NEAR, _ATTENTION),
    "gfx950": (
        *_BASIC,
        _EIGHT,
        _BY_ROWS,
        _BY_BLOCKS,
        Gemm.parse(shape="128x128x256", dtype="mxfp4"),
        Gemm.parse(shape="128x128x256", dtype="mxfp8"),
        Gemm.parse(shape="100x72x256", dtype="mxfp4"),
        Gemm.parse(shape="100x72x256", dtype="mxfp8"),
        *_CONVS,
        _ATTENTION,
    ),
    "gfx1100": (*_BASIC, *_CONVS, _ATTENTION),
    "gfx1201": (*_BASIC, _EIGHT, *_CONVS, *_NEAR, _ATTENTION),
    "gfx90a": (_PLAIN, _TURNED, _BATCH, _INTEGERS, *_CONVS, _ATTENTION),
    "gfx908": (_PLAIN, _BATCH, _INTEGERS, *_CONVS, _ATTENTION),
}
_BUCKETS = ("gfx942", "gfx950", "gfx1100", "gfx1201")
_ROWS: tuple[Rows, ...] = ((65, 128), (65, None))


def every_case() -> Iterator[Case]:
    for chip, problems in _CHIPS.items():
        for problem in problems:
            yield Case(chip, problem)
        for problem in (_ANY_M, _BATCH_ANY_M) if chip in _BUCKETS else ():
            for rows in _ROWS:
                yield Case(chip, problem, rows)
