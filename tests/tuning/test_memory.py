"""What a search keeps of each candidate while it lasts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from autotuner.build import Builder, Compiled
from autotuner.devices.many import Devices
from autotuner.problems import Gemm
from autotuner.store.rows import NewRun
from autotuner.store.store import Store
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.plan import Plan
from tests.support.patience import ENOUGH


def test_the_texts_of_a_build_end_with_its_proof_and_its_figures_stay(
    make_plan: Callable[[Gemm, str], Plan], builder: Builder, tmp_path: Path
) -> None:
    plan = make_plan(Gemm.parse(shape="64x64x64", dtype="f32"), "cpu")
    with Store.open(None, workspace=tmp_path) as store:
        run = store.start_run(NewRun("single", "", (), {}, "cpu", "cpu", seed=0))
        evaluator = Evaluator(plan, builder, store, run, tmp_path, frozenset(), ENOUGH, Devices(()))
        outcome = evaluator.open(plan.baseline)
        texts: dict[Any, tuple[str, ...]] = {"configurations": ("module {}" * 2000,)}
        assert evaluator.settle_build(outcome, Compiled(None, "", 1.5, (), tmp_path, binary="one", dumped=texts))
    kept = cast(Compiled, outcome.build)
    assert (kept.seconds, kept.binary, kept.dumped) == (1.5, "one", {})
