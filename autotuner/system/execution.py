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


def local_executor(jobs: int) -> Executor:
    """Threads that each wait for one compiler process: the work itself is in the child."""
    return _Threads(max_workers=jobs, thread_name_prefix="compile")
