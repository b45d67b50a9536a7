"""Clocks of tests."""

from __future__ import annotations

from dataclasses import dataclass, field

from autotuner.measure.clock import Clock


@dataclass
class Simulated(Clock):
    """Advanced by hand."""

    now: float = field(default=0.0, kw_only=True)

    @property
    def elapsed(self) -> float:
        return self.now
