"""Where compiles run: `concurrent.futures.Executor` is the seam."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Threads(ThreadPoolExecutor):
    """Work keeps to the deadline under which it was asked for."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        context: Any = copy_context()
        return super().submit(context.run, fn, *args, **kwargs)


def local_executor(jobs: int) -> Executor:
    """Threads that each wait for one compiler process: the work itself is in the child."""
    return _Threads(max_workers=jobs, thread_name_prefix="compile")
