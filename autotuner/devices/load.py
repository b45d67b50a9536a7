"""Calls of a device for as long as is wanted: its load between timings, and calls that are in flight at once.

Under load, each timing begins in the same state. At the end of a call a driver may hold its thread (IREE's CUDA driver
does while it frees what the call has used): with one call at a time the device idles until the next. Of two that are in
flight the other one's work fills that gap.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from typing import TypeVar

SETTLE_SECONDS = 1.0
"""A GPU under load comes to its lasting clock within this, so far as a timing tells."""
RESTORE_SECONDS = 0.03
"""So long the load runs between two timings, whatever was timed before: a GPU's clock follows its power in less."""
IDLE_SECONDS = 20.0
"""When nothing is asked for so long, the load ends until something is."""
_LOOK_SECONDS = 0.001
OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"
"""What IREE's runtime says where the device's memory does not suffice."""

Caller = Callable[[], float]
"""One call, by a context and on inputs that no other caller has; it gives the seconds that it took."""
Lasting = Callable[[float], tuple[float, int]]
"""Calls until so many seconds are over, at least once: seconds of all, and how many calls that were."""
T = TypeVar("T")


def context_of_this_thread() -> Callable[[], object]:
    """What another thread must call to use the device that this one opened: a CUDA context belongs to threads."""
    with suppress(OSError):
        cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        if cuda.cuCtxGetCurrent(ctypes.byref(context)) == 0 and context:
            return lambda: cuda.cuCtxSetCurrent(context)
    return lambda: None


class Load:
    """A call that is made again and again while nothing is measured.

    It has a thread of its own. Modules are loaded beside it; what is checked or timed has the device for itself.
    """

    def __init__(self, call: Callable[[], float], *, begin: Callable[[], object]) -> None:
        """`call` gives the seconds that it took; `begin` is called once, by the thread that will call it."""
        self._call, self._begin = call, begin
        self._wanted = threading.Event()
        self._device = threading.Lock()
        self._asked = time.monotonic()
        self._settled_s = self._restored_s = 0.0
        self._ended = False
        self._wanted.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @contextmanager
    def paused(self, *, settled: bool) -> Iterator[None]:
        """Within, the load rests; `settled`: before, it has run long enough."""
        if settled:
            self._settle()
        self._wanted.clear()
        try:
            with self._device:
                yield
                self._restored_s = 0.0
        finally:
            self._ask()

    def rest(self, *, settled: bool) -> None:
        """Nothing runs until something is asked again: another process has the device. `settled`: it is so by then, and
        stays so as long as that process keeps it busy; else it begins anew to settle."""
        if settled:
            self._settle()
        self._wanted.clear()
        with self._device:
            self._settled_s, self._restored_s = self._settled_s if settled else 0.0, 0.0

    def end(self) -> None:
        self._ended = True
        self._wanted.set()
        self._thread.join()

    def _settle(self) -> None:
        """Runs until the device is in the state that all timings begin in."""
        self._ask()
        while self._thread.is_alive() and not self._long_enough():
            time.sleep(_LOOK_SECONDS)
            self._ask()  # anew: had this process been stopped for long, the load would have ended for good

    def _ask(self) -> None:
        self._asked = time.monotonic()
        self._wanted.set()

    def _long_enough(self) -> bool:
        return self._settled_s >= SETTLE_SECONDS and self._restored_s >= RESTORE_SECONDS

    def _run(self) -> None:
        self._begin()
        while not self._ended:
            self._wanted.wait()
            if time.monotonic() - self._asked > IDLE_SECONDS:
                self._wanted.clear()
                self._settled_s = 0.0
                continue
            with self._device:
                if self._wanted.is_set():
                    seconds = self._call()
                    self._settled_s += seconds
                    self._restored_s += seconds


# --- in flight --------------------------------------------------------------------------------------------------


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
