"""Kernels that a search begins with are made while the default is timed."""

from __future__ import annotations

import importlib.util
from concurrent.futures import wait
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.carrier import VariantCarrier
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import own_folder, shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.targets import Target
from autotuner.tuning import ahead as aheads
from autotuner.tuning.ahead import Ahead, beside
from autotuner.tuning.plan import Plan
from tests.support.patience import ENOUGH, wait_until

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
        with Ahead.within(executor) as ahead:
            ahead.add(plan)
            futures = ahead.begin(1)
            assert len(futures) == 1
            wait(futures, timeout=ENOUGH)
        monkeypatch.setattr(process, "run", None)  # nothing is started any more
        assert kernels_of(plan)[0].built.calls
        assert ahead.begin(9) == [], "what was left is not made any more"


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
        with Ahead.within(executor) as ahead:
            ahead.add(plan)
            assert [future.result(timeout=ENOUGH) for future in ahead.begin(1)] == [None]
        (kernel, *_) = kernels_of(plan)
        with pytest.raises(Exception, match="outside of the workspace"):
            _ = kernel.built


def made(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, VariantCarrier]]:
    """What is made from here on, in order: whose it is, and which."""
    found: list[tuple[str, VariantCarrier]] = []
    monkeypatch.setattr(aheads, "_make", lambda kernel: found.append((kernel.executable_target, kernel)))
    return found


def test_of_many_searches_what_promises_most_is_made_first_and_what_was_asked_meanwhile_is_not(
    bare: Plan, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = Variants.of(load(shipped_folder() / "gemm_triton" / FILE), GEMM, "sm_80", workspace=tmp_path)
    small, large = (replace(bare, executable_target=name).with_kernels([variants]) for name in ("small", "large"))
    found = made(monkeypatch)
    first, second = kernels_of(large)
    with BuildExecutor.local(Builder(tools, Cache(tmp_path)), 1) as executor, Ahead.within(executor) as ahead:
        ahead.add(small, share=0.2)
        ahead.add(large, share=0.3)
        wait(ahead.begin(4), timeout=ENOUGH)
        assert [whose for whose, _ in found] == ["large", "small", "large", "small"]
        assert [kernel.config for _, kernel in found[::2]] == [first.config, second.config]
        found.clear()
        ahead.add(large, share=0.3, wanted=lambda kernel: kernel.config != first.config)
        wait(ahead.begin(4), timeout=ENOUGH)
        assert [kernel.config for _, kernel in found] == [second.config]


def test_while_one_problem_is_tuned_the_best_kernels_of_the_next_are_made(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    variants = Variants.of(load(shipped_folder() / "gemm_triton" / FILE), GEMM, "sm_80", workspace=tmp_path)
    plan = Plan.bare(GEMM, Target.parse("sm_80")).with_kernels([variants], alone=True)
    found = made(monkeypatch)
    builder = Builder(tools, Cache(tmp_path))
    with BuildExecutor.local(builder, 2) as executor, beside(executor, lambda: plan, room=1):
        assert wait_until(lambda: bool(found))
    assert [kernel.config for _, kernel in found] == [plan.first[0]]


def test_a_next_problem_that_no_kernel_fits_does_not_matter(tools: Tools, tmp_path: Path) -> None:
    asked = []

    def refused() -> Plan:
        asked.append(1)
        raise UsageError("no kernel fits.", remedy="Choose another.")

    with BuildExecutor.local(Builder(tools, Cache(tmp_path)), 1) as executor, beside(executor, refused, room=1):
        assert wait_until(lambda: bool(asked))
        assert executor.here.submit(lambda: "goes on").result(ENOUGH) == "goes on"
