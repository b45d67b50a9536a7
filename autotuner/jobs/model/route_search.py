"""Which routes are tried on a model: the user's, what won before, what is expected to win; then the best with one knob
turned, then what gained alone.

It compiles and times nothing.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from autotuner.errors import UsageError
from autotuner.problems.operations import OPERATIONS
from autotuner.store.reader import Reader
from autotuner.store.rows import Json, RunRow
from autotuner.system.workspace import checked_name
from autotuner.targets import PLAIN, Route, Target
from autotuner.targets.knobs import Knob, named_route, route_of, sensible, touching

GAIN = 0.02
"""A route is the new best only when it gains so much: less than that is noise."""
_HOPELESS = 2
"""A setting that failed so often, and never worked, is not tried again."""
_TAKEN = 2
"""So many routes of earlier runs, at most."""

Names = tuple[str, ...]
"""The settings of a route, in the order of the knobs; empty: the default."""


@dataclass(frozen=True)
class Routes:
    """What is tried on a model."""

    first: tuple[Route, ...]
    """In this order, the plain one before all."""
    knobs: tuple[Knob, ...] = ()
    """What is turned after that; none where the user names the routes."""

    def named(self, text: str) -> Route:
        """The route that the user means by `NAME` or `NAME=FLAGS`."""
        name = text.partition("=")[0].strip()
        return next((route for route in self.first if route.name == name), self.first[-1])


def choose(target: Target, wanted: Sequence[str], ops: set[str], *, won: Sequence[str] = ()) -> Routes:
    """The routes to try.

    `wanted` are the user's: NAME keeps to the routes that are named, NAME=FLAGS adds one. `won` are the names of those
    that were the fastest on this chip before.
    """
    added: list[Route] = []
    pinned: list[Route] = []
    for text in wanted:
        name, defines, flags = text.partition("=")
        if not defines:
            pinned.append(named_route(target.knobs, name))
            continue
        route = _own(name.strip(), flags)
        if route.name == PLAIN.name or any(route.name == other.name for other in (*pinned, *added)):
            raise UsageError(f"there is a route {route.name} already.", remedy="Give yours another name.")
        added.append(route)
    if pinned:
        return Routes(tuple(dict.fromkeys([PLAIN, *pinned, *added])))
    knobs = touching(target.knobs, ops)
    first = [*_known(knobs, won), *target.model_routes(ops, tuple(OPERATIONS.values()))[1:]]
    return Routes(tuple(dict.fromkeys([PLAIN, *added, *first])), knobs)


def _known(knobs: tuple[Knob, ...], names: Sequence[str]) -> list[Route]:
    """The routes of these names that can still be made of the knobs."""
    settings = {setting.name for knob in knobs for setting in knob.settings}
    found = [Route(name).settings for name in names]
    return [named_route(knobs, "+".join(one)) for one in found if one and settings.issuperset(one)]


def _own(name: str, flags: str) -> Route:
    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise UsageError(f"--route {name}: {error}.", remedy="Quote it as a shell would.") from error
    checked_name(name, what="a route")
    if not words or not all(word.startswith("--") for word in words):
        raise UsageError(
            f"--route {name}={flags} names no flags.", remedy="Write it as --route 'NAME=--iree-flag --other-flag=1'."
        )
    return Route(name, tuple(words))


def routes_that_won(reader: Reader, problem: Json, *, target: str, device_name: str, but: str) -> list[str]:
    """By name; those of the same model first, then those of models with the same operations, the newest first."""
    same: list[str] = []
    alike: list[str] = []
    for row in reader.runs(top=True):
        if row.kind != "model" or row.target != target or row.id == but:
            continue
        found = same if row.problem.get("sha256") == problem.get("sha256") else alike
        if found is alike and row.problem.get("ops") != problem.get("ops"):
            continue
        route = _fastest(reader, row)
        if route and reader.environment(row.id).get("device_name") == device_name:
            found.append(route)
    return list(dict.fromkeys([*same, *alike]))[:_TAKEN]


def _fastest(reader: Reader, row: RunRow) -> str:
    """The stock route that a run timed best; empty where that is none or the default."""
    timed = [c for c in reader.candidates(row.id) if c.us and c.kind in ("baseline", "stock") and not c.failure]
    best = min(timed, key=lambda c: c.us or 0.0, default=None)
    return "" if best is None or best.route == PLAIN.name else best.route


@dataclass
class RouteSearch:
    """Greedy: from the best so far, one knob at a time; what gained alone is tried together."""

    knobs: Sequence[Knob]
    """Of this target, and able to matter for this model; none: only what is in the queue is tried."""
    queue: list[Route] = field(default_factory=list)
    """To be tried first, in this order."""
    rescuing: bool = False
    """The default fails, and no route works yet: one knob after the other is turned. The setting that helps then joins
    all routes that failed without it, and those that wait."""
    _lost: list[Names] = field(default_factory=list)
    """What failed before that."""
    _origin: dict[Names, Names] = field(default_factory=lambda: {(): ()})
    """Route -> the one that it is a step from."""
    _us: dict[Names, float] = field(default_factory=dict)
    """inf: it failed."""

    def ask(self, count: int) -> list[Route]:
        """The next routes; fewer, or none, where the others wait for results."""
        found: list[Route] = []
        while len(found) < count and (route := self._next()) is not None:
            found.append(route)
        return found

    def tell(self, route: Route, us: float | None) -> None:
        """Takes a route's time; None: it does not compile, does not run or is wrong."""
        names = self._names(route)
        self._us[names] = math.inf if us is None else us
        if self.rescuing and us is None:
            self._lost.append(names)
        elif self.rescuing and self._is_product(names):
            self.rescuing = False
            again = filter(self._is_product, (*self._lost, *map(self._names, self.queue)))
            mended = dict.fromkeys(sensible(self.knobs, {*other, *names}) for other in again)
            self.queue = [route_of(self.knobs, other) for other in mended if other not in self._us]

    @property
    def best(self) -> Names:
        """The base of the next routes: the fastest, or the first that noise cannot tell from it."""
        finished = [names for names, us in self._us.items() if math.isfinite(us) and self._is_product(names)]
        fastest = min((self._us[names] for names in finished), default=math.inf)
        return next((names for names in finished if self._us[names] <= (1 + GAIN) * fastest), ())

    @property
    def _center(self) -> Names:
        """Until what is expected to win is known, the search goes on from there."""
        expected = next((names for names in self._origin if names and self._is_product(names)), ())
        return self.best if expected in self._us or not expected else expected

    def _next(self) -> Route | None:
        for names in self._turned(()) if self.rescuing else ():
            if names not in self._origin:
                self._origin[names] = ()
                return route_of(self.knobs, names)
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
        """All knobs that gained alone on the same route, at once."""
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
        failures = [names for names, us in self._us.items() if math.isinf(us) and names not in self._lost]
        failed = [name for names in failures for name in names]
        return {name for name in failed if failed.count(name) >= _HOPELESS} - worked
