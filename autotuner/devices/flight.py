"""Calls of one module that are in flight at once, each from a thread of its own, and how long they take.

At the end of a call a driver may hold its thread (IREE's CUDA driver does while it frees what the call has used): with
one call at a time the device idles until the next. Of two that are in flight the other one's work fills that gap.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"
"""What IREE's runtime says where the device's memory does not suffice."""

Caller = Callable[[], float]
"""One call, by a context and on inputs that no other caller has; it gives the seconds that it took."""
Lasting = Callable[[float], tuple[float, int]]
"""Calls until so many seconds are over, at least once: seconds of all, and how many calls that were."""
T = TypeVar("T")


@contextmanager
def in_flight(callers: Sequence[Caller], *, begin: Callable[[], object]) -> Iterator[Lasting]:
    """Each caller has its thread, which begins with `begin`; one alone calls from this one."""
    if len(callers) == 1:
        yield lambda seconds: _one_by_one(callers[0], seconds)
        return
    with ThreadPoolExecutor(len(callers), thread_name_prefix="flight", initializer=begin) as pool:
        yield lambda seconds: _at_once(callers, seconds, pool)


def as_many_as_fit(count: int, work: Callable[[int], T]) -> T:
    """Works with so many; where the device's memory does not suffice for that, with one less, and so on."""
    try:
        return work(count)
    except Exception as error:
        if OUT_OF_MEMORY not in str(error) or count == 1:
            raise
    return as_many_as_fit(count - 1, work)


def _one_by_one(call: Caller, seconds: float) -> tuple[float, int]:
    """What lies between two calls is not counted."""
    spent, count = call(), 1
    while spent < seconds:
        spent, count = spent + call(), count + 1
    return spent, count


def _at_once(callers: Sequence[Caller], seconds: float, pool: ThreadPoolExecutor) -> tuple[float, int]:
    """From the first begin to the last end; what one of them raises ends all, and is raised here."""
    together, failed = threading.Barrier(len(callers)), threading.Event()

    def go(call: Caller) -> tuple[float, float, int]:
        together.wait()
        began, count = time.perf_counter(), 0
        try:
            while not count or (time.perf_counter() - began < seconds and not failed.is_set()):
                call()
                count += 1
        except BaseException:
            failed.set()
            raise
        return began, time.perf_counter(), count

    runs = [pool.submit(go, caller) for caller in callers]
    wait(runs)
    begins, ends, counts = zip(*(run.result() for run in runs), strict=True)
    return max(ends) - min(begins), sum(counts)
