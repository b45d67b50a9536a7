"""Entries that lose inside a model are found without statistics: by models that lack some of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from autotuner.devices.device import Timing
from autotuner.devices.process import ProcessDevice
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.iree.folder import MODEL
from autotuner.jobs.model.entries import Entry
from autotuner.jobs.model.leave_out import LeaveOut, expected_saving
from autotuner.measure.contest import TimingFailed
from autotuner.measure.schedule import PAIRS
from tests.support.fake_tools import SPEC
from tests.support.models import fake_tools, run
from tests.support.patience import ENOUGH

US = 1000.0
"""Of the untuned model."""


def entry(label: str, *, gained: float = 0.5, share: float = 0.1) -> Entry:
    """One that saves this part of its dispatch's time alone."""
    return cast(Entry, SimpleNamespace(label=label, share=share, gain=gained))


class Models:
    """The model with some entries takes as long as these say."""

    def __init__(self, saves: dict[str, float]) -> None:
        self.saves, self.built, self.timed = saves, 0, 0

    def build(self, entries: Sequence[Entry]) -> Compiled:
        self.built += 1
        return self.compiled(entries)

    def compiled(self, entries: Sequence[Entry]) -> Compiled:
        us = US - sum(self.saves[one.label] for one in entries)
        return Compiled(None, "", 1.0, (), Path(), binary=str(us))

    def time(self, module: Compiled) -> Timing:
        self.timed += 1
        return Timing((float(module.binary) * (1 + 0.001 * (self.timed % 3)),))


def losers(saves: dict[str, float], *, most: int = 99) -> tuple[list[str], Models]:
    models, entries = Models(saves), [entry(label) for label in saves]
    search = LeaveOut(models.compiled([]), models.build, models.time, lambda _: models.built < most)
    return sorted(search.losers(entries, models.compiled(entries))), models


def test_a_model_that_gains_what_its_entries_gained_alone_is_not_looked_into() -> None:
    found, models = losers(dict.fromkeys("abcdefgh", 45.0))
    assert found == []
    assert models.built == 0
    assert models.timed <= 2 * PAIRS


@pytest.mark.parametrize("loser", "aceh")
def test_the_one_that_loses_is_found_in_few_compiles(loser: str) -> None:
    found, models = losers({**dict.fromkeys("abcdefgh", 20.0), loser: -100.0})
    assert found == [loser]
    assert models.built <= 6


def test_two_that_lose_are_found() -> None:
    assert losers({**dict.fromkeys("abcdefgh", 10.0), "b": -90.0, "g": -80.0})[0] == ["b", "g"]


def test_what_merely_gains_less_stays() -> None:
    assert losers(dict.fromkeys("abcd", 5.0))[0] == []


def test_it_ends_when_there_is_no_time_for_another_compile() -> None:
    found, models = losers({**dict.fromkeys("abcdefgh", 10.0), "b": -90.0}, most=1)
    assert found == []
    assert models.built == 1


@pytest.mark.parametrize("error", [OutOfTimeError, TimingFailed])
def test_a_deadline_or_a_failed_timing_ends_it_without_a_verdict(error: type[Exception]) -> None:
    def fails(_: Compiled) -> Timing:
        raise error("it ends")

    models, entries = Models({"a": -1.0, "b": -1.0}), [entry("a"), entry("b")]
    search = LeaveOut(models.compiled([]), models.build, fails, lambda _: True)
    assert search.losers(entries, models.compiled(entries)) == {}


def test_what_is_expected_is_the_sum_of_what_was_saved_alone() -> None:
    assert expected_saving([entry("a"), entry("b", gained=0.2, share=0.5)]) == pytest.approx(0.15)


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
