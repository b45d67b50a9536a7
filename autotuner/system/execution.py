"""Where compiles run: `concurrent.futures.Executor` is the seam."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class _Threads(ThreadPoolExecutor):
    """Work keeps to the deadline under which it was asked for."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        context: Any = copy_context()
        return super().submit(context.run, fn, *args, **kwargs)


def done(result: T) -> Future[T]:
    """What is finished before it is waited for."""
    future: Future[T] = Future()
    future.set_result(result)
    return future


class _After(Future[T]):
    """To cancel it cancels what it waits for."""

    def __init__(self, first: Future[Any]) -> None:
        super().__init__()
        self._first = first

    def cancel(self) -> bool:
        return self._first.cancel()

    def end(self, result: Callable[[], T]) -> None:
        """With what this gives or raises; cancelled, where what it waited for was."""
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
    """A step applied to another future's result, under the deadline of the caller.

    `wait_for` gives what else must have ended by then; how that ends does not matter.
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
    """Threads that each wait for one compiler process: the work itself is in the child."""
    return _Threads(max_workers=jobs, thread_name_prefix="compile")
