"""Known answers, at the boundaries of a change and on both sides of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotuner.errors import UsageError
from autotuner.report.compare import judge, limit_of
from autotuner.store.figures import Figure


def figure(us: float, low: float | None = None, high: float | None = None) -> Figure:
    return Figure("gemm", "cpu", "default", us, low, high, blocks=3)


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
    assert judge(figure(*golden), figure(*new), limit_of(None))[0] == verdict


@pytest.mark.parametrize(("golden", "new"), [((100,), (200, 199, 201)), ((100, 99, 101), (200,))])
def test_interval_says_unclear_and_why_where_a_figure_has_no_interval(
    golden: tuple[float, ...], new: tuple[float, ...]
) -> None:
    verdict, why = judge(figure(*golden), figure(*new), limit_of(None))
    assert verdict == "unclear"
    assert "no interval: it is of 3 blocks" in why


@pytest.mark.parametrize("times", [(100,), (100, 90, 110)])
def test_interval_says_same_of_one_and_the_same_timing(times: tuple[float, ...]) -> None:
    """However few its blocks are: a set has not changed against itself. Another run with these figures may have."""
    limit, mine = limit_of(None), replace(figure(*times), run="20260301-021500-0a1b2c")
    assert judge(mine, mine, limit) == ("same", "one and the same timing, of run 20260301-021500-0a1b2c")
    assert judge(mine, replace(mine, run="20260301-021501-0a1b2c"), limit)[0] == "unclear"
    assert judge(figure(*times), figure(*times), limit)[0] == "unclear", "nothing says that they are of one run"


def test_a_threshold_replaces_the_limit() -> None:
    assert judge(figure(1, 1, 1), figure(1.001, 1.001, 1.001), limit_of(0))[0] == "regression"
    assert judge(figure(1, 1, 1), figure(1.05, 1.05, 1.05), limit_of(10))[0] == "same"
    for wrong in (-1.0, float("nan")):
        with pytest.raises(UsageError):
            limit_of(wrong)
