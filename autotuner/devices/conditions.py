"""The state of a device during a timing, as it is stored and shown. It imports little, so that `history` starts
fast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from statistics import median
from typing import Any, Literal

DeviceState = Literal["sustained", "burst", "process"]
"""What a device did before a timing: it was under load, it paused (in rows of older versions), or its process began.
Times in different states are not compared."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample of a device's clock, power and temperature."""

    mhz: float | None = None
    watts: float | None = None
    celsius: float | None = None

    def to_json(self) -> dict[str, float]:
        """The known figures."""
        known = {"mhz": self.mhz, "watts": self.watts, "celsius": self.celsius}
        return {name: round(value, 1) for name, value in known.items() if value is not None}

    @classmethod
    def from_json(cls, table: Mapping[str, float]) -> Sample:
        return cls(*(table.get(name) for name in ("mhz", "watts", "celsius")))

    @classmethod
    def middle(cls, samples: Iterable[Sample]) -> Sample:
        """The median of each figure, over the samples that have it."""
        looks = list(samples)
        known = {one.name: [v for look in looks if (v := getattr(look, one.name)) is not None] for one in fields(cls)}
        return cls(**{name: median(values) if values else None for name, values in known.items()})


NO_SAMPLE = Sample()


@dataclass(frozen=True, slots=True)
class Conditions:
    """The state of a device during a timing."""

    state: DeviceState
    cache: Literal["warm", "cold"] = "warm"
    before: Sample = NO_SAMPLE
    after: Sample = NO_SAMPLE
    device: str = ""
    """Its URI; empty in rows of older versions."""

    def to_json(self) -> dict[str, Any]:
        samples = {"before": self.before.to_json(), "after": self.after.to_json()}
        where = {"device": self.device} if self.device else {}
        return {
            "state": self.state,
            "cache": self.cache,
            **where,
            **{name: table for name, table in samples.items() if table},
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Conditions:
        before, after = (Sample.from_json(table.get(name, {})) for name in ("before", "after"))
        return cls(table["state"], table["cache"], before, after, table.get("device", ""))
