"""What may be far faster than the default repeats its dispatches more often: a short call is mostly overhead."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from autotuner.build import Builder
from autotuner.devices.device import Device, Timing
from autotuner.iree.run import Benchmark, Invocation
from autotuner.measure.calibrate import Calibration
from autotuner.measure.check import Check
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm
from autotuner.problems.operations import OPERATIONS
from autotuner.store.rows import NewRun
from autotuner.store.store import Store
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.plan import Plan
from tests.support.patience import ENOUGH

GEMM = Gemm.parse(shape="640x1920x2560", layout="nt")
NOT_ASKED = cast(Any, None)


class PretendedGpu:
    """A call costs a tenth of this."""

    invocation_us = 3000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(None, workspace=tmp_path) as opened:
        yield opened


@pytest.fixture
def evaluator(make_plan: Callable[[Gemm, str], Plan], builder: Builder, store: Store, tmp_path: Path) -> Evaluator:
    """On a GPU whose default took 70 µs, which repeats it 80 times."""
    kernel = Variants.of(load(shipped_folder() / "gemm_cuda" / FILE, OPERATIONS), GEMM, "sm_90", workspace=tmp_path)
    plan = make_plan(GEMM, "sm_80").with_kernels([kernel])
    benchmark = Benchmark(cast(Invocation, None), 0.01, 10.0)
    calibration = Calibration(
        cast(Device, PretendedGpu()),
        NOT_ASKED,
        benchmark,
        80,
        NOT_ASKED,
        0.1,
        0.1,
        Timing((70.0, 70.0, 71.0)),
        NOT_ASKED,
    )
    run = store.start_run(NewRun("single", "", (), {}, "sm_80", "cuda", seed=0))
    made = Evaluator(plan, builder, store, run, tmp_path, frozenset(), ENOUGH, devices=NOT_ASKED)
    made.calibrate(calibration)
    return made


def test_a_kernel_repeats_by_what_it_is_expected_to_take_and_others_by_the_best_of_their_kind(
    evaluator: Evaluator,
) -> None:
    plan = evaluator.plan
    kernel = plan.candidate(plan.first[0], id="c0001")
    ours = next(config for config in plan.space if plan.candidate(config, id="c0002").kind == "codegen")
    codegen = plan.candidate(ours, id="c0002")
    assert 10 < plan.hoped_us(kernel) < 15
    assert plan.hoped_us(codegen) == math.inf
    assert [evaluator.repeats(one) for one in (plan.baseline, kernel, codegen)] == [80, 1280, 80]
    evaluator.take(replace(evaluator.open(kernel), us=40.0))  # on a slower chip
    assert [evaluator.repeats(one) for one in (plan.baseline, kernel, codegen)] == [80, 320, 80]
    evaluator.take(replace(evaluator.open(codegen), us=20.0))
    assert [evaluator.repeats(one) for one in (plan.baseline, kernel, codegen)] == [80, 320, 640]
    evaluator.refuse(codegen.id, Check("wrong-result", math.inf))
    assert [evaluator.repeats(one) for one in (plan.baseline, kernel, codegen)] == [80, 320, 80]
    assert evaluator.best_us == 40.0


def test_of_single_calls_none_is_repeated(evaluator: Evaluator) -> None:
    cold = replace(evaluator.calibration, benchmark=replace(evaluator.calibration.benchmark, cache="cold"), repeat=1)
    evaluator.calibrate(cold)
    assert evaluator.repeats(evaluator.plan.candidate(evaluator.plan.first[0], id="c0001")) == 1
