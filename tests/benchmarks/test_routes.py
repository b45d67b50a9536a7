"""All stock flags of a model: which are tried."""

from __future__ import annotations

from pathlib import Path

from autotuner import Target
from autotuner.targets.knobs import touching
from benchmarks.routes import combined, function, operations, turned

KNOBS = touching(Target.parse("cpu").knobs, {"conv", "gemm"})


def test_all_settings_of_the_first_knobs_are_combined_and_the_others_turned_one_by_one() -> None:
    routes = combined(KNOBS)
    names = [route.name for route in routes]
    assert names[0] == "plain"
    assert len(set(names)) == len(names) == 51
    assert "nchwc+data-tiling+ukernels+O3" in names
    best = routes[names.index("im2col+data-tiling+ukernels")]
    assert "im2col+data-tiling+ukernels+padding-fused" in [route.name for route in turned(KNOBS, best)]
    o3 = routes[names.index("O3")]
    assert all("aggressive-fusion" not in route.name for route in turned(KNOBS, o3)), "O3 has it already"


def test_a_programs_operations_are_known_by_their_names(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text('%1 = torch.operator "onnx.Conv"(%0)')
    assert operations(path) == {"conv", "gemm"}
    path.write_text("dense_resource<conv1_w> linalg.matmul")
    assert operations(path) == {"gemm"}


def test_the_first_function_is_timed(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text("module @m {\n  func.func public @main_graph(%arg0: f32) { return }\n}")
    assert function(path) == "main_graph"
