"""Where compiles run: `concurrent.futures.Executor` is the seam."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor


def local_executor(jobs: int) -> Executor:
    """Threads that each wait for one compiler process: the work itself is in the child."""
    return ThreadPoolExecutor(max_workers=jobs, thread_name_prefix="compile")
