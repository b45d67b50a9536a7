"""Kernels in C on the other architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autotuner.build import Builder
from autotuner.iree.processor import executable_target
from autotuner.microkernels.instance import Call, shipped_folder
from autotuner.microkernels.library import all_manifests, find
from autotuner.microkernels.manifest import Manifest
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.otherarch.conftest import Run
from tests.support.kernels import job_of

SHIPPED = [m for m in all_manifests([shipped_folder()], OPERATIONS).manifests if m.provider.kind == "c"]
PRODUCTS = [m for m in SHIPPED if m.operation == "gemm"]
CONV = find("conv_c", [shipped_folder()], OPERATIONS)
CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "plain": {"shape": "1x9x10x12", "filter": "3x3x20", "pad": "1x1", "epilogue": "bias,residual,clip=-0.5:1.5"},
    "strided": {"shape": "1x9x7x5", "filter": "3x2x6", "stride": "2x2", "dilation": "1x2", "epilogue": "gelu"},
    "depthwise": {"shape": "1x9x9x20", "filter": "5x5x20", "pad": "2x2", "groups": 20, "epilogue": "bias,silu"},
}
SHAPE = "50x61x140"
"""Ragged in every direction, and deeper than one panel."""


@dataclass(frozen=True)
class Bench:
    """What the tests do with a kernel here."""

    target: Target
    made_for: str
    run: Run
    folder: Path

    def call(self, manifest: Manifest, problem: Problem, changes: Mapping[str, int] | None = None) -> Call:
        variants = Variants.of(
            manifest, problem, self.target.machine, workspace=self.folder, executable_target=self.made_for
        )
        wanted = {**variants.default().as_dict(), **(changes or {})}
        return variants.call(variants.space[variants.space.nearest(wanted)])

    def check(self, call: Call) -> str:
        """Why the kernel's result is wrong; empty: it is right."""
        checked = self.run(job_of(call, self.target.compile_flags, self.made_for), call.problem)
        return "" if checked.ok else f"{checked.failure}: {checked.detail}"


@pytest.fixture
def bench(target: Target, builder: Builder, run: Run, tmp_path: Path) -> Bench:
    text = builder.inspect(problem_mlir(Gemm.parse(shape=SHAPE, dtype="f32")), target.compile_flags, timeout=120)
    return Bench(target, executable_target(text), run, tmp_path)


def product(manifest: Manifest, shape: str, **words: Any) -> Gemm:
    """Of one row where the kernel takes no more."""
    rows, rest = ("1", shape.partition("x")[2]) if manifest.name == "sgemv_c" else shape.split("x", 1)
    return Gemm.parse(shape=f"{rows}x{rest}", dtype="f32", **words)


@pytest.mark.parametrize("manifest", PRODUCTS, ids=lambda manifest: manifest.name)
def test_every_shipped_product_in_c_is_right_there(manifest: Manifest, bench: Bench) -> None:
    """With both operands transposed and not; `test_c_kernels` has all layouts and settings, without IREE."""
    other_settings = {name: values[-1] for name, values in manifest.parameters.items()}
    calls = [
        bench.call(manifest, product(manifest, SHAPE, layout=manifest.layouts[-1])),
        bench.call(manifest, product(manifest, "33x70x5", batch=3), other_settings),
    ]
    assert len({call.instance.name for call in calls}) > 1
    wrong = {call.problem.name: why for call in calls if (why := bench.check(call))}
    assert wrong == {}


@pytest.mark.parametrize(
    ("layout", "names"), [("nhwc-hwcf", ("plain", "depthwise")), ("nchw-fchw", ("plain", "strided"))]
)
def test_the_shipped_convolution_in_c_is_right_there(layout: str, names: tuple[str, ...], bench: Bench) -> None:
    assert layout in CONV.layouts
    problems = [Conv.parse(dtype="f32", layout=layout, **CONVOLUTIONS[name]) for name in names]
    wrong = {problem.name: why for problem in problems if (why := bench.check(bench.call(CONV, problem)))}
    assert wrong == {}
