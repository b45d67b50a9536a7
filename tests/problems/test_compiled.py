"""What the templates render is what the reference computes: IREE's default compile agrees, for every variant."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.devices.process import ProcessDevice
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.convnd import ConvNd
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target

CONVS = [
    Conv.parse(shape="2x7x8x4", filter="3x2x6", dtype="i8"),
    Conv.parse(shape="1x7x8x4", filter="3x2x6", stride="2x1", dilation="1x2", pad="1x2", dtype="f32"),
    Conv.parse(shape="2x7x8x4", filter="3x2x6", groups=2, dtype="f16"),
    Conv.parse(shape="2x7x8x4", filter="3x2x4", groups=4, pad="1x1", dtype="f32"),
    Conv.parse(shape="2x7x8x4", filter="3x2x6", pad="1x2", stride="1x2", dtype="f32", layout="nchw-fchw"),
    Conv.parse(shape="2x7x8x4", filter="3x2x6", groups=2, pad="1x1", dtype="i8", layout="nchw-fchw"),
    Conv.parse(shape="2x7x8x4", filter="3x2x4", groups=4, dtype="f16", layout="nchw-fchw"),
    Conv.parse(shape="2x7x8x4", filter="3x2x8", groups=4, pad="1x1", dtype="f32", epilogue="bias,relu"),
    Conv.parse(shape="2x8x8x4", filter="3x3x8", pad="1x1", dtype="f8"),
    Conv.parse(shape="2x7x8x4", filter="3x2x6", dtype="f16", out="f16", epilogue="bias,residual,relu"),
    Conv.parse(
        shape="1x14x7x16",
        filter="5x2x32",
        stride="2x1",
        dtype="bf16",
        out="bf16",
        layout="nchw-fchw",
        epilogue="bias,residual,hardsigmoid",
    ),
    Gemm.parse(shape="6x48x9", dtype="f32", epilogue="hardswish,gated"),
]
ATTENTIONS = [
    Attention.parse(shape="2x3x16x24x8", dtype="f32"),
    Attention.parse(shape="1x2x24x16x32", dtype="f16", causal=True),
    Attention.parse(shape="1x2x16x32x32", dtype="bf16"),
    Attention.parse(shape="1x2x32x32x32", dtype="f8"),
    replace(Attention.parse(shape="2x3x16x24x8", dtype="f32", causal=True), flat=True),
]
GEMMS = [
    Gemm.parse(shape="12x20x33", dtype="bf16", out="bf16"),
    Gemm.parse(shape="12x20x33", dtype="f16", out="f16", batch=3, layout="nt"),
    Gemm.parse(shape="12x20x33", dtype="f8", out="bf16"),
    Gemm.parse(shape="100x1x77", dtype="i8"),
    Gemm.parse(shape="96x16x8", dtype="f8", layout="tn", out="bf16", epilogue="bias,sigmoid"),
    Gemm.parse(shape="12x32x33", dtype="f16", out="f16", epilogue="silu,gated"),
    Gemm.parse(shape="12x20x96", dtype="mxfp4", epilogue="bias,relu"),
    Gemm.parse(shape="12x20x96", dtype="mxfp8", out="bf16"),
    Gemm.parse(shape="12x256x384", dtype="f8b128"),
    Gemm.parse(shape="12x24x64", dtype="f8row", out="bf16", epilogue="bias"),
    Gemm.parse(shape="12x24x64", dtype="f8xbf8"),
]
CONVNDS = [
    ConvNd.parse(shape="1x6x7x5x4", filter="2x3x3x8", dtype="f32", pad="1x0x1", stride="1x2x1"),
    ConvNd.parse(shape="2x9x8x6", filter="3x3x4", direction="data", groups=2, out="bf16", dtype="bf16"),
    ConvNd.parse(shape="1x9x9x4", filter="3x2x4", direction="data", stride="2x3", pad="1x1", dilation="2x1"),
    ConvNd.parse(shape="2x9x8x6", filter="3x3x4", direction="weight", stride="2x1", pad="1x1", dtype="i8"),
    ConvNd.parse(shape="3x20x8", filter="3x4", direction="weight", groups=2),
]


Trouble = Callable[[Problem], str]


@pytest.fixture
def trouble(builder: Builder, tools: Tools, tmp_path: Path) -> Trouble:
    """trouble(problem): what is wrong with the result of this processor's code for it, if anything is."""
    target, count = Target.parse("cpu"), iter(range(1000))

    def of(problem: Problem) -> str:
        prepared = target.prepare(problem)
        folder = tmp_path / str(next(count))
        job = BuildJob(problem_mlir(prepared), target.compile_flags, timeout=120)
        build = builder.build(job)
        if not build.ok:
            return f"{problem.name}: {build.stderr[-300:]}"
        data = Data.write(prepared, folder / "data", seed=3)
        result = Checker(ProcessDevice(tools, "local-sync", data.folder), data, timeout=120).check(build.vmfb)
        return "" if result.ok else f"{problem.name}: {result.detail}"

    return of


@pytest.mark.parametrize("problems", [CONVS, CONVNDS, ATTENTIONS, GEMMS], ids=["conv", "convnd", "attention", "gemm"])
def test_the_default_compile_agrees_with_the_reference(
    problems: list[Problem], trouble: Trouble, executor: Executor
) -> None:
    assert [text for text in executor.map(trouble, problems) if text] == []
