"""Convolutions that stay out of im2col: which they are, and that the compiler does as the spec says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from iree.compiler import ir

from autotuner import Target
from autotuner.carriers.microkernel import SPEC_FLAG
from autotuner.carriers.render import STAYS, pieces_mlir
from autotuner.iree.compile import Compile, inspect
from autotuner.iree.mlir import parse
from autotuner.iree.tools import Tools
from autotuner.jobs.model.pieces import Piece, read_pieces, staying
from autotuner.specfiles.vetting import vet_spec
from autotuner.targets.knobs import named_route, with_passes
from tests.support.models import EXAMPLES

CPU = Target.parse("cpu")
PROGRAM = EXAMPLES / "two_convs.mlir"
BOTH = with_passes(
    (*named_route(CPU.knobs, "im2col").flags, *named_route(CPU.knobs, "nchwc+data-tiling+ukernels").flags),
    "util.func(iree-global-opt-detach-elementwise-from-named-ops)",
)


@pytest.fixture(scope="module")
def pieces() -> tuple[Piece, ...]:
    return read_pieces(inspect(Compile(PROGRAM, CPU.compile_flags, 60, stop="preprocessing"), Tools.find()).text)


def test_convolutions_are_read_with_their_sizes_and_counted(pieces: tuple[Piece, ...]) -> None:
    assert [piece.conv.name for piece in pieces] == [
        "conv_1x30x30x16_3x3x32_f32_nchw",
        "conv_1x28x28x32_1x1x8_f32_nchw",
    ]
    text = PROGRAM.read_text()
    first = text.index("  %r = linalg.conv")
    line = text[first : text.index("\n", first) + 1]
    twice = text[:first] + line.replace("%r =", "%other =") + text[first:]
    assert [piece.calls for piece in read_pieces(twice)] == [2, 1]
    start, _, end = text.rpartition("dilations = dense<1>")
    assert read_pieces(f"{start}dilations = dense<2>{end}") == pieces[:1]


def test_what_saves_a_tenth_as_tiles_stays(pieces: tuple[Piece, ...]) -> None:
    large, small = (piece.conv for piece in pieces)
    im2col = {large: 100.0, small: 10.0}
    assert staying(pieces, im2col, {large: 80.0, small: 9.5}) == pieces[:1]
    assert staying(pieces, im2col, {large: 95.0}) == ()
    assert staying(pieces, {small: 10.0}, {large: 80.0, small: 20.0}) == pieces[:1]


def test_each_convolution_goes_as_the_spec_says(pieces: tuple[Piece, ...], tmp_path: Path) -> None:
    """The 3x3 one stays a convolution, on operands that are packed in tiles; the 1x1 one is a product."""
    spec = tmp_path / "specs.pieces.mlir"
    spec.write_text(pieces_mlir(pieces[:1], header=["by autotune"]))
    with ir.Context() as context:
        vet_spec(parse(spec.read_text(), context), name=spec.name)
    job = Compile(PROGRAM, (*CPU.compile_flags, *BOTH, f"{SPEC_FLAG}={spec}"), 60, stop="preprocessing")
    tools = Tools.find()
    assert inspect(job, tools).text.count(STAYS) == 1
    sources = inspect(replace(job, stop="flow"), tools).text
    assert "conv_32x28x28x16x3x3_f32" in sources
    assert "matmul_8x784x32_f32" in sources
    assert "encode_32x16x3x3xf32" in sources or "op_type = conv" in sources
    without = inspect(replace(job, flags=(*CPU.compile_flags, *BOTH), stop="flow"), tools).text
    assert "conv_32x28x28x16x3x3_f32" not in without
