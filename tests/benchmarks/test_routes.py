"""All stock flags of a model: which are tried."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from autotuner import Target
from autotuner.iree.tools import Tools
from autotuner.targets.knobs import touching
from benchmarks.routes import Exhaustive, Trial, combined, turned

KNOBS = touching(Target.parse("cpu").knobs, {"conv", "gemm"})


def test_all_settings_of_the_first_knobs_are_combined_and_the_others_turned_one_by_one() -> None:
    routes = combined(KNOBS)
    names = [route.name for route in routes]
    assert names[0] == "plain"
    assert len(set(names)) == len(names) == 34
    assert "nchwc+data-tiling+ukernels+O3" in names
    best = routes[names.index("im2col+data-tiling+ukernels")]
    assert "im2col+data-tiling+ukernels+single-use" in [route.name for route in turned(KNOBS, best)]
    o3 = routes[names.index("O3")]
    assert all("aggressive-fusion" not in route.name for route in turned(KNOBS, o3)), "O3 has it already"


@pytest.mark.parametrize("first", [64.0, math.inf])
def test_the_modules_of_slow_routes_do_not_fill_the_disk(first: float, tmp_path: Path) -> None:
    """Only the three fastest modules stay on the disk."""

    class Timed(Trial):
        def compiled(self, name: str, flags: Sequence[str]) -> Path | None:
            del flags
            (self.folder / name).touch()
            return self.folder / name

        def ms(self, vmfb: Path, *, best: float = math.inf) -> float:
            del best
            return first if vmfb.name == "plain" else 10.0 + len(vmfb.name)

    model = tmp_path / "model.mlir"
    model.write_text("func.func @f(%arg0: tensor<4xf32>) -> tensor<4xf32> {")
    tried = Exhaustive(Timed(model, tmp_path, Tools.find()), math.inf)
    tried.all(KNOBS)
    assert len(tried.known) == tried.wanted > 34
    assert tried.fastest == ["O3", "im2col", "im2col+O3"]
    assert {path.name for path in tmp_path.iterdir()} == {"model.mlir", "O3", "im2col", "im2col+O3"}
