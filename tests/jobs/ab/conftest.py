"""Programs for experiments: real compiles and checks; times are chosen, but where a test says otherwise."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotuner import Gemm, Options, Target
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.arms import parse_arm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.result import AbResult
from autotuner.jobs.ab.run import run_experiment
from autotuner.programs.model import Model
from autotuner.tuning.options import Effort
from tests.support.fake_tools import BASE_MS, FakeTools

CPU = Target.parse("cpu")
PROBLEM = Gemm.parse(shape="96x64x128", dtype="f32")
EFFORT = Effort(trials=1, budget=1200.0, compile_only_trials=1)
PLAIN, TILED = "--iree-opt-data-tiling=false", "--iree-opt-data-tiling"

TWO_PRODUCTS = """
#lhs = affine_map<(m, n, k) -> (m, k)>
#rhs = affine_map<(m, n, k) -> ({last})>
#out = affine_map<(m, n, k) -> (m, n)>
func.func @main(%a: tensor<64x128xf32>, %b: tensor<128x96xf32>, %c: tensor<{weights}xf32>) -> tensor<64x32xf32> {{
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<64x96xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<64x96xf32>) -> tensor<64x96xf32>
  %x = linalg.matmul ins(%a, %b : tensor<64x128xf32>, tensor<128x96xf32>)
    outs(%f0 : tensor<64x96xf32>) -> tensor<64x96xf32>
  %e1 = tensor.empty() : tensor<64x32xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<64x32xf32>) -> tensor<64x32xf32>
  %y = linalg.matmul indexing_maps = [#lhs, #rhs, #out] ins(%x, %c : tensor<64x96xf32>, tensor<{weights}xf32>)
    outs(%f1 : tensor<64x32xf32>) -> tensor<64x32xf32>
  return %y : tensor<64x32xf32>
}}
"""


@pytest.fixture(scope="session")
def experiments(tmp_path_factory: pytest.TempPathFactory, share_digests: Callable[[Path], None]) -> Path:
    """What these tests share: a build cache, and the labels of what is in it. Most of them build the same two arms."""
    folder = tmp_path_factory.mktemp("experiments")
    share_digests(folder / "cache")
    return folder


@pytest.fixture(autouse=True)
def cache(experiments: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(experiments / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


@pytest.fixture
def fake(tmp_path: Path, experiments: Path) -> Callable[..., FakeTools]:
    """Makes wrapped programs: fake(("*pattern*", ms), …)."""

    def make(*rules: tuple[str, float]) -> FakeTools:
        # The default's module is that of PLAIN, and has the label of whichever was built first.
        every = [rule for rule in rules if rule[0] == "*"]
        return FakeTools(tmp_path / "fake", experiments / "labels", rules=[*every, (f"*{PLAIN}*", BASE_MS), *rules])

    return make


@pytest.fixture
def flagfile(tmp_path: Path) -> Callable[..., Path]:
    """Writes a flagfile: flagfile(name, flag, …)."""

    def write(name: str, *flags: str) -> Path:
        path = tmp_path / f"{name}.flags"
        path.write_text("".join(f"{flag}\n" for flag in flags))
        return path

    return write


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Two products, one after the other."""
    path = tmp_path / "two.mlir"
    path.write_text(TWO_PRODUCTS.format(last="k, n", weights="96x32"))
    return path


@pytest.fixture
def experiment(workspace: Path) -> Callable[..., AbResult]:
    """experiment(a, b, tools): by the API, few blocks unless told otherwise."""

    def run(a: object, b: object, tools: Tools | None, *, model: Path | None = None, **words: Any) -> AbResult:
        arms = [parse_arm(str(arm), workspace=workspace) for arm in (a, b)]
        problem = words.pop("problem", None if model else PROBLEM)
        inputs, stop = tuple(words.pop("inputs", ())), words.pop("stop", None)
        program = Model(model, inputs=inputs) if model else None
        options = Options(**{"effort": EFFORT, "workspace": workspace, "command": ("autotune", "test"), **words})
        return run_experiment(
            Experiment(arms[0], arms[1], problem, program), CPU, options=options, stop=stop, tools=tools
        )

    return run
