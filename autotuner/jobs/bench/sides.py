"""The sides of a comparison, timed alike: IREE's modules on their device here; other libraries in `library`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from autotuner.build import Compiled
from autotuner.devices.conditions import Conditions
from autotuner.devices.device import Computed, Device, Timing
from autotuner.errors import AutotuneError, NoCandidateError
from autotuner.iree.run import Benchmark
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.ab.recipe import ArmSite, Recipe
from autotuner.jobs.bench.backends import IREE
from autotuner.jobs.bench.given import Given
from autotuner.jobs.bench.result import UNTUNED
from autotuner.jobs.opening import lengthened
from autotuner.measure.cache_timer import cold_pairs
from autotuner.tuning.session import Session

GPU_CALL_US = 32_000.0
"""So long a call lasts on a GPU. On an NVIDIA H200 one costs about 150 µs whatever it does, and a library's graph is
timed by the device's own clock, without that: of this it is less than 0.5 %."""
MOST_REPEATS = 8192
"""More than a search has: a module repeats in a loop, so that it is as large and compiles as fast with any number."""


class NoSideError(Exception):
    """A backend does not compute this, or fails before it is timed."""

    def __init__(self, failure: str, detail: str) -> None:
        super().__init__(detail)
        self.failure, self.detail = failure, detail


@dataclass(frozen=True)
class Manner:
    """How all backends of a problem are timed."""

    device: Device
    seconds: float
    """A repetition, at least."""
    timeout: float
    on_host: bool
    """On a GPU each block begins with a warm-up of its own to a lasting state."""

    @property
    def lasting_us(self) -> float:
        """How long a call of IREE lasts, at least, beside libraries: on a processor it costs little."""
        return max(2 * self.device.invocation_us, 0.0 if self.on_host else GPU_CALL_US)


@dataclass(frozen=True)
class Side:
    """One backend with one problem: it was called once, and can be timed."""

    how: str
    """How it is computed, in a few words."""
    elements: tuple[str, ...]
    """The type of each result."""
    computed: Computed
    """The results of one call."""
    time: Callable[[int], Timing]
    """A block of this many repetitions."""
    time_cold: Callable[[float], Timing | None]
    """The same on inputs outside the last level cache, given the warm time; None where there is no memory for them."""
    recipe: Recipe | None = None
    """How IREE compiled it; None of another library."""
    once: Compiled | None = None


class Backend(Protocol):
    """What a problem can be timed on."""

    @property
    def version(self) -> str: ...

    def prepare(self, given: Given, manner: Manner) -> Side:
        """Raises NoSideError where there is none."""


Made = tuple[Recipe, Compiled]


@dataclass(frozen=True)
class IreeBackend:
    """IREE, with what an arm brings to the compile of one program."""

    name: str
    version: str
    build: Future[Made]
    repeated: Callable[[Recipe, int], Compiled]
    """Compiles it so that its dispatches are repeated."""

    @classmethod
    def start(cls, name: str, arm: Arm | str, site: ArmSite, session: Session, version: str) -> IreeBackend:
        """Compiles it, with the proof that what the arm brings arrives; in words, why there is no arm."""

        def repeated(recipe: Recipe, repeat: int) -> Compiled:
            job = recipe.job(site.program, timeout=site.timeout, repeat=repeat)
            return session.executor.start(job).result()

        return cls(name, version, session.executor.here.submit(_build, arm, site, session), repeated)

    def prepare(self, given: Given, manner: Manner) -> Side:
        """It repeats its dispatches until a call lasts long enough."""
        recipe, module = self.build.result()
        if module.failure is not None:
            raise NoSideError(module.failure, module.stderr)
        times = {0: " alone", 1: ", applied once"}.get(recipe.applied, f", applied {recipe.applied} times")
        how = "IREE's default" if self.name == IREE else f"{recipe.carrier}{times}"
        benchmark = Benchmark(given.invocation, manner.seconds, manner.timeout, steady=not manner.on_host)
        often = module
        if given.repeated and recipe.repeatable:

            def repeated(repeat: int) -> Compiled:
                return self.repeated(recipe, repeat)

            lasting, most = manner.lasting_us, MOST_REPEATS
            often, timing = lengthened(manner.device, module, benchmark, repeated, lasting_us=lasting, most=most)
            if not timing.ok:
                raise NoSideError(timing.failure or "run-error", timing.detail)
        device = manner.device
        (computed,) = device.check(module.vmfb, [given.invocation], timeout=manner.timeout)

        def timed(repetitions: int) -> Timing:
            return device.time(often, benchmark, repetitions=repetitions)

        cold = partial(_cold, device, module, benchmark)
        return Side(how, given.elements, computed, timed, cold, recipe, module)


def _build(arm: Arm | str, site: ArmSite, session: Session) -> Made:
    if isinstance(arm, str):
        raise NoSideError(UNTUNED, arm)
    try:
        recipe = arm.recipe(site)
    except AutotuneError as error:
        failure = "not-applied" if isinstance(error, NoCandidateError) else "compile-error"
        raise NoSideError(failure, str(error)) from error
    job = recipe.job(site.program, timeout=site.timeout)
    return recipe, session.executor.start(job).result()


def _cold(device: Device, once: Compiled, benchmark: Benchmark, warm_us: float) -> Timing | None:
    """The warm time, and what a single call takes longer on inputs that are not in the cache."""
    pairs = cold_pairs(device, once, benchmark, warm_us)
    if pairs is None or pairs.failure is not None or not pairs.exceeds:
        return None
    return Timing((warm_us + max(pairs.extra_us, 0.0),), conditions=Conditions(device.state, "cold"))
