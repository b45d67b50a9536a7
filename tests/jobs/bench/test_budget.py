"""The time of a comparison: what is said of who had none."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

from autotuner import Options, Target
from autotuner.errors import OutOfTimeError
from autotuner.iree.tools import Tools
from autotuner.jobs.bench.backends import Chosen, Terms
from autotuner.jobs.bench.problem import Part, ProblemBench
from autotuner.jobs.bench.result import BackendRow
from autotuner.jobs.bench.run import bench_model
from autotuner.jobs.bench.sides import Manner
from autotuner.programs.model import Model
from autotuner.system.progress import Clock
from tests.support.bare_device import BareDevice
from tests.support.fake_tools import HANGING
from tests.support.models import EXAMPLES
from tests.support.other_compiler import instead_of_compiler


class Set(Clock):
    """A clock that stands still."""

    now = 0.0

    @property
    def elapsed(self) -> float:
        return self.now


def test_who_had_no_turn_says_so() -> None:
    store, first, second = MagicMock(), MagicMock(), MagicMock()
    first.time.return_value = MagicMock(ok=True, median=5.0)
    second.time.side_effect = OutOfTimeError("the time is up")
    options = MagicMock(seed=0)
    run = MagicMock(clock=Set(9.0), stopped=False, session=MagicMock(store=store), options=options)
    parts = {"iree": Part(BackendRow("iree"), 1, first), "numpy": Part(BackendRow("numpy"), 2, second)}
    manner = Manner(BareDevice(), 0.02, 60.0, on_host=True)
    bench = ProblemBench(run, 1, {}, MagicMock(), manner, 6, cold=False, parts=parts)
    bench._time_blocks([*parts])
    assert bench.notes == ("0 of 6 blocks fit into --budget",)
    assert parts["numpy"].row.failure == "not-timed"
    assert "a longer --budget would do" in parts["numpy"].row.reason


@pytest.mark.long
def test_a_model_whose_compile_outlasts_the_budget_is_told_as_not_reached(tools: Tools, tmp_path: Path) -> None:
    slow = instead_of_compiler(
        tools, tmp_path, f'case "$*" in *--compile-to=*) exec REAL "$@" ;; esac\nexec sleep {HANGING}'
    )
    found = bench_model(
        Model(EXAMPLES / "three.mlir"),
        Terms(Chosen(("iree",))),
        Target.parse("cpu"),
        options=Options(workspace=tmp_path / "workspace", budget=15.0),
        tools=slow,
    )
    assert (found.problems, found.not_reached) == ((), ("three",))
    assert any("the time was up: nothing was timed: --budget" in note for note in found.to_json()["notes"])


def test_a_model_that_is_not_read_in_time_is_told_with_a_budget_that_would_do(tools: Tools, tmp_path: Path) -> None:
    """As of `ab --model`, which reads it the same way."""
    hangs = instead_of_compiler(tools, tmp_path, f'case "$*" in *.mlir*) exec sleep {HANGING} ;; esac\nexec REAL "$@"')
    with pytest.raises(OutOfTimeError, match=r"the time was up before three\.mlir was read\.") as caught:
        bench_model(
            Model(EXAMPLES / "three.mlir"),
            Terms(Chosen(("iree",))),
            Target.parse("cpu"),
            options=Options(workspace=tmp_path / "workspace", budget=5.0),
            tools=hangs,
        )
    assert caught.value.remedy == "--budget 30s would do."
