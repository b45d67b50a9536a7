"""What becomes of an entry: rules on what was proven and timed."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from autotuner.jobs.retune.races import Before, Raced, Searched, decide, standing
from autotuner.jobs.retune.result import _next
from autotuner.measure.blocks import Interval

WIN = Raced("win", "fresh blocks", us=100.0, baseline_us=150.0, speedup=Interval(1.5, 1.4, 1.6))
EQUAL = Raced("no-winner", "not faster", us=100.0, baseline_us=100.0, speedup=Interval(1.0, 0.99, 1.005))
OPEN = Raced("inconclusive", "not raced: --budget 35s would do", us=100.0, baseline_us=150.0)
BROKEN = Raced("inconclusive", "wrong", failure="it computes wrong results")
FOUND, NOTHING = Searched(True, "1.6x over the default"), Searched(False, "no-winner, none is faster")


def took(us: float | None) -> Before | None:
    return Before(us) if us is not None else None


@pytest.mark.parametrize(
    ("lost", "raced", "old_us", "searched", "state", "words"),
    [
        ("", WIN, None, None, "kept", "still faster than IREE's default: 1.500x (1.400 to 1.600)"),
        ("", WIN, 100.0, None, "kept", "100.0 µs, it was 100.0 µs"),
        ("", None, None, None, "kept", "nothing was timed"),
        ("", OPEN, None, None, "kept", "the race has no verdict (not raced: --budget 35s would do)"),
        ("", WIN, 80.0, NOTHING, "kept", "slower than before: 100.0 µs, it was 80.0 µs"),
        ("", WIN, 80.0, None, "kept", "slower than before"),
        ("", WIN, 80.0, FOUND, "replaced", "found a faster one: 1.6x over the default"),
        ("", EQUAL, None, NOTHING, "dropped", "no longer faster than IREE's default: 1.000x (0.990 to 1.005)"),
        ("", EQUAL, None, FOUND, "replaced", "1.6x"),
        ("", EQUAL, None, None, "dropped", "no time was left to search again"),
        ("", BROKEN, None, NOTHING, "dropped", "it computes wrong results"),
        (
            "nothing matches it",
            None,
            None,
            NOTHING,
            "dropped",
            "nothing matches it; a search near its place: no-winner",
        ),
        ("nothing matches it", None, None, FOUND, "replaced", "nothing matches it; a search"),
    ],
)
def test_an_entry_is_kept_replaced_or_dropped_with_its_reason(
    lost: str, raced: Raced | None, old_us: float | None, searched: Searched | None, state: str, words: str
) -> None:
    found, reason = decide(standing(lost=lost, raced=raced, before=took(old_us)), searched)
    assert found == state
    assert words in reason


@pytest.mark.parametrize("raced", [WIN, OPEN, None])
@pytest.mark.parametrize("old_us", [None, 10.0])
def test_a_working_winner_is_never_lost_to_a_search_that_did_not_find_it(
    raced: Raced | None, old_us: float | None
) -> None:
    stands = standing(lost="", raced=raced, before=took(old_us))
    assert decide(stands, NOTHING)[0] == "kept"
    assert decide(stands, None)[0] == "kept"


def test_five_per_cent_is_not_slower() -> None:
    assert not standing(lost="", raced=WIN, before=Before(100.0 / 1.049)).search
    assert standing(lost="", raced=WIN, before=Before(100.0 / 1.051)).search


def test_where_the_default_is_slower_by_as_much_the_entry_is_not_blamed() -> None:
    stands = standing(lost="", raced=WIN, before=Before(80.0, 120.0))
    assert (stands.works, stands.search) == (True, False)
    assert stands.reason == (
        "still faster than IREE's default: 1.500x (1.400 to 1.600); 100.0 µs, it was 80.0 µs, and IREE's default is "
        "slower by as much: 150.0 µs, it was 120.0 µs"
    )


@pytest.mark.parametrize("default_us", [150.0, 140.0, 300.0])
def test_where_the_default_is_not_slower_by_as_much_the_entry_is_searched_again(default_us: float) -> None:
    stands = standing(lost="", raced=WIN, before=Before(80.0, default_us))
    assert (stands.works, stands.search) == (True, True)
    assert f"but slower than before: 100.0 µs, it was 80.0 µs; IREE's default: 150.0 µs, it was {default_us} µs" in (
        stands.reason
    )


def test_without_a_device_it_is_not_said_that_time_was_short() -> None:
    stands = standing(lost="nothing matches it", raced=None)
    assert decide(stands, None, timed=False) == ("dropped", "nothing matches it")


@pytest.mark.parametrize(
    ("states", "said"),
    [(("kept", "dropped"), "longer --budget"), (("dropped",), "compile without"), (("skipped",), "the reasons name")],
)
def test_where_nothing_is_written_it_is_said_what_to_do(states: tuple[str, ...], said: str) -> None:
    details = SimpleNamespace(counted=Counter(states))
    result: Any = SimpleNamespace(interrupted=False, verdict="inconclusive", details=details)
    assert said in _next(result)
