"""A bundle that does not fit this machine is refused in one line that says what to do; nothing of it has run."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.bundles.documents import Manifest
from autotuner.bundles.there import fitting
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.iree.versions import package
from autotuner.targets.backends import CUDA
from autotuner.targets.backends.base import DeviceFacts
from tests.bundles.documents import MANIFEST

FILE = Path("out.zip")
HERE = replace(MANIFEST, iree=package("iree-base-runtime"), chip=platform.machine())
GPU = replace(HERE, problem="gemm_64x64x64_f16_f32_nn", target="sm_80", chip="sm_80")


def test_a_bundle_for_this_machine_fits() -> None:
    assert fitting(HERE, file=FILE).problem.name == HERE.problem


@pytest.mark.parametrize(
    ("manifest", "what", "remedy"),
    [
        (replace(HERE, iree="3.1.4"), "built by IREE 3.1.4", "Install iree-base-runtime==3.1.4"),
        (replace(HERE, chip="x86_64|0123456789abcdef"), "is built for", "Run it where that chip is"),
        (replace(HERE, chip="riscv64"), "is built for riscv64", "Run it where that chip is"),
    ],
    ids=["version", "processor", "architecture"],
)
def test_another_version_or_processor_is_refused(manifest: Manifest, what: str, remedy: str) -> None:
    with pytest.raises(EnvironmentFailure) as error:
        fitting(manifest, file=FILE)
    assert what in str(error.value)
    assert remedy in str(error.value)
    assert "\n" not in str(error.value)


def test_a_gpu_that_is_older_than_the_code_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CUDA.__dict__, "chip_there", lambda _: "sm_75")
    with pytest.raises(EnvironmentFailure, match="is built for sm_80, and this machine has sm_75"):
        fitting(GPU, file=FILE)
    for newer in ("sm_80", "sm_90", "sm_100"):
        monkeypatch.setitem(CUDA.__dict__, "chip_there", lambda _, chip=newer: chip)
        assert fitting(GPU, file=FILE).target.name == "sm_80"


def test_an_emulated_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CUDA.__dict__, "chip_there", lambda _: "sm_80")
    monkeypatch.setitem(CUDA.__dict__, "describe_device", lambda _: DeviceFacts("sm_80 (emulated)"))
    with pytest.raises(EnvironmentFailure, match="cuda://0 is emulated: its times mean nothing"):
        fitting(GPU, file=FILE, device="cuda://0")


def test_a_bundle_for_a_named_chip_runs_on_that_one_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def chip_there(which: str) -> str:
        asked.append(which)
        return "sm_90" if which == "1" else "sm_100"

    monkeypatch.setitem(CUDA.__dict__, "chip_there", chip_there)
    named = replace(GPU, chip="sm_90")
    assert fitting(named, file=FILE, device="cuda://1").manifest.chip == "sm_90"
    with pytest.raises(EnvironmentFailure, match=r"built for sm_90, and this machine has sm_100.*with --chip"):
        fitting(named, file=FILE)
    assert asked == ["1", "0"]


@pytest.mark.parametrize("name", ["rm -rf", "gemm_0x1x1_f32_f32_nn", ""])
def test_a_problem_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="no problem"):
        fitting(replace(HERE, problem=name), file=FILE)
