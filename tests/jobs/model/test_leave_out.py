"""Entries that lose inside a model are found without statistics: by models that lack some of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from autotuner.devices.process import ProcessDevice
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.iree.folder import MODEL
from autotuner.jobs.model.leave_out import LeaveOut, expected_saving
from autotuner.measure.contest import Turns
from tests.support.bare_model import module
from tests.support.fake_tools import SPEC
from tests.support.models import fake_tools, run
from tests.support.patience import ENOUGH

US = 1000.0
"""Of the untuned model."""


@dataclass(frozen=True)
class Member:
    """One that saves this part of its dispatch's time alone."""

    label: str
    gain: float = 0.5
    share: float = 0.1


class Models:
    """The model with some members takes as long as these say."""

    def __init__(self, saves: dict[str, float]) -> None:
        self.saves, self.built, self.compared = saves, 0, 0

    def build(self, some: Sequence[Member]) -> Compiled:
        self.built += 1
        return self.compiled(some)

    def compiled(self, some: Sequence[Member]) -> Compiled:
        return module(str(US - sum(self.saves[one.label] for one in some)))

    def compare(self, one: Compiled, other: Compiled, turns: int) -> Turns:
        self.compared += 1
        rows = {"one": float(one.vmfb.name), "other": float(other.vmfb.name)}
        return Turns({name: tuple(us * (1 + 0.001 * (n % 3)) for n in range(turns)) for name, us in rows.items()})


def losers(saves: dict[str, float], *, most: int = 99) -> tuple[list[str], Models]:
    models, members = Models(saves), [Member(label) for label in saves]
    search = LeaveOut(models.compiled([]), models.build, models.compare, lambda *_: models.built < most)
    return sorted(search.losers(members, models.compiled(members))), models


def test_a_model_that_gains_what_its_entries_gained_alone_is_not_looked_into() -> None:
    found, models = losers(dict.fromkeys("abcdefgh", 45.0))
    assert (found, models.built, models.compared) == ([], 0, 1)


@pytest.mark.parametrize("loser", "aceh")
def test_the_one_that_loses_is_found_in_few_compiles(loser: str) -> None:
    found, models = losers({**dict.fromkeys("abcdefgh", 20.0), loser: -100.0})
    assert found == [loser]
    assert models.built <= 6


def test_two_that_lose_are_found_and_what_merely_gains_less_stays() -> None:
    assert losers({**dict.fromkeys("abcdefgh", 10.0), "b": -90.0, "g": -80.0})[0] == ["b", "g"]
    assert losers(dict.fromkeys("abcd", 5.0))[0] == []


def test_it_ends_when_there_is_no_time_for_another_compile() -> None:
    found, models = losers({**dict.fromkeys("abcdefgh", 10.0), "b": -90.0}, most=1)
    assert found == []
    assert models.built == 1


def test_a_deadline_or_a_failed_timing_ends_it_without_a_verdict() -> None:
    def late(*_: object) -> Turns:
        raise OutOfTimeError("it ends")

    models, members = Models({"a": -1.0, "b": -1.0}), [Member("a"), Member("b")]
    for compare in (late, lambda *_: Turns({}, {"one": "it failed"})):
        search = LeaveOut(models.compiled([]), models.build, compare, lambda *_: True)
        assert search.losers(members, models.compiled(members)) == {}


def test_what_is_expected_is_the_sum_of_what_was_saved_alone() -> None:
    assert expected_saving([Member("a"), Member("b", gain=0.2, share=0.5)]) == pytest.approx(0.15)


@pytest.mark.long
def test_an_entry_that_loses_in_the_model_is_dropped_where_the_device_keeps_no_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alone it gains as the others do; the model with it takes twice as long."""
    monkeypatch.setattr(ProcessDevice, "dispatch_times", lambda *_, **__: None)
    fake = fake_tools(tmp_path, rules=[(f"*{MODEL}*matmul_64x32x64*", 200.0), (SPEC, 50.0)])
    result = run("three", tmp_path, fake, budget=ENOUGH)  # it ends when its trials are used up
    assert result.verdict == "win"
    rows: dict[str, Any] = {row.label: row for row in result.details.rows}
    assert rows["matmul_64x32x64_f32"].state == "dropped"
    assert "without it" in rows["matmul_64x32x64_f32"].reason
    assert len(result.details.entries) == result.details.applied == 2
    assert result.details.ranked_by == "each dispatch timed alone"
    before, after = result.details.time.before, result.details.time.after
    assert before is not None
    assert after is not None
    for side in (before, after):
        assert [share.kind for share in side.shares] == ["gemm", "all else, launch and waiting"]
    assert "no statistics" in result.details.time.how
