"""Routes are products of knobs: what goes together, what comes first, and that the compiler takes every flag."""

from __future__ import annotations

import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from autotuner import Target
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.specfiles.flagfile import objection
from autotuner.system import process
from autotuner.targets.knobs import KNOBS, named_route, route_of, sensible
from tests.support.patience import ENOUGH

CPU = Target.parse("cpu")
EXAMPLES = Path(__file__).parents[1] / "jobs" / "model" / "examples"
PIPELINE = "--iree-preprocessing-pass-pipeline"


def names(target: Target, *ops: str) -> list[str]:
    return [route.name for route in target.model_routes(ops, tuple(OPERATIONS.values()))]


def test_settings_that_do_nothing_together_are_left_out() -> None:
    assert sensible(CPU.knobs, {"ukernels", "data-tiling", "im2col"}) == ("im2col", "data-tiling", "ukernels")
    assert sensible(CPU.knobs, {"ukernels", "im2col"}) == ("im2col",)
    assert sensible(CPU.knobs, {"nchwc", "global-data-tiling"}) == ("global-data-tiling",)
    assert sensible(CPU.knobs, {"O3", "aggressive-fusion"}) == ("O3",)
    assert sensible(CPU.knobs, {"aggressive-fusion"}) == ("aggressive-fusion",)
    assert sensible(CPU.knobs, {"im2col", "channels-last"}) == ("im2col",)


def test_a_route_has_one_preprocessing_pipeline() -> None:
    route = route_of(CPU.knobs, ("channels-last", "decomposed", "data-tiling"))
    assert route.name == "channels-last+decomposed+data-tiling"
    assert not route.reachable
    pipeline, tiling = route.flags
    assert pipeline.startswith(
        f"{PIPELINE}=builtin.module(iree-preprocessing-transpose-convolution-pipeline,util.func("
    )
    assert tiling == "--iree-opt-data-tiling"
    assert not objection([*CPU.compile_flags, *route.flags])


def test_a_route_is_named_by_its_settings() -> None:
    assert named_route(CPU.knobs, "data-tiling+im2col").name == "im2col+data-tiling"
    assert named_route(CPU.knobs, "plain").flags == ()
    for wrong, words in (("im2cool", "no setting"), ("ukernels", "does nothing"), ("im2col+channels-last", "does no")):
        with pytest.raises(UsageError, match=words):
            named_route(CPU.knobs, wrong)


def test_what_usually_wins_comes_first() -> None:
    intel, neoverse = (
        Target.parse("cpu", flags=[f"--iree-llvmcpu-target-triple={machine}-linux-gnu"])
        for machine in ("x86_64", "aarch64")
    )
    assert names(intel, "conv", "gemm")[:3] == [
        "plain",
        "im2col+data-tiling+ukernels",
        "im2col+global-data-tiling+ukernels",
    ]
    assert names(neoverse, "conv", "gemm")[:3] == ["plain", "im2col+data-tiling+ukernels", "im2col+data-tiling"]
    assert names(intel, "attention", "gemm")[1] == "decomposed+data-tiling+ukernels"
    assert names(intel, "attention", "conv")[1] == "im2col+decomposed+data-tiling+ukernels"
    assert names(intel, "gemm")[1] == "data-tiling+ukernels"
    for chip in ("sm_80", "gfx942"):
        assert names(Target.parse(chip), "conv", "gemm")[1] == "channels-last+O3"
        assert names(Target.parse(chip), "gemm")[1] == "O3"


def test_the_kernel_that_iree_has_for_a_product_on_amds_chips_is_a_rival(tmp_path: Path) -> None:
    target, problem = Target.parse("gfx942"), Gemm.parse(shape="2048x2048x2048", layout="nt")
    routes = {route.name: route for route in target.routes_for(problem)}
    assert not routes["tensor-ukernels"].reachable, "IREE ignores specs there"
    source = tmp_path / "problem.mlir"
    source.write_text(problem_mlir(problem))

    def configured(route: str) -> str:
        flags = [*target.compile_flags, *routes[route].flags, "--compile-to=executable-configurations"]
        command = [str(Tools.find().iree_compile), str(source), *flags, "-o", "-"]
        return process.run(command, timeout=ENOUGH).stdout

    assert "pingpong" not in configured("plain")
    assert "pingpong" in configured("tensor-ukernels")


def test_what_the_user_sets_is_no_knob() -> None:
    own = Target.parse("cpu", flags=["--iree-opt-data-tiling=false", "--iree-opt-level=O1"])
    left = {setting.name for knob in own.knobs for setting in knob.settings}
    assert not left & {"data-tiling", "O3"}
    assert names(own, "gemm") == ["plain", "global-data-tiling+ukernels"]


def test_the_compiler_takes_every_flag_of_every_knob(tmp_path: Path) -> None:
    """A misspelt flag, or a pass of another name, would make its route a failure on every model."""
    chips = (CPU, Target.parse("sm_80"), Target.parse("gfx942"))
    cases = []
    for name in (setting.name for knob in KNOBS for setting in knob.settings):
        chip = next(chip for chip in chips if name in {s.name for knob in chip.knobs for s in knob.settings})
        route = route_of(chip.knobs, (name,))
        assert not objection([*chip.compile_flags, *route.flags]), name
        cases.append((name, chip, route.flags))
    compiler = str(Tools.find().iree_compile)

    def said(case: tuple[str, Target, tuple[str, ...]]) -> str:
        name, chip, flags = case
        words = [compiler, str(EXAMPLES / "conv.mlir"), *chip.compile_flags, *flags, "--compile-to=preprocessing"]
        done = subprocess.run([*words, "-o", str(tmp_path / name)], capture_output=True, text=True, timeout=ENOUGH)
        return f"{name}: {done.stderr}" if done.returncode or done.stderr else ""

    with ThreadPoolExecutor(2) as pool:
        assert not [words for words in pool.map(said, cases) if words]
