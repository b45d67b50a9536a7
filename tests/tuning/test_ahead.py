"""Kernels that a search begins with are made while the default is timed."""

from __future__ import annotations

import importlib.util
from concurrent.futures import wait
from pathlib import Path

import pytest

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.carrier import VariantCarrier
from autotuner.iree.tools import Tools
from autotuner.microkernels.library import own_folder, shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.targets import Target
from autotuner.tuning.ahead import made_ahead
from autotuner.tuning.plan import Plan
from tests.support.patience import ENOUGH

GEMM = Gemm.parse(shape="16x64x64")


@pytest.fixture(scope="module")
def bare(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    builder = Builder(tools, Cache(tmp_path_factory.mktemp("cache")))
    with BuildExecutor.local(builder, 1) as executor:
        return Plan.make(GEMM, Target.parse("sm_80"), executor, timeout=ENOUGH)


def kernels_of(plan: Plan) -> list[VariantCarrier]:
    carriers = (plan.candidate(config, id="").carrier for config in plan.first)
    return [carrier for carrier in carriers if isinstance(carrier, VariantCarrier)]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_first_are_made_and_found_again(
    bare: Plan, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = Variants.of(load(shipped_folder() / "gemm_triton" / FILE), GEMM, "sm_80", workspace=tmp_path)
    plan = bare.with_kernels([variants])
    assert len(kernels_of(plan)) > 1
    with BuildExecutor.local(Builder(tools, Cache(tmp_path)), 2) as executor:
        with made_ahead(plan, executor, most=1) as futures:
            assert len(futures) == 1
            wait(futures, timeout=ENOUGH)
        monkeypatch.setattr(process, "run", None)  # nothing is started any more
        assert kernels_of(plan)[0].built.calls
        with made_ahead(plan, executor, most=0) as none:
            assert none == []


def test_what_is_wrong_with_a_kernel_is_told_where_its_candidate_is_built(
    bare: Plan, tools: Tools, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / FILE).write_text((shipped_folder() / "gemm_triton" / FILE).read_text())
    (elsewhere / "gemm.py").write_text("raise SystemExit('it was run')\n")
    foreign = load(elsewhere / FILE)
    assert not elsewhere.is_relative_to(own_folder(tmp_path))
    plan = bare.with_kernels([Variants.of(foreign, GEMM, "sm_80", workspace=tmp_path)])
    with BuildExecutor.local(Builder(tools, Cache(tmp_path)), 1) as executor:
        with made_ahead(plan, executor, most=1) as futures:
            assert [future.result(timeout=ENOUGH) for future in futures] == [None]
        (kernel, *_) = kernels_of(plan)
        with pytest.raises(Exception, match="outside of the workspace"):
            _ = kernel.built
