"""Executors of compiles, by the interface `concurrent.futures.Executor`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class _Threads(ThreadPoolExecutor):
    """A thread pool whose tasks keep the deadline of their submission."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        context: Any = copy_context()
        return super().submit(context.run, fn, *args, **kwargs)


def done(result: T) -> Future[T]:
    """A finished future."""
    future: Future[T] = Future()
    future.set_result(result)
    return future


class _After(Future[T]):
    """A future of a later step; its cancellation cancels the first."""

    def __init__(self, first: Future[Any]) -> None:
        super().__init__()
        self._first = first

    def cancel(self) -> bool:
        return self._first.cancel()

    def end(self, result: Callable[[], T]) -> None:
        """Ends with a step's result or exception; or cancelled, if the first future was."""
        try:
            self.set_result(result())
        except CancelledError:
            super().cancel()
            self.set_running_or_notify_cancel()
        except BaseException as error:
            self.set_exception(error)


def after(
    first: Future[S],
    step: Callable[[S], T],
    *,
    wait_for: Callable[[T], Future[None]] | None = None,
) -> Future[T]:
    """The future of a step on another future's result, under the caller's deadline.

    `wait_for` gives another future that must have ended by then, however.
    """
    whole: _After[T] = _After(first)
    context = copy_context()

    def go_on(ended: Future[S]) -> None:
        made: Future[T] = Future()
        try:
            made.set_result(context.run(step, ended.result()))
        except BaseException as error:
            made.set_exception(error)
        if wait_for is None or made.exception() is not None:
            whole.end(made.result)
        else:
            wait_for(made.result()).add_done_callback(lambda _: whole.end(made.result))

    first.add_done_callback(go_on)
    return whole


def local_executor(jobs: int) -> Executor:
    """Threads that each wait for one compiler process."""
    return _Threads(max_workers=jobs, thread_name_prefix="compile")
