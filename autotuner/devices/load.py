"""The load of a device between timings, which puts it in the same state before each."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SETTLE_SECONDS = 1.0
"""Seconds in which a GPU under load reaches its sustained clock, as far as timings show."""
RESTORE_SECONDS = 0.03
"""Seconds of load between two timings: a GPU's clock follows its power in less."""
IDLE_SECONDS = 20.0
"""The load ends after so many seconds without a request, until the next one."""
_LOOK_SECONDS = 0.001


def context_of_this_thread() -> Callable[[], object]:
    """A function that makes this thread's device usable in another thread: a CUDA context belongs to threads."""
    with suppress(OSError):
        cuda, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        if cuda.cuCtxGetCurrent(ctypes.byref(context)) == 0 and context:
            return lambda: cuda.cuCtxSetCurrent(context)
    return lambda: None


class Load:
    """A call that is repeated while nothing is measured.

    It has a thread of its own. Modules are loaded beside it; checks and timings have the device to themselves.
    """

    def __init__(self, call: Callable[[], float], *, begin: Callable[[], object]) -> None:
        """`call` returns its seconds; `begin` is called once, in the thread of the calls."""
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
        """Pauses the load for a block; `settled`: only after it has run long enough."""
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
        """Stops the load until the next request, because another process has the device. `settled`: the device is in
        its lasting state, and that process keeps it so; else it settles anew."""
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
        """Runs the load until the device is in its lasting state."""
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
