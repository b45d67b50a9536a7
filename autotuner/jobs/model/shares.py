"""Which part of a model's time each of its dispatches takes."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.jobs.model.context import Context
from autotuner.jobs.suite.defaults import DefaultTimer
from autotuner.programs.dispatch import DispatchProblem, called_flops, runs_alone
from autotuner.programs.structure import ModelStructure, Shares, by_work, from_statistics
from autotuner.system import process
from autotuner.targets import Route, Target


def measure_shares(context: Context, route: Route, structure: ModelStructure, build: Compiled | None) -> Shares:
    """By the runtime's statistics; where it has none, by timing each dispatch; without a device, by arithmetic."""
    if build is None:
        return by_work(structure.groups)
    found = from_statistics(context.statistics(build))
    if found is not None:
        return found
    with context.clocked("time"):
        return _alone(context, route, structure)


def on_route(target: Target, route: Route) -> Target:
    """The target with a route's flags for its own: within it there is no other route."""
    return replace(target, user_flags=(*target.user_flags, *route.flags), knobs=())


def _alone(context: Context, route: Route, structure: ModelStructure) -> Shares:
    """Each dispatch timed on its own, times its calls; what there is no time for is estimated by its arithmetic."""
    context.stage("timing each dispatch alone: this device keeps no statistics")
    pieces = [(g, p) for g in structure.groups for p in g.pieces if not runs_alone(p, g.root)]
    # The most work first: what is estimated in the end is of little weight.
    pieces.sort(key=lambda pair: called_flops(pair[1], pair[0].root), reverse=True)
    problems = [DispatchProblem(piece, group.root, f"piece_{n}") for n, (group, piece) in enumerate(pieces)]
    session, options = context.session, context.options
    target = on_route(context.target, route)
    timer = DefaultTimer(target, session, options.effort, options.seed)
    us: dict[str, float] = {}
    with suppress(OutOfTimeError), process.until(context.clock.phase("ranking")):
        for problem, default in timer.time(problems):
            if isinstance(default, float) and isinstance(problem, DispatchProblem):
                us[problem.piece.export] = default * problem.piece.calls
    work = {piece.export: called_flops(piece, group.root) for group, piece in pieces}
    known = sum(work[name] for name in us)
    rate = sum(us.values()) / known if known else 1.0
    missing = {name: rate * amount for name, amount in work.items() if name not in us}
    how = "each dispatch timed alone" + (f", {len(missing)} estimated by their arithmetic" if missing else "")
    return Shares({**us, **missing}, how, estimated=bool(missing))
