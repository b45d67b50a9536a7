"""One future after another."""

from __future__ import annotations

from concurrent.futures import CancelledError, Future
from contextvars import ContextVar

import pytest

from autotuner.system.execution import after, done

ASKED_BY: ContextVar[str] = ContextVar("ASKED_BY", default="nobody")


def test_the_step_is_done_in_the_context_of_who_asked() -> None:
    first: Future[int] = Future()
    token = ASKED_BY.set("the tuner")
    whole = after(first, lambda number: (number + 1, ASKED_BY.get()))
    ASKED_BY.reset(token)
    first.set_result(1)
    assert whole.result() == (2, "the tuner")


def test_what_the_first_or_the_step_raises_comes_out() -> None:
    first: Future[int] = Future()
    whole = after(first, lambda number: 1 // number)
    first.set_result(0)
    with pytest.raises(ZeroDivisionError):
        whole.result()
    failed: Future[int] = Future()
    failed.set_exception(OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        after(failed, str).result()


def test_to_cancel_it_cancels_the_first() -> None:
    first: Future[int] = Future()
    whole = after(after(first, str), str)
    assert whole.cancel()
    assert first.cancelled()
    assert whole.cancelled()
    with pytest.raises(CancelledError):
        whole.result()


@pytest.mark.parametrize("end", ["set_result", "set_exception", "cancel"])
def test_it_has_ended_when_what_it_waits_for_has_whatever_came_of_that(end: str) -> None:
    prepared: Future[None] = Future()
    whole = after(done(7), str, wait_for=lambda _: prepared)
    assert not whole.done()
    getattr(prepared, end)(*{"set_result": (None,), "set_exception": (OSError(),), "cancel": ()}[end])
    assert whole.result() == "7"
