"""Known answers for every rule, at its boundaries and on both sides of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotuner.errors import UsageError
from autotuner.report.compare import find_rule
from autotuner.store.figures import Figure


def figure(us: float, low: float | None = None, high: float | None = None, *, spread: float | None = None) -> Figure:
    return Figure("gemm", "cpu", "default", us, low, high, spread=spread, blocks=3)


@pytest.mark.parametrize(
    ("golden", "new", "verdict"),
    [
        ((100, 99, 101), (100, 99, 101), "unclear"),  # both may be 1 % apart and more
        ((100, 100, 100), (100, 100, 100), "same"),
        ((100, 99.6, 100.4), (100, 99.6, 100.4), "same"),
        ((100, 100, 100), (101, 101, 101), "same"),  # just what does not count yet
        ((100, 100, 100), (101.1, 101.01, 101.2), "regression"),
        ((101, 101, 101), (100, 100, 100), "same"),
        ((101.1, 101.01, 101.2), (100, 100, 100), "improvement"),
        ((100, 99, 101), (110, 102, 118), "unclear"),  # 102 is not 1 % beyond 101
        ((100, 99, 101), (110, 102.02, 118), "regression"),
        ((100, 99, 101), (90, 80, 98.01), "improvement"),
        ((100, 99, 101), (90, 80, 98.1), "unclear"),
        ((100, 99.9, 100.1), (101, 100.5, 101.5), "unclear"),
    ],
)
def test_interval(golden: tuple[float, ...], new: tuple[float, ...], verdict: str) -> None:
    assert find_rule("interval")(figure(*golden), figure(*new)).verdict == verdict


@pytest.mark.parametrize(("golden", "new"), [((100,), (200, 199, 201)), ((100, 99, 101), (200,))])
def test_interval_says_unclear_and_why_where_a_figure_has_no_interval(
    golden: tuple[float, ...], new: tuple[float, ...]
) -> None:
    ruling = find_rule("interval")(figure(*golden), figure(*new))
    assert ruling.verdict == "unclear"
    assert "no interval: it is of 3 blocks" in ruling.note


@pytest.mark.parametrize("times", [(100,), (100, 90, 110)])
def test_interval_says_same_of_one_and_the_same_timing(times: tuple[float, ...]) -> None:
    """However few its blocks are: a set has not changed against itself. Another run with these figures may have."""
    rule, mine = find_rule("interval"), replace(figure(*times), run="20260301-021500-0a1b2c")
    ruling = rule(mine, mine)
    assert (ruling.verdict, ruling.note) == ("same", "one and the same timing, of run 20260301-021500-0a1b2c")
    assert rule(mine, replace(mine, run="20260301-021501-0a1b2c")).verdict == "unclear"
    assert rule(figure(*times), figure(*times)).verdict == "unclear", "nothing says that they are of one run"


@pytest.mark.parametrize(
    ("golden", "new", "verdict"),
    [
        (3.9, 3.99, "ignored"),
        (1.0, 3.99, "ignored"),
        (3.9, 4.0, "same"),
        (3.9, 4.5, "regression"),  # 1.005 × 3.9 + 0.5 = 4.4195
        (100.0, 101.0, "same"),  # the limit itself
        (100.0, 101.01, "regression"),
        (101.0, 100.0, "same"),
        (101.01, 100.0, "improvement"),
        (4.5, 3.9, "improvement"),
    ],
)
def test_aiter(golden: float, new: float, verdict: str) -> None:
    assert find_rule("aiter")(figure(golden), figure(new)).verdict == verdict


@pytest.mark.parametrize(
    ("spreads", "verdict"),
    [
        ((0.05, 0.05), "regression"),
        ((0.051, 0.0), "unstable"),
        ((None, 0.051), "unstable"),
        ((None, None), "regression"),
    ],
)
def test_aiter_judges_nothing_that_spreads_by_more_than_5_percent(
    spreads: tuple[float | None, float | None], verdict: str
) -> None:
    golden, new = figure(100, spread=spreads[0]), figure(200, spread=spreads[1])
    assert find_rule("aiter")(golden, new).verdict == verdict
    tiny = find_rule("aiter")(figure(3, spread=1.0), figure(3.5, spread=1.0))
    assert tiny.verdict == "ignored"


def test_a_threshold_replaces_the_limit() -> None:
    assert find_rule("interval", percent=0)(figure(1, 1, 1), figure(1.001, 1.001, 1.001)).verdict == "regression"
    assert find_rule("interval", percent=10)(figure(1, 1, 1), figure(1.05, 1.05, 1.05)).verdict == "same"


@pytest.mark.parametrize(
    ("name", "percent"), [("intervals", None), ("aiter", 1.0), ("interval", -1.0), ("interval", float("nan"))]
)
def test_what_is_no_rule_or_no_threshold_is_refused(name: str, percent: float | None) -> None:
    with pytest.raises(UsageError):
        find_rule(name, percent=percent)
