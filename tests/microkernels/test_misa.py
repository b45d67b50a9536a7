"""MISA's kernels: constants from the name and the problem, against values that MISA's own driver printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.errors import UsageError
from autotuner.microkernels.instance import Instance, shipped_folder
from autotuner.microkernels.library import find
from autotuner.microkernels.manifest import DoesNotFitError, Manifest
from autotuner.problems import Problem
from autotuner.problems.conv import Conv
from autotuner.problems.operations import OPERATIONS

PREFIX = "igemm_fwd_gtcx3_nhwc_fp16_bx0_ex1_"
TAIL = "_1x4x1x64_tb1x8x2x1_1x4x1x64"
LARGE = f"{PREFIX}bt256x128x32_wt32x32x8_ws2x1_wr2x2_ta1x8x4x1{TAIL}"
SMALL = f"{PREFIX}bt128x128x32_wt32x32x8_ws1x1_wr2x2_ta1x8x2x1{TAIL}_gkgs"
UNET = Conv.parse(shape="2x34x34x1280", filter="3x3x1280")


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    return find("misa_igemm_fwd_nhwc_fp16", [shipped_folder()], OPERATIONS)


@pytest.fixture
def hsaco(tmp_path: Path) -> Path:
    file = tmp_path / "kernels.hsaco"
    file.write_bytes(b"ELF")
    return file


def bind(
    manifest: Manifest, hsaco: Path, problem: Problem, symbol: str, *, chip: str = "gfx942", ks: int = 0
) -> Instance:
    return manifest.bind(problem, chip, objects=[hsaco], parameters={"ks": ks}, symbol=symbol)


@pytest.mark.parametrize(("symbol", "packed", "grid"), [(LARGE, 117770756, 80), (SMALL, 134547972, 160)])
def test_constants_are_those_that_misas_driver_printed(
    manifest: Manifest, hsaco: Path, symbol: str, packed: int, grid: int
) -> None:
    instance = bind(manifest, hsaco, UNET, symbol)
    shapes = (34, 34, 2, 1280, 1280, 32, 32, 1, 1, 1, 1, 0, 0, 3, 3, 1)
    assert instance.constants[:16] == shapes
    assert instance.constants[16:20] == (2576980378, 1, 1, 2576980378)
    assert instance.constants[20:] == (0, 0, packed, 0, 0, 0)
    assert len(instance.constants) == 26
    assert (instance.grid, instance.workgroup_size) == ((grid, 1, 1), (256, 1, 1))
    assert (instance.symbol, instance.subgroup_size, instance.local_memory) == (symbol, 64, 0)


def test_weights_go_in_as_kyxc_and_only_an_accumulating_kernel_needs_zeros(manifest: Manifest, hsaco: Path) -> None:
    image, weights, out = bind(manifest, hsaco, UNET, LARGE).bindings
    assert (image.permutation, image.operand, image.access) == ((), 0, "read")
    assert (weights.permutation, weights.tensor.shape) == ((3, 0, 1, 2), (1280, 3, 3, 1280))
    assert (out.operand, out.access, out.zeroed, out.tensor.element.name) == (2, "write", False, "f16")
    assert bind(manifest, hsaco, UNET, SMALL).bindings[2].zeroed
    by_single_atomics = SMALL.replace("_gkgs", "_vs1_gkgs")
    assert bind(manifest, hsaco, UNET, by_single_atomics).bindings[2].tensor.element.name == "f32"


def test_padding_groups_and_splits_reach_the_constants(manifest: Manifest, hsaco: Path) -> None:
    padded = Conv.parse(shape="2x32x32x1280", filter="3x3x1280", pad="1x1", stride="2x2", dilation="1x1")
    shapes = (32, 32, 2, 1280, 1280, 16, 16, 2, 2, 1, 1, 1, 1, 3, 3, 1)
    assert bind(manifest, hsaco, padded, LARGE).constants[:16] == shapes
    grouped = bind(manifest, hsaco, Conv.parse(shape="2x34x34x1280", filter="3x3x1280", groups=4), LARGE)
    assert grouped.constants[2:5] == (2, 320, 320)
    assert grouped.grid == (4 * 8 * 3, 1, 1)
    assert grouped.bindings[1].permutation == ()
    split = bind(manifest, hsaco, UNET, SMALL, ks=3)
    assert (split.constants[24], split.grid[0], split.name) == (3, 160 << 3, "misa_igemm_fwd_nhwc_fp16-ks3")


def test_a_kernel_that_merges_filter_and_channels_gets_its_steps(manifest: Manifest, hsaco: Path) -> None:
    symbol = f"{PREFIX}bt256x64x32_wt64x16x4_ws1x1_wr2x2_ta1x1x32x1_1x32x1x8_tb1x1x8x1_1x32x1x8_me"
    constants = bind(manifest, hsaco, Conv.parse(shape="2x230x230x3", filter="7x7x64", stride="2x2"), symbol).constants
    # 32 = 1 row of 7 * 3, 3 pixels of 3, 2 channels.
    assert (constants[4], constants[13], constants[14]) == (2 << 24 | 3, 1 << 24 | 7, 3 << 24 | 7)
    assert constants[20:22] == (2249744775, 1431655766)
    assert constants[23] == 2 << 8 | 5


@pytest.mark.parametrize(
    ("symbol", "problem", "chip", "ks", "says"),
    [
        (LARGE, UNET, "gfx942", 1, "needs ks == 0 or gkgs"),
        (SMALL, UNET, "gfx942", 4, "needs ks == 0 or .* % \\(bk << ks\\) == 0"),
        (LARGE.replace("ex1", "ex0"), UNET, "gfx942", 0, "needs nxe or"),
        (LARGE, Conv.parse(shape="2x8x8x48", filter="3x3x64"), "gfx942", 0, "bk = 32, c = 48"),
        (LARGE, Conv.parse(shape="2x8x8x64", filter="3x3x12"), "gfx942", 0, "% vector == 0.*vector = 8"),
        (LARGE, Conv.parse(shape="512x256x256x64", filter="3x3x64"), "gfx942", 0, "1 << 32"),
    ],
)
def test_a_kernel_that_does_not_fit_is_refused_with_the_reason(
    manifest: Manifest, hsaco: Path, symbol: str, problem: Problem, chip: str, ks: int, says: str
) -> None:
    with pytest.raises(DoesNotFitError, match=says):
        bind(manifest, hsaco, problem, symbol, chip=chip, ks=ks)


@pytest.mark.parametrize(
    "symbol",
    [
        *("gemm", LARGE + "_x", LARGE.replace("bt256", "bt250"), "igemm_" * 100, LARGE.replace("gtcx3", "gtcx2")),
    ],
)
def test_what_is_not_a_name_of_misas_is_refused(manifest: Manifest, hsaco: Path, symbol: str) -> None:
    with pytest.raises(UsageError, match=r"not the name of a kernel of misa|bm % max\(rows, 1\) == 0"):
        bind(manifest, hsaco, UNET, symbol)


def test_a_depthwise_filter_has_no_kyxc(manifest: Manifest, hsaco: Path) -> None:
    any_channels = f"{PREFIX}bt256x64x4_wt64x16x4_ws1x1_wr2x2_ta1x1x4x1_1x4x1x64_tb1x1x1x1_1x4x1x64"
    with pytest.raises(DoesNotFitError, match="wants weights as kyxc; the problem has it as yxc"):
        bind(manifest, hsaco, Conv.parse(shape="2x8x8x64", filter="3x3x64", groups=64), any_channels)
