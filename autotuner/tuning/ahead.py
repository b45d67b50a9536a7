"""Kernels that searches are about to begin with, made on cores that nothing else needs: on a GPU, while it times."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from autotuner.build.executor import BuildExecutor
from autotuner.carriers.carrier import VariantCarrier
from autotuner.errors import OutOfTimeError
from autotuner.system.process import behind_timings
from autotuner.tuning.evaluate import REFUSALS
from autotuner.tuning.plan import Plan

MOST = 16
"""Kernels of one search that are made ahead."""


@dataclass
class Ahead:
    """Those that wait, of all searches; what promises most is made first.

    A kernel's object is kept by content, so whoever builds its candidate finds it, or waits for it.
    """

    executor: BuildExecutor
    _waiting: list[tuple[float, int, VariantCarrier, Callable[[], bool]]] = field(default_factory=list, init=False)
    _number: Iterator[int] = field(default_factory=itertools.count, init=False)
    _made: set[Future[None]] = field(default_factory=set, init=False)
    """Those under way."""
    _closed: bool = field(default=False, init=False)

    @classmethod
    @contextmanager
    def within(cls, executor: BuildExecutor) -> Iterator[Ahead]:
        """Those that have not begun when this is left are not made any more."""
        ahead = cls(executor)
        try:
            yield ahead
        finally:
            ahead.cancel()

    def add(self, plan: Plan, *, share: float = 1.0, wanted: Callable[[VariantCarrier], bool] = lambda _: True) -> None:
        """The kernels that this search begins with; `share` is what it weighs.

        `wanted` says, when a core is free, whether one is still to be made: its candidate may have been asked by then.
        """
        carriers = (plan.candidate(config, id="").carrier for config in plan.first)
        kernels = (carrier for carrier in carriers if isinstance(carrier, VariantCarrier))
        for place, kernel in enumerate(itertools.islice(kernels, MOST), 1):
            heapq.heappush(self._waiting, (-share / place, next(self._number), kernel, _asked(wanted, kernel)))

    def begin(self, room: int) -> list[Future[None]]:
        """As many more as there is room for beside those that are under way."""
        begun: list[Future[None]] = []
        self._made = {future for future in self._made if not future.done()}
        while self._waiting and len(self._made) < room and not self._closed:
            *_, kernel, wanted = heapq.heappop(self._waiting)
            if wanted():
                with behind_timings():
                    begun.append(self.executor.here.submit(_make, kernel))
                self._made.add(begun[-1])
        return begun

    @property
    def under_way(self) -> bool:
        return not all(future.done() for future in self._made)

    def cancel(self) -> None:
        """What has not begun does not."""
        self._closed = True
        for future in self._made:
            future.cancel()


@contextmanager
def beside(executor: BuildExecutor, following: Callable[[], Plan], *, room: int) -> Iterator[None]:
    """While one search goes on, the best few kernels are made that the `following` one begins with."""

    def begin() -> None:
        with suppress(OutOfTimeError, *REFUSALS):
            ahead.add(following())
            ahead.begin(room)

    with Ahead.within(executor) as ahead:
        executor.here.submit(begin)
        yield


def _asked(wanted: Callable[[VariantCarrier], bool], kernel: VariantCarrier) -> Callable[[], bool]:
    return lambda: wanted(kernel)


def _make(kernel: VariantCarrier) -> None:
    """What is wrong with one is told where its candidate is built."""
    with suppress(OutOfTimeError, *REFUSALS):
        _ = kernel.built
