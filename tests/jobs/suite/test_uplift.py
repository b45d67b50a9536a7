"""What a workload gains: the figures are those of a calculation by hand."""

from __future__ import annotations

import io
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.jobs.suite.logs import read_log
from autotuner.jobs.suite.rows import Row, RowVerdict, Uplift, shares
from autotuner.jobs.suite.workload import Entry
from autotuner.measure.blocks import Interval
from autotuner.problems import Gemm
from tests.support.logs import line


def row(share: float, ratio: float | None, *, verdict: RowVerdict = "win", error: float | None = 1e-3) -> Row:
    speedup = Interval(ratio, ratio, ratio) if ratio is not None else None
    return Row(Entry(Gemm(8, 8, 8)), verdict, share=share, speedup=speedup, error=error)


def test_the_uplift_of_a_log_of_200_lines_is_that_of_a_calculation_by_hand() -> None:
    # 90 lines of two calls, 60 of one, 30 of four, and 20 that are broken; mixed.
    kinds = [line(m=100, calls=2)] * 90 + [line(m=200)] * 60 + [line(m=300, calls=4)] * 30 + [line()[:150]] * 20
    log = "\n".join(kinds[i * 7 % 200] for i in range(200))
    assert len(log.splitlines()) == 200
    entries, skipped = read_log(io.BytesIO(log.encode()))
    assert sum(one.lines for one in skipped) == 20
    calls = {entry.problem.output.shape[1]: entry.calls for entry in entries}
    assert calls == {100: 180, 200: 60, 300: 120}
    # Defaults of 100, 500 and 100 µs: 180·100 + 60·500 + 120·100 = 18 000 + 30 000 + 12 000 = 60 000 µs.
    us = {100: 100.0, 200: 500.0, 300: 100.0}
    found = dict(zip(calls, shares([calls[m] * us[m] for m in calls]), strict=True))
    assert found == {100: 30.0, 200: 50.0, 300: 20.0}
    # The first becomes 1.5x and the second 1.25x as fast; the third wins by too little to be kept.
    ratios = {100: 1.5, 200: 1.25, 300: 1.02}
    uplift = Uplift.of([row(found[m], ratios[m]) for m in calls], problems=3, us_total=60_000.0)
    # 30·(1 − 1/1.5) + 50·(1 − 1/1.25) = 30/3 + 50/5 = 10 + 10 = 20 %: 12 000 of 60 000 µs.
    assert uplift.weighted == pytest.approx(20.0)
    assert uplift.us_saved == pytest.approx(12_000.0)
    # (33.3 + 20)/2; the two stand for 30 + 50 % of the time; √(1.5·1.25).
    assert uplift.average == pytest.approx((100 / 3 + 20) / 2)
    assert uplift.coverage == pytest.approx(80.0)
    assert uplift.geometric_mean == pytest.approx(math.sqrt(1.875))
    assert (uplift.kept, uplift.problems) == (2, 3)


def test_without_a_kept_problem_nothing_is_gained_and_nothing_is_averaged() -> None:
    uplift = Uplift.of([], problems=4, us_total=100.0)
    assert (uplift.weighted, uplift.us_saved, uplift.coverage) == (0.0, 0.0, 0.0)
    assert uplift.average is uplift.geometric_mean is None


@pytest.mark.parametrize(
    ("verdict", "ratio", "error", "kept"),
    [
        ("win", 1.03, 0.0299, True),
        ("win", 1.0299, 0.0, False),
        ("win", 1.5, 0.03, False),
        ("win", 1.5, None, False),
        ("win", None, 0.0, False),
        ("inconclusive", 1.5, 0.0, False),
        ("no-winner", 1.5, 0.0, False),
    ],
)
def test_only_proven_right_and_worthwhile_results_are_kept(
    verdict: RowVerdict, ratio: float | None, error: float | None, kept: bool
) -> None:
    assert row(1.0, ratio, verdict=verdict, error=error).kept == kept


@given(st.lists(st.tuples(st.floats(1e-3, 1e6), st.floats(1.03, 50.0)), min_size=1, max_size=20))
def test_the_weighted_uplift_is_the_part_of_the_time_that_is_saved(rows: list[tuple[float, float]]) -> None:
    times = [us for us, _ in rows]
    gains = [row(share, ratio) for share, (_, ratio) in zip(shares(times), rows, strict=True)]
    uplift = Uplift.of(gains, problems=len(rows), us_total=sum(times))
    after = sum(us / ratio for us, ratio in rows)
    assert uplift.us_saved == pytest.approx(sum(times) - after, rel=1e-6, abs=1e-6 * sum(times))
    assert 0 <= uplift.weighted < 100
