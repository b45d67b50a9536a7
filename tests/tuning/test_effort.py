"""Effort profiles and the durations that people write."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.errors import UsageError
from autotuner.system.progress import parse_duration
from autotuner.tuning.options import EFFORTS, parse_effort


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("10m", 600.0),
        ("1h30m15s", 5415.0),
        ("1.5h", 5400.0),
        (" 2M ", 120.0),
        ("0h5s", 5.0),
    ],
)
def test_durations_are_read_as_written(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", " ", "abc", "m", "10x", "-5s", "1e3", "nan", "inf", "5m 3s", "3s5m", "1,5h", "10m10m", ".5h", "½h"],
)
def test_what_is_no_duration_is_refused_with_examples_and_no_time_at_all_too(text: str) -> None:
    with pytest.raises(UsageError, match="is not a duration") as caught:
        parse_duration(text)
    assert caught.value.remedy == "Write it as 90s, 10m or 1h30m."
    for nothing in ("0", "0s", "0h0m0s", "0.0"):
        with pytest.raises(UsageError, match="leaves no time"):
            parse_duration(nothing)


@given(st.text(alphabet="0123456789.hms -+e", max_size=10))
def test_any_text_gives_a_time_or_a_refusal(text: str) -> None:
    try:
        seconds = parse_duration(text)
    except UsageError:
        seconds = 1.0
    assert 0 < seconds < math.inf


def test_an_unknown_effort_lists_the_known() -> None:
    with pytest.raises(UsageError, match="unknown effort") as caught:
        parse_effort("Quick")
    assert caught.value.remedy == "Choose one of: quick, normal, full."


def test_more_effort_is_more_of_everything() -> None:
    profiles = [parse_effort(name) for name in ("quick", "normal", "full")]
    assert profiles == list(EFFORTS.values())
    for less, more in itertools.pairwise(profiles):
        assert less.trials < more.trials
        assert less.budget < more.budget
        assert less.compile_only_trials < more.compile_only_trials
        assert less.race_entrants <= more.race_entrants
