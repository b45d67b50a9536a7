"""Which figures are put side by side: whatever the order of the rows, and never two of different conditions."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from autotuner.report.compare import Comparison, ResultSet, compare
from autotuner.report.compared import document, markdown
from autotuner.store.figures import Failure, Figure, Measurements


def figure(problem: str = "gemm_a", us: float = 100.0, kernel: str = "default", **values: Any) -> Figure:
    plain: dict[str, Any] = {"state": "sustained", "device": "chip", "run": "r1", "started": "2026-01-01"}
    return Figure(problem, "cpu", kernel, us, us * 0.999, us * 1.001, **{**plain, "blocks": 9, **values})


def of(*figures: Figure, failures: tuple[Failure, ...] = (), **environment: Any) -> ResultSet:
    return ResultSet("set", Measurements(figures, failures, (environment,)))


def verdicts(found: Comparison) -> dict[tuple[str, str], str]:
    return {(row.figure.problem, row.figure.kernel): row.verdict for row in found.rows}


def test_rows_in_any_order_give_the_same_answer() -> None:
    golden = [figure("a"), figure("b"), figure("c"), figure("b", kernel="best"), figure("c", 50, started="2025")]
    new = [figure("c", 120), figure("b", 80), figure("a"), figure("d"), figure("b", 100, kernel="best")]
    first = compare(of(*golden), of(*new))
    assert verdicts(first) == {
        ("c", "default"): "regression",
        ("b", "default"): "improvement",
        ("a", "default"): "same",
        ("b", "best"): "same",
        ("d", "default"): "only-new",
    }
    assert first.rows[0].figure.problem == "c"
    for seed in range(20):
        shuffle = random.Random(seed).shuffle
        shuffle(golden)
        shuffle(new)
        assert compare(of(*golden), of(*new)) == first


def test_of_duplicates_the_newest_counts_and_it_is_said() -> None:
    old, late = figure(us=100, started="2026-01-01"), figure(us=200, started="2026-01-02")
    found = compare(of(late, old), of(figure(us=200)))
    assert found.rows[0].verdict == "same"
    assert found.notes == ("golden: 1 older figure of the same kernels left out, the newest count",)


def test_a_problem_of_one_set_only_is_listed() -> None:
    found = compare(of(figure("a")), of(figure("b")))
    assert verdicts(found) == {("a", "default"): "only-golden", ("b", "default"): "only-new"}
    assert not found.regressed
    assert found.verdict.startswith("nothing could be compared")


@pytest.mark.parametrize(
    ("name", "value"), [("state", "burst"), ("device", "another chip"), ("state", "unknown"), ("target", "gfx942")]
)
def test_figures_of_different_conditions_are_not_compared(name: str, value: str) -> None:
    changed: dict[str, Any] = {name: value}
    golden, new = figure(), replace(figure(us=200), **changed)
    rows = compare(of(golden), of(new)).rows
    assert [(row.verdict, row.figure) for row in rows] == [("only-golden", golden), ("only-new", new)]


def test_a_cold_cache_is_compared_with_a_cold_cache() -> None:
    both = [figure(us=100), figure(us=300, cache="cold")]
    worse = [figure(us=100), figure(us=400, cache="cold")]
    found = compare(of(*both), of(*worse))
    assert {row.figure.cache: row.verdict for row in found.rows} == {"warm": "same", "cold": "regression"}
    only = compare(of(figure()), of(figure(us=300, cache="cold")))
    assert {row.figure.cache: row.verdict for row in only.rows} == {"warm": "only-golden", "cold": "only-new"}


def test_a_problem_that_fails_now_counts_as_a_regression() -> None:
    failure = Failure("gemm_a", "cpu", "it\ncrashed", "r2", "2026-01-02")
    found = compare(of(figure()), of(failures=(failure, replace(failure, problem="x"))))
    assert [(row.verdict, row.note) for row in found.rows] == [("failed", "it crashed")]
    assert found.regressed
    assert "new: x on cpu failed: it\ncrashed" in found.notes


def test_environments_stand_side_by_side_with_differences_marked() -> None:
    found = compare(of(figure(), iree="3.12", cores=2, load=1), of(figure(), iree="3.13", cores=2, load=9))
    facts = {fact.name: (fact.golden, fact.new, fact.differs) for fact in found.environment}
    assert facts == {"iree": (("3.12",), ("3.13",), True), "cores": (("2",), ("2",), False)}


def test_every_form_has_every_answer() -> None:
    hostile = "a|b <img src=x> `c`"
    found = compare(of(figure(hostile), iree="3.12"), of(figure(hostile, 200), figure("b"), iree="3.13"))
    data = document(found)
    assert (data["regressed"], data["counts"]) == (True, {"regression": 1, "only-new": 1})
    assert data["rows"][0]["ratio"] == 2.0
    text = markdown(found)
    row = next(line for line in text.splitlines() if "regression" in line and line.startswith("|"))
    assert "a\\|b \\<img" in row
    assert "| iree | 3.12 | 3.13 | differs |" in text
    assert "|" not in markdown(compare(of(figure()), of(figure()))), "what is the same is not listed"
