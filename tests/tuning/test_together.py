"""Where the time goes when many problems are tuned side by side."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from autotuner.devices.many import Devices
from autotuner.system.progress import Clock, Progress, Reporter, Stop
from autotuner.tuning.loop import Loop
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.together import FIRST, Part, Together, _Beside, expected_gain


def loop(*, told: int, asked: int | None = None, best: float = 100.0) -> Loop:
    """A search with so many results; the default takes 100 µs."""
    outcomes = [SimpleNamespace(settled=n < told) for n in range(told if asked is None else asked)]
    evaluator = SimpleNamespace(outcomes={BASELINE: SimpleNamespace(us=100.0)}, best_us=best)
    return cast(Loop, SimpleNamespace(candidates=lambda: outcomes, evaluator=evaluator))


def test_every_problem_gets_its_first_candidates_before_any_is_preferred() -> None:
    hungry = expected_gain(loop(told=0, asked=FIRST - 1), 0.001)
    assert hungry > expected_gain(loop(told=FIRST, best=10.0), 0.999)
    assert hungry < expected_gain(loop(told=0), 0.002)
    assert expected_gain(loop(told=0, asked=1), 0.5) < expected_gain(loop(told=0), 0.4), "in turns, if shares are alike"


@pytest.mark.parametrize(
    ("more", "less"),
    [
        pytest.param((loop(told=20), 0.4), (loop(told=20), 0.1), id="the larger share"),
        pytest.param((loop(told=20), 0.1), (loop(told=60), 0.1), id="what was tried less"),
        pytest.param((loop(told=20, best=70.0), 0.1), (loop(told=20), 0.1), id="where tuning gained"),
        pytest.param((loop(told=20), 0.1), (loop(told=20, asked=40), 0.1), id="what is not under way"),
    ],
)
def test_then_time_goes_where_more_is_expected(more: tuple[Loop, float], less: tuple[Loop, float]) -> None:
    assert expected_gain(*more) > expected_gain(*less) > 0


def test_a_problem_that_shrank_weighs_less() -> None:
    """Half of the model's time, now a tenth of it: a further gain is worth less than that of a fifth untouched."""
    assert expected_gain(loop(told=30, best=5.0), 0.5) < expected_gain(loop(told=30, best=100.0 * 0.7), 0.2)


def parts(count: int, *, opened: int) -> list[Part]:
    found = []
    for number in range(count):
        part = Part(str(number), cast("object", None), 1 / count)  # type: ignore[arg-type]
        if number < opened:
            part.loop = SimpleNamespace(
                schedule=SimpleNamespace(comparing=1.0, judges=False), has_rival=lambda number=number: number % 2 == 0
            )  # type: ignore[assignment]
        found.append(part)
    return found


def test_all_are_opened_first_while_there_is_time_for_it() -> None:
    some = parts(20, opened=10)
    together = Together(some, 2, True, Stop(), {}, Devices(()))
    assert together._worth(some[-1], Clock(100.0, started=Clock(0).started - 10)) == float("inf")
    slow = together._worth(some[-1], Clock(100.0, started=Clock(0).started - 60))
    assert 0 < slow < expected_gain(loop(told=0), 0.01), "those that are open get their first candidates before it"


def test_the_end_is_kept_for_comparing_the_best_of_each() -> None:
    together = Together(parts(20, opened=10), 2, True, Stop(), {}, Devices(()))
    assert together._end_seconds(Clock(100.0)) == pytest.approx(5.0), "of those that have a rival"
    assert together._end_seconds(Clock(10.0)) == pytest.approx(4.0)


def test_the_progress_of_all_is_shown_as_one() -> None:
    heard: list[Progress] = []
    reporter = SimpleNamespace(progress=heard.append)
    shown: dict[str, Progress] = {}
    one, two = (_Beside(label, cast(Reporter, reporter), shown) for label in "ab")
    now = Progress(
        trials=8, asked=2, built=2, failed=1, timed=1, baseline_us=9.0, best_us=8.0, seconds=1, seconds_left=5
    )
    one.progress(now)
    two.progress(replace(now, asked=4, seconds=2))
    one.progress(replace(now, asked=3, timed=2, seconds=3))
    assert [(p.trials, p.asked, p.timed, p.best_us) for p in heard] == [
        (8, 2, 1, None),
        (16, 6, 2, None),
        (16, 7, 3, None),
    ]


@pytest.mark.parametrize(("drifted", "baseline"), [(False, 9.0), (True, None)])
def test_progress_counts_what_there_is_and_tells_no_ratio_to_a_time_that_drifted(
    drifted: bool, baseline: float | None
) -> None:
    heard: list[Progress] = []
    default = SimpleNamespace(us=9.0, built=True, failure=None)
    evaluator = SimpleNamespace(outcomes={BASELINE: default}, best_us=8.0, plan=SimpleNamespace(space=range(79)))
    loop = SimpleNamespace(
        evaluator=evaluator,
        reporter=SimpleNamespace(progress=heard.append),
        trials=1000,
        candidates=list,
        clock=SimpleNamespace(elapsed=1.0, left=5.0),
        _drifted=drifted,
    )
    Loop.report(cast(Loop, loop))
    assert [(now.trials, now.baseline_us, now.best_us) for now in heard] == [(79, baseline, 8.0)]
