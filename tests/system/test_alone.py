"""Threads that want the same thing."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from autotuner.system import alone
from autotuner.system.alone import one_at_a_time
from tests.support.patience import ENOUGH


def test_who_wants_the_same_waits_and_who_wants_another_thing_does_not() -> None:
    inside, leave, went = threading.Event(), threading.Event(), threading.Event()

    def first() -> None:
        with one_at_a_time("a"):
            inside.set()
            assert leave.wait(ENOUGH)

    def second() -> bool:
        with one_at_a_time("a"):
            went.set()
            return leave.is_set()

    with ThreadPoolExecutor(2) as pool:
        holding = pool.submit(first)
        assert inside.wait(ENOUGH)
        waiting = pool.submit(second)
        with one_at_a_time("b"):
            assert not went.is_set()
        leave.set()
        assert waiting.result(ENOUGH), "the second went in before the first was out"
        holding.result(ENOUGH)


def test_a_thread_may_take_again_what_it_has() -> None:
    with one_at_a_time("a"), one_at_a_time("a"):
        assert "a" in alone._places


def test_what_nobody_holds_is_forgotten_also_after_an_error() -> None:
    with pytest.raises(ValueError, match="of its work"), one_at_a_time("a"):
        raise ValueError("of its work")
    assert "a" not in alone._places


def test_many_threads_are_never_two_at_once_and_leave_nothing_behind() -> None:
    inside: list[int] = []

    def work(number: int) -> int:
        with one_at_a_time(number % 2):
            inside.append(number % 2)
            most = inside.count(number % 2)
            inside.remove(number % 2)
        return most

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(400))) == {1}
    assert not {0, 1} & set(alone._places)
