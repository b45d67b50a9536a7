"""A rehearsal of a model's run: routes, ranking, the first dispatch's space; nothing is built and nothing timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotuner.iree.compile import shell_line
from autotuner.iree.tools import Tools
from autotuner.jobs.model.route_search import choose
from autotuner.jobs.model.shares import on_route
from autotuner.programs.dispatch import DispatchProblem, group_flops, loop_sizes, runs_alone
from autotuner.programs.flow import Group
from autotuner.programs.model import Model, ModelBuilder
from autotuner.programs.structure import read_structure
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.system.text import count, listed
from autotuner.targets import PLAIN, Target
from autotuner.tuning.dry_run import Rehearsal, rehearse
from autotuner.tuning.options import Options

_SHOWN = 6
"""Of each list: what would be done fits two screens, and --json has all of it."""


def rehearse_model(model: Model, target: Target, *, options: Options) -> Rehearsal:
    """Compiles to the point where dispatches are configured, and no further; an ONNX model is imported."""
    tools = Tools.find(options.iree_tools)
    with process.temporary("autotune-") as folder:
        program = model.opened(folder=folder, tools=tools)
        builder = ModelBuilder(tools, Cache(cache_dir()), program)
        flags = list(target.compile_flags)
        structure = read_structure(builder, flags, target=target.name, timeout=options.effort.compile_timeout * 10)
        routes = choose(target, model.routes, structure.ops)
        ranked = sorted(structure.groups, key=group_flops, reverse=True)
        commands = [shell_line(builder.command([*flags, *r.flags], vmfb=Path(f"{r.name}.vmfb"))) for r in routes.first]
    first = _first(ranked, target, options)
    dispatches = [_described(group, structure.flops) for group in ranked]
    document = {
        "problem": {"op": "model", "name": program.name, "flops": structure.flops},
        "target": target.name,
        "routes": [{"name": route.name, "flags": list(route.flags)} for route in routes.first],
        "knobs": {knob.name: [s.name for s in knob.settings] for knob in routes.knobs},
        "dispatches": dispatches,
        "first": first.to_json() if first else None,
        "commands": commands,
    }
    pieces, roots = count(len(structure.flow.pieces), "dispatch"), count(len(ranked), "different root")
    lines = [f"{program.name}: {pieces}, {roots}", "", "routes to try:"]
    lines += listed([f"  {r.name}: {shell_line(r.flags) or 'no flags'}" for r in routes.first], most=_SHOWN)
    lines += ["", "then the best of them with one knob turned at a time:"] if routes.knobs else []
    knobs = [f"  {knob.name} ({knob.purpose}): {', '.join(s.name for s in knob.settings)}" for knob in routes.knobs]
    lines += listed(knobs, most=_SHOWN)
    lines += ["", "dispatches on the plain route, by their arithmetic (a run ranks by time):"]
    told = []
    for one in dispatches:
        sizes = "x".join("D" if size is None else str(size) for size in one["loops"])
        calls = count(one["calls"], "call")
        told.append(f"  {one['share']:6.1%} {calls} of {one['op']} {sizes} {one['skipped']}".rstrip())
    lines += [*listed(told, most=_SHOWN), "", "the first command, as --json has them all:", *commands[:1]]
    if first is not None:
        own = first.to_json()
        lines += ["", f"the first dispatch alone: {own['problem']['name']}, {count(own['space'], 'configuration')}"]
    return Rehearsal(document, "\n".join(lines))


def _described(group: Group, flops: int) -> dict[str, Any]:
    """A group of dispatches; sizes of loops as the inputs tell them, None where they do not."""
    root, told = group.root, loop_sizes(group.pieces[0], group.root) or {}
    return {
        "op": root.op,
        "loops": [(told.get(n) or None) if n in root.dynamic else size for n, size in enumerate(root.loops)],
        "calls": group.calls,
        "share": group_flops(group) / (flops or 1),
        "dispatches": list(group.symbols),
        "skipped": runs_alone(group.pieces[0], root),
    }


def _first(ranked: Sequence[Group], target: Target, options: Options) -> Rehearsal | None:
    group = next((g for g in ranked if not runs_alone(g.pieces[0], g.root)), None)
    if group is None:
        return None
    problem = DispatchProblem(group.pieces[0], group.root, "dispatch")
    return rehearse(problem, on_route(target, PLAIN), options=options)
