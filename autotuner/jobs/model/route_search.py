"""Which route is tried next: what is expected to win, then the best with one knob turned, then what gained alone.

It asks and is told; it compiles and times nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autotuner.targets.knobs import PLAIN, Knob, Route, route_of, sensible

GAIN = 0.02
"""A route is the new best only when it gains so much: less than that is noise."""
_HOPELESS = 2
"""A setting that failed so often, and never worked, is not tried again."""

Names = tuple[str, ...]
"""The settings of a route, in the order of the knobs; empty: the default."""


@dataclass
class RouteSearch:
    """Greedy: from the best so far, one knob at a time; what gained alone is tried together."""

    knobs: Sequence[Knob]
    """Of this target, and able to matter for this model; none: only what is in the queue is tried."""
    queue: list[Route] = field(default_factory=list)
    """To be tried first, in this order."""
    _origin: dict[Names, Names] = field(default_factory=lambda: {(): ()})
    """Route -> the one that it is a step from."""
    _us: dict[Names, float] = field(default_factory=dict)
    """inf: it failed."""

    def ask(self, count: int) -> list[Route]:
        """The next routes; fewer than asked for where there are no more until more is told, or none at all."""
        found: list[Route] = []
        while len(found) < count and (route := self._next()) is not None:
            found.append(route)
        return found

    @property
    def has_more(self) -> bool:
        """There are routes that were not asked for yet."""
        if any(self._names(route) not in self._origin for route in self.queue):
            return True
        return any(names not in self._origin for names in (*self._together(), *self._turned(self._center)))

    def tell(self, route: Route, us: float | None) -> None:
        """What came of a route; None: it does not compile, does not run or computes something else."""
        self._us[self._names(route)] = math.inf if us is None else us

    @property
    def best(self) -> Names:
        """Where the search stands: the fastest, or the first of those that noise cannot tell from it."""
        finished = [names for names, us in self._us.items() if math.isfinite(us) and self._is_product(names)]
        fastest = min((self._us[names] for names in finished), default=math.inf)
        return next((names for names in finished if self._us[names] <= (1 + GAIN) * fastest), ())

    @property
    def _center(self) -> Names:
        """Until what is expected to win is known, the search goes on from there."""
        expected = next((names for names in self._origin if names and self._is_product(names)), ())
        return self.best if expected in self._us or not expected else expected

    def _next(self) -> Route | None:
        while self.queue:
            route = self.queue.pop(0)
            if self._names(route) not in self._origin:
                self._origin[self._names(route)] = ()
                return route
        center = self._center
        for names in (*self._together(), *self._turned(center)):
            if names not in self._origin:
                self._origin[names] = center
                return route_of(self.knobs, names)
        return None

    def _names(self, route: Route) -> Names:
        """Its settings; a user's own route has none, and goes by its name."""
        names = sensible(self.knobs, route.settings)
        return names if route == PLAIN or (names and route_of(self.knobs, names) == route) else (route.name,)

    def _is_product(self, names: Names) -> bool:
        return {setting.name for knob in self.knobs for setting in knob.settings}.issuperset(names)

    def _together(self) -> Iterator[Names]:
        """What gained alone on the same route, all of it at once."""
        origin = self._origin.get(self.best, ())
        base = self._us.get(origin, math.inf)
        gained = [n for n, us in self._us.items() if self._origin.get(n) == origin and us < base / (1 + GAIN)]
        if origin and len(gained) > 1:
            turned = {name for names in gained for name in names if name not in origin}
            dropped = {name for name in origin if any(name not in names for names in gained)}
            yield sensible(self.knobs, {*origin, *turned} - (dropped - turned))

    def _turned(self, names: Names) -> Iterator[Names]:
        """The route with one knob turned."""
        hopeless = self._hopeless()
        for knob in self.knobs:
            own = {setting.name for setting in knob.settings}
            rest = [name for name in names if name not in own]
            others = [s.name for s in knob.settings if s.name not in names and s.name not in hopeless]
            for name in others:
                turned = sensible(self.knobs, [*rest, name])
                if name in turned:  # else it does nothing here
                    yield turned
        for name in names:
            yield sensible(self.knobs, [other for other in names if other != name])

    def _hopeless(self) -> set[str]:
        worked = {name for names, us in self._us.items() if math.isfinite(us) for name in names}
        failed = [name for names, us in self._us.items() if math.isinf(us) for name in names]
        return {name for name in failed if failed.count(name) >= _HOPELESS} - worked
