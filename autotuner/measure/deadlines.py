"""When a race and its confirmation end early: asked before each block, by the plan and what is left of the time."""

from __future__ import annotations

from dataclasses import dataclass

from autotuner.measure.blocks import LOOKS
from autotuner.measure.timeplan import FAR_AHEAD, TELL, TimePlan
from autotuner.system.progress import Clock, Stop

RACE_SHARE = 0.7
"""Of the time from the beginning of a race to the end of the confirmation: a race that is not settled by then ends."""


@dataclass
class RaceDeadline:
    """When a race must end; asked once before each block."""

    clock: Clock
    stop: Stop
    plan: TimePlan
    left: float
    """When the race began."""
    block: float
    """Seconds for one more."""
    blocks: int = 0

    def __call__(self) -> bool:
        looked = self.blocks >= LOOKS[0]
        self.blocks += 1
        left = self.clock.left
        late = looked and self.left - left > RACE_SHARE * (self.left - self.plan.shipping)
        return self.stop.requested or late or left - self.block < self.plan.needs_confirmation(looked=looked)


@dataclass
class ConfirmDeadline:
    """When a confirmation ends before its last block; asked once before each.

    Of what is far ahead the blocks that there are may tell enough, where the machine has become slower than planned:
    then what is left is kept for shipping.
    """

    clock: Clock
    stop: Stop
    plan: TimePlan
    began: float
    """Seconds of the run."""
    blocks: int = 0

    def __call__(self) -> bool:
        done, self.blocks = self.blocks, self.blocks + 1
        return self.stop.requested or (self.plan.ahead >= FAR_AHEAD and self.enough(done))

    def enough(self, done: int) -> bool:
        """Whether so many timings of the baseline may tell something, and there is no time for one more."""
        if done + self.plan.known < TELL:
            return False
        one = (self.clock.elapsed - self.began) / done if done else self.plan.race.brief.baseline
        return self.clock.left < one + self.plan.shipping
