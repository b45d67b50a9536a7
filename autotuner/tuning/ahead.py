"""Kernels that a search begins with, made while IREE's default is still timed: on a GPU the cores are idle then."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress

from autotuner.build.executor import BuildExecutor
from autotuner.carriers.carrier import VariantCarrier
from autotuner.errors import OutOfTimeError
from autotuner.system.process import behind_timings
from autotuner.tuning.evaluate import REFUSALS
from autotuner.tuning.plan import Plan


@contextmanager
def made_ahead(plan: Plan, executor: BuildExecutor, *, most: int) -> Iterator[list[Future[None]]]:
    """So many at once, from here on; those that have not begun when this is left are not made any more.

    A kernel's object is kept by content, so whoever builds its candidate finds it, or waits for it.
    """
    carriers = (plan.candidate(config, id="").carrier for config in plan.first)
    kernels = [carrier for carrier in carriers if isinstance(carrier, VariantCarrier)]
    with behind_timings():
        futures = [executor.here.submit(_make, kernel) for kernel in kernels[:most]]
    try:
        yield futures
    finally:
        for future in futures:
            future.cancel()


def _make(kernel: VariantCarrier) -> None:
    """What is wrong with one is told where its candidate is built."""
    with suppress(OutOfTimeError, *REFUSALS):
        _ = kernel.built
