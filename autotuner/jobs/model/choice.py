"""Which routes are tried on a model: the user's, what won before, what is expected to win, and the knobs to turn."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from autotuner.errors import UsageError
from autotuner.system.names import checked_name
from autotuner.targets import PLAIN, Route, Target
from autotuner.targets.knobs import Knob, named_route, touching


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
    first = [*_known(knobs, won), *target.model_routes(ops)[1:]]
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
