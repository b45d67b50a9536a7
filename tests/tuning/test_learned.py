"""A run begins with what earlier runs on the same chip found, and says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from autotuner import Gemm
from autotuner.search.history import Shape
from autotuner.store.store import Store
from autotuner.tuning.earlier import earlier_runs
from tests.support.fake_tools import PROBLEM, FakeTools, codegen, run


def test_a_new_shape_begins_with_the_winner_of_a_near_one_and_names_the_run(
    fake: Callable[..., FakeTools], workspace: Path
) -> None:
    assert isinstance(PROBLEM, Gemm)
    tools = fake()
    first = run(tools, workspace, trials=4)
    assert not [note for note in first.notes if "earlier runs" in note]
    timed = [row for row in codegen(workspace, first.run) if row.us is not None]
    best = min(timed, key=lambda row: row.us or 0.0).config

    second = run(tools, workspace, trials=4, problem=replace(PROBLEM, k=2 * PROBLEM.k), seed=5)
    [note] = [note for note in second.notes if "earlier runs" in note]
    assert f"{PROBLEM.name} ({first.run})" in note
    # The compiler's own choice comes first, then what was taken from before.
    assert best in [row.config for row in codegen(workspace, second.run)[:2]]

    with Store.open(None, workspace=workspace) as store:
        shape, chip = (
            Shape.from_json(store.run(first.run).problem["shape"]),
            store.environment(first.run)["device_name"],
        )

        def known(*, target: str = "cpu", device_name: str = chip, but: str = second.run) -> list[str]:
            runs = earlier_runs(store, shape, target=target, device_name=device_name, but=but)
            return [run.name for run in runs]

        assert shape.sizes["k"] == PROBLEM.k
        assert known() == [f"{PROBLEM.name} ({first.run})"]
        assert len(known(but="")) == 2
        assert known(device_name="another chip") == known(target="sm_80") == []
