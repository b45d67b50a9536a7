"""Where compiles run: `concurrent.futures.Executor` is the seam."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from threading import Thread
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Threads(ThreadPoolExecutor):
    """Work keeps to the deadline under which it was asked for."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        context: Any = copy_context()
        return super().submit(context.run, fn, *args, **kwargs)


def in_a_thread(fn: Callable[[], T]) -> Future[T]:
    """Runs at once beside everything else, under the same deadline: for work that must stay on this machine."""
    future: Future[T] = Future()
    context = copy_context()

    def run() -> None:
        try:
            future.set_result(context.run(fn))
        except BaseException as error:
            future.set_exception(error)

    future.set_running_or_notify_cancel()
    Thread(target=run, name="prepare", daemon=True).start()
    return future


def done(result: T) -> Future[T]:
    """What is finished before it is waited for."""
    future: Future[T] = Future()
    future.set_result(result)
    return future


def followed(first: Future[T], then: Callable[[T], Future[None]]) -> Future[T]:
    """The first one's result, once what follows it has ended too; to cancel it cancels the first."""
    whole: Future[T] = Future()

    def settle(_: object) -> None:
        if whole.set_running_or_notify_cancel():
            error = first.exception()
            whole.set_result(first.result()) if error is None else whole.set_exception(error)

    def go_on(ended: Future[T]) -> None:
        if ended.cancelled():
            whole.cancel()
            whole.set_running_or_notify_cancel()
        elif ended.exception() is not None:
            settle(ended)
        else:
            then(ended.result()).add_done_callback(settle)

    whole.add_done_callback(lambda one: first.cancel() if one.cancelled() else None)
    first.add_done_callback(go_on)
    return whole


def local_executor(jobs: int) -> Executor:
    """Threads that each wait for one compiler process: the work itself is in the child."""
    return _Threads(max_workers=jobs, thread_name_prefix="compile")
