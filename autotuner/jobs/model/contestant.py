"""A contestant of a model's run: the model compiled in one way, with how it ships."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from autotuner.carriers.carrier import Parts
from autotuner.iree.compile import Compiled, FailureClass, first_error
from autotuner.jobs.model.entries import Entry, KernelEntry
from autotuner.measure.blocks import Entrant, Rules
from autotuner.measure.judgement import Contest, Judgement
from autotuner.measure.reference import DEFAULT, explained
from autotuner.measure.standing import BASELINE, Kind, Standing
from autotuner.targets import PLAIN, Route
from autotuner.tuning.result import Measured

_FILES = 100
"""What a spec weighs beside flags: a file to keep and to renew. As much a microkernel, which is code of one's own."""

Member = Entry | KernelEntry
"""The entries and kernels that go into a model."""


@dataclass(frozen=True)
class Contestant:
    """IREE's default, a route, or what tuning made of a route."""

    id: str
    route: Route
    row: int
    build: Compiled | None = None
    us: float | None = None
    """As it was timed last, before any race."""
    error: float | None = None
    failure: FailureClass | None = None
    detail: str = ""
    duplicate_of: str | None = None
    """A route before it, whose module is the same, and whose time it has."""
    entries: tuple[Entry, ...] = ()
    kernels: tuple[KernelEntry, ...] = ()
    parts: Parts = field(default_factory=Parts)

    @classmethod
    def of(cls, route: Route, row: int, build: Compiled | None = None) -> Contestant:
        """A route as it is."""
        return cls(BASELINE if route == PLAIN else route.name, route, row, build)

    @property
    def ok(self) -> bool:
        """It is right, as far as it is known, and was timed."""
        return self.failure is None and self.us is not None

    @property
    def contends(self) -> bool:
        return self.ok and self.duplicate_of is None

    @property
    def by_flags(self) -> bool:
        """Nothing but its flagfile ships."""
        return not (self.entries or self.kernels)

    @property
    def judged(self) -> Sequence[Member]:
        """Those that are asked whether they gain in it: beside kernels dispatches have other names."""
        return self.kernels or self.entries

    def without(self, labels: Collection[str]) -> tuple[list[Entry], list[KernelEntry]]:
        """Its other contents."""
        entries = [entry for entry in self.entries if entry.label not in labels]
        return entries, [entry for entry in self.kernels if entry.label not in labels]

    @property
    def module(self) -> Compiled:
        if self.build is None:
            raise ValueError(f"{self.id} has no build")
        return self.build

    @property
    def kind(self) -> Kind:
        if self.kernels:
            return "microkernel"
        return "codegen" if self.entries else "baseline" if self.route == PLAIN else "stock"

    @property
    def route_name(self) -> str:
        return self.route.name

    @property
    def label(self) -> str:
        if self.id == BASELINE:
            return DEFAULT
        return f"route {self.route.name}" if self.by_flags else self.id

    @property
    def complexity(self) -> int:
        if self.by_flags:
            return len(self.route.flags)
        return _FILES + len(self.entries) + (_FILES + len(self.kernels) if self.kernels else 0)

    @property
    def foreign(self) -> bool:
        return not all(entry.variants.shipped for entry in self.kernels)

    def measured(self, us: float | None) -> Measured:
        """With its time in the race, or the earlier one without a race."""
        return Measured(self.us if us is None else us, tuple(self.route.flags), self.route.name)

    def to_json(self) -> dict[str, object]:
        """As one of the routes."""
        return {
            "name": self.route.name,
            "flags": list(self.route.flags),
            "us": self.us,
            "error": self.error,
            "compile_seconds": round(self.build.took, 2) if self.build else None,
            **({"failure": self.failure, "detail": first_error(self.detail)} if self.failure else {}),
        }


@dataclass(frozen=True)
class Lineup(Standing[Contestant]):
    """All that a run has; the default, the best route and what tuning made race."""

    @classmethod
    def of(cls, tried: Sequence[Contestant], tuned: Sequence[Contestant]) -> Lineup:
        return cls({one.id: one for one in (*tried, *tuned)})

    @property
    def racing(self) -> list[Contestant]:
        """The baseline and its rivals, the likely fastest first."""
        base, stock = self.base, self.stock
        tuned = [one for one in self.outcomes.values() if not one.by_flags]
        routes = [stock] if stock is not None and stock.route not in (PLAIN, base.route if base else PLAIN) else []
        rivals = sorted([*tuned, *routes], key=lambda one: one.us or math.inf)
        return [*([base] if base is not None else []), *rivals]

    def contest(self, *, smallest_gain: float, seed: int) -> Contest:
        base, *rivals = self.racing
        return Contest(
            entrants=tuple(
                Entrant(one.id, one.complexity if one is not base else 0, one.foreign) for one in (base, *rivals)
            ),
            baseline=base.id,
            stock=next((one.id for one in rivals if one.by_flags), base.id),
            rules=Rules(smallest_gain=smallest_gain),
            seed=seed,
            labels={one.id: one.label for one in (base, *rivals) if one.by_flags},
        )

    def reason_of(self, judgement: Judgement, wrong: str) -> str:
        """The reason of a verdict; that the default is `wrong` comes first, with what a win is over."""
        base = self.base
        return explained(
            wrong,
            judgement.verdict,
            judgement.reason,
            route=base.route_name if base is not self.default and base else None,
        )

    @property
    def instead(self) -> Contestant | None:
        """What ships where the default fails and nothing is proven to be faster: flags alone, if any are right."""
        if self.default is None or self.default.ok:
            return None
        ours = [one for one in self.right if not one.foreign]
        return self.stock or min(ours, key=lambda one: one.us or math.inf, default=None)

    def works_instead(self, made: Contestant, wrong: str, judgement: Judgement) -> str:
        """The reason of a win over a default that fails; the judgement's says why nothing more is proven."""
        default, others = self.default, "the best of the others is " if judgement.speedup is not None else ""
        took = f", and takes {(made.us or 0.0) / default.us:.2f} of its time" if default and default.us else ""
        return f"{wrong}; {made.label} works{took}; {others}{judgement.reason}"


def longest_build(some: Iterable[Contestant]) -> float:
    """Seconds of the longest build of these, whenever it was made."""
    return max((one.build.took for one in some if one.build), default=0.0)
