"""Many problems tuned side by side: one pool of builds, all devices, and the time where it is expected to gain most."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

from autotuner.devices.device import Device
from autotuner.devices.many import Devices
from autotuner.errors import AutotuneError, OutOfTimeError, StorageError, ToolMissingError
from autotuner.measure.check import too_large
from autotuner.system import process
from autotuner.system.progress import Clock, Progress, Reporter, Stop, clocked
from autotuner.system.text import count
from autotuner.tuning.contest import Finalists, start_leaders
from autotuner.tuning.loop import Loop
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.pool import ForBuilder, ForDevice, Next, Pool
from autotuner.tuning.result import Result
from autotuner.tuning.single import Found, Judged, SingleRun

FIRST = 4
"""Candidates that every problem gets before any is preferred."""
_PRIOR = 0.3
"""The part of its time that tuning is thought to save of a problem of which nothing is known."""
_OPENING_SHARE = 0.5
"""Of the time that is left, at most, for opening all problems before the search goes on with those that are open."""
_LOOK = 0.2
"""Seconds between two looks at what the end takes."""
_END_SHARE = 0.4
"""Of the time, at most, for comparing the best of each problem in the end."""


def expected_gain(loop: Loop, share: float) -> float:
    """What another candidate is expected to save of the whole.

    Of n candidates in no order, the last is the best with a probability of 1/n. How much it then saves is not known:
    at first a guess, and more and more what has been saved of this problem so far.
    """
    asked = loop.candidates()
    if len(asked) < FIRST:  # stock routes come first, too, and what has had fewer is next
        return 1.0 + share / max(len(asked) + 1, len(loop.evaluator.outcomes))
    told = sum(outcome.settled for outcome in asked)
    baseline = loop.evaluator.outcomes[BASELINE].us or 0.0
    best = min(loop.evaluator.best_us, baseline)  # of a default that is wrong there may be nothing better yet
    if not 0 < best < math.inf:
        return 0.0
    saved = max(1 - best / baseline, 0.0)
    scale = (_PRIOR * FIRST + saved * told) / (FIRST + told)
    return share * (1 - saved) * scale / (1 + len(asked))


@dataclass
class Part:
    """One of the problems: what it weighs, and what became of it."""

    label: str
    run: SingleRun
    share: float
    """Of the time of the whole."""
    found: Found | None = None
    error: AutotuneError | None = None
    loop: Loop | None = None
    """Once it is open."""
    compared: bool = field(default=False, init=False)
    """The device has nothing more to do for it."""
    _row: ExitStack = field(default_factory=ExitStack, init=False)
    """Its run in the results database, until that ends."""
    _begun: bool = field(default=False, init=False)
    _leaders: Finalists | None = field(default=None, init=False)

    @property
    def home(self) -> Device | None:
        """The device that its best are compared on; None: it is not open."""
        return self.run.evaluator.calibration.device if self.loop is not None else None

    @property
    def over(self) -> bool:
        return self.found is not None or self.error is not None

    def _guarded(self, do: Callable[[], Next]) -> Next:
        """What goes wrong is its own end, not that of the others."""
        try:
            return do()
        except OutOfTimeError:
            self.abandon("the time was up before IREE's default was timed")
        except (AutotuneError, MemoryError) as error:
            self._fail(error)
        return None

    def opening(self, device: Device) -> Next:
        """All that comes before its search and needs no device; the default is timed on this one."""
        return self._guarded(partial(self._open, device))

    def _open(self, device: Device) -> Next:
        run = self.run
        run.read_space()
        if (recalled := run.recalled()) is not None:
            self.found = recalled
            return None
        run.open(self._row.enter_context(run.begun()))
        self._begun = True
        run.prepare()
        return ForDevice(lambda one: self._guarded(partial(self._calibrate, one)), device)

    def _calibrate(self, device: Device) -> Next:
        run, space, stock = self.run, self.run.plan.space, self.run.plan.stock
        self.loop = run.calibrated(device)
        run.reporter.stage(f"searching {count(len(space), 'configuration')}")
        if not len(space) and not stock:
            return None
        return self.loop.lane(weigh=lambda loop: expected_gain(loop, self.share), first=stock)

    def abandon(self, reason: str) -> None:
        """There is no time for it; what has begun has an end."""
        if self._begun and not self.over:
            self._finish(self.run.summary.result("inconclusive", reason))

    def begin_end(self) -> None:
        """Begins the builds of what is compared in the end, where there is no race of its own."""
        if self.loop is not None and not self.run.task.race and not self.run.stop.requested:
            self._leaders = start_leaders(self.loop, self.run.options.effort)

    def wait(self) -> None:
        """For these builds."""
        if self._leaders is not None:
            self._leaders.wait()

    def end(self, clock: Callable[[], Clock]) -> ForDevice:
        """Its verdict, or who is ahead; within the time that it is given when a device begins with it."""
        return ForDevice(partial(self._judge, clock), self.run.evaluator.calibration.device)

    def _judge(self, clock: Callable[[], Clock], device: Device) -> Next:
        loop = self.run.loop
        loop.clock = clock()
        try:
            with process.until(loop.clock.latest):
                judged = self.run.judged(device, self._leaders)
        except OutOfTimeError:
            self.abandon("the time was up before the best were compared")
        except (AutotuneError, MemoryError) as error:
            self._fail(error)
        else:
            return ForBuilder(lambda: self._guarded(partial(self._conclude, judged)))
        finally:
            self.compared = True
        return None

    def _conclude(self, judged: Judged) -> None:
        with process.until(self.run.loop.clock.latest):
            self._finish(self.run.concluded(judged))

    def tune(self, seconds: float) -> None:
        """Alone, from its beginning to its end."""
        run = self.run
        run.clock = Clock(seconds, part=True)
        try:
            with process.until(run.clock.latest):
                run.read_space()
                self.found = run.recalled()
                if self.found is None:
                    self._finish(run.go(self._row.enter_context(run.begun())))
        except (AutotuneError, MemoryError) as error:
            self._fail(error)

    def _finish(self, result: Result) -> None:
        self.run.clean()
        self.run.run.finish(result)
        self._row.close()
        self.found = self.run.found(result)

    def _fail(self, error: AutotuneError | MemoryError) -> None:
        if isinstance(error, (StorageError, ToolMissingError)):
            raise error
        self.error = error if isinstance(error, AutotuneError) else too_large(self.run.problem)
        self._row.__exit__(type(self.error), self.error, self.error.__traceback__)

    def interrupt(self, error: BaseException) -> None:
        """Somebody else's error, or the user, ends all of it."""
        self._row.__exit__(type(error), error, error.__traceback__)


@dataclass(frozen=True)
class _Beside:
    """One of many searches, whose progress is shown as that of all."""

    label: str
    reporter: Reporter
    all: dict[str, Progress]

    def stage(self, text: str) -> None:
        self.reporter.stage(text)

    def note(self, text: str) -> None:
        self.reporter.note(text)

    def progress(self, now: Progress) -> None:
        self.all[self.label] = now
        counted = ("trials", "asked", "built", "failed", "timed")
        sums = {name: sum(getattr(one, name) for one in self.all.values()) for name in counted}
        self.reporter.progress(replace(now, **sums, baseline_us=None, best_us=None))


@dataclass
class Together:
    """Parts that share builders, devices and time."""

    parts: Sequence[Part]
    jobs: int
    overlapped: bool
    stop: Stop
    seconds: dict[str, float]
    """What the pool spends is added to."""
    devices: Devices

    def tune(self, seconds: float) -> None:
        """Every part gets its first few candidates if there is time for it; then it goes where gains are expected."""
        clock = Clock(seconds, part=True)
        shown: dict[str, Progress] = {}
        for part in self.parts:
            part.run.reporter = _Beside(part.label, part.run.reporter, shown)
        try:
            with process.until(clock.at(seconds)):
                self._search(clock)
            self._conclude(clock)
        except BaseException as error:
            for part in self.parts:
                part.interrupt(error)
            raise

    def _search(self, clock: Clock) -> None:
        looked, kept = -math.inf, 0.0

        def over() -> bool:
            nonlocal looked, kept
            if clock.elapsed > looked + _LOOK:
                looked, kept = clock.elapsed, self._end_seconds(clock)
            return self.stop.requested or clock.left <= kept

        if not self.parts:
            return
        homes = itertools.cycle(self.devices.live)
        pool = Pool(self.jobs, self.overlapped, over, self.seconds, self.devices)
        worth = [partial(self._worth, part, clock) for part in self.parts]
        opened = (partial(part.opening, home) for part, home in zip(self.parts, homes, strict=False))
        pool.run(calls=map(ForBuilder, opened, worth))

    def _worth(self, part: Part, clock: Clock) -> float:
        """Of opening a part: more than anything else while there is time to open all of them."""
        opened = sum(one.loop is not None or one.over for one in self.parts)
        left = max(clock.left - self._end_seconds(clock), 0.0)
        each = clock.elapsed / opened if opened else 0.0
        if each * (len(self.parts) - opened) <= _OPENING_SHARE * left:
            return math.inf
        return part.share * _PRIOR / (1 + FIRST)

    def _end_seconds(self, clock: Clock) -> float:
        """What comparing the best of each part takes in the end. With nothing to compare with a default nothing is kept
        for it: what is timed late is at least known."""
        loops = [part.loop for part in self.parts if part.loop is not None and not part.over]
        schedules = [loop.schedule for loop in loops if loop.has_rival()]
        at_once = max(len(self.devices.live), 1) if self.overlapped else 1
        each = clock.budget * at_once / len(self.parts)
        judged = sum(one.reserve(each) for one in schedules if one.judges) / at_once
        chosen = sum(one.comparing for one in schedules if not one.judges) / at_once
        return judged + min(chosen, _END_SHARE * clock.budget)

    def _conclude(self, clock: Clock) -> None:
        """The largest share first: where the time does not suffice for all, it is the small ones that go without."""
        for part in self.parts:
            if part.loop is None:
                part.abandon("the time was up before IREE's default was timed")
        left = [part for part in self.parts if not part.over and part.loop is not None]
        for part in left:
            part.begin_end()
        if not self.overlapped:
            with clocked(self.seconds, "build"):
                for part in left:
                    part.wait()
        pool = Pool(self.jobs, self.overlapped, lambda: False, self.seconds, self.devices)
        pool.run(calls=[one.end(partial(self._own_end, one, clock)) for one in left])

    def _own_end(self, part: Part, clock: Clock) -> Clock:
        """Of the time that is left, the part of one of those that its device has still to compare."""
        waiting = [one for one in self.parts if one is part or (one.home and not (one.over or one.compared))]
        beside = [one for one in waiting if one.home is part.home] if self.overlapped else waiting
        return Clock(max(clock.left, 0.0) / len(beside), part=True)
