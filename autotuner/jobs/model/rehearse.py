"""A rehearsal of a model's run: routes, ranking, the first dispatch's space; nothing is built and nothing timed."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.iree.compile import shell_line
from autotuner.iree.tools import Tools
from autotuner.jobs.model.dispatches import on_route
from autotuner.jobs.model.route_search import Routes, choose
from autotuner.programs.dispatch import DispatchProblem, group_flops, loop_sizes, runs_alone
from autotuner.programs.flow import Group
from autotuner.programs.model import Model, ModelBuilder, ModelFile
from autotuner.programs.structure import ModelStructure, read_structure
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.system.text import count
from autotuner.targets import PLAIN, Target
from autotuner.tuning.dry_run import Rehearsal, rehearse
from autotuner.tuning.options import Options


@dataclass(frozen=True)
class ModelRehearsal:
    """What a run over a model would do."""

    program: ModelFile
    target: Target
    structure: ModelStructure
    routes: Routes
    ranked: tuple[Group, ...]
    first: Rehearsal | None
    commands: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "problem": {"op": "model", "name": self.program.name, "flops": self.structure.flops},
            "target": self.target.name,
            "routes": [{"name": route.name, "flags": list(route.flags)} for route in self.routes.first],
            "knobs": {knob.name: [s.name for s in knob.settings] for knob in self.routes.knobs},
            "dispatches": [
                {
                    "op": group.root.op,
                    "loops": _loops(group),
                    "calls": group.calls,
                    "share": self._share(group),
                    "dispatches": list(group.symbols),
                    "skipped": runs_alone(group.pieces[0], group.root),
                }
                for group in self.ranked
            ],
            "first": self.first.to_json() if self.first else None,
            "commands": list(self.commands),
        }

    def text(self) -> str:
        pieces, roots = count(len(self.structure.flow.pieces), "dispatch"), count(len(self.ranked), "different root")
        lines = [f"{self.program.name}: {pieces}, {roots}"]
        first, knobs = self.routes.first, self.routes.knobs
        lines += ["", "routes to try:", *(f"  {r.name}: {shell_line(r.flags) or 'no flags'}" for r in first)]
        lines += ["", "then the best of them with one knob turned at a time:"] if knobs else []
        lines += [f"  {knob.name} ({knob.purpose}): {', '.join(s.name for s in knob.settings)}" for knob in knobs]
        lines += ["", "dispatches on the plain route, by their arithmetic (a run ranks by time):"]
        for group in self.ranked:
            why = runs_alone(group.pieces[0], group.root)
            sizes = "x".join("D" if size is None else str(size) for size in _loops(group))
            lines.append(
                f"  {self._share(group):6.1%} {count(group.calls, 'call')} of {group.root.op} {sizes} {why}".rstrip()
            )
        lines += ["", "--- commands", *self.commands]
        if self.first is not None:
            lines += ["", f"--- the first of them alone: {self.first.problem.name}", self.first.text()]
        return "\n".join(lines)

    def _share(self, group: Group) -> float:
        return group_flops(group) / (self.structure.flops or 1)


def rehearse_model(model: Model, target: Target, *, options: Options) -> ModelRehearsal:
    """Compiles to the point where dispatches are configured, and no further; an ONNX model is imported."""
    tools = Tools.find(options.iree_tools)
    with tempfile.TemporaryDirectory() as folder:
        program = model.opened(folder=Path(folder), tools=tools)
        builder = ModelBuilder(tools, Cache(cache_dir()), program)
        flags = list(target.compile_flags)
        structure = read_structure(
            builder, model, flags, target=target.name, timeout=options.effort.compile_timeout * 10
        )
        routes = choose(target, model.routes, structure.ops)
        ranked = sorted(structure.groups, key=group_flops, reverse=True)
        commands = [shell_line(builder.command([*flags, *r.flags], vmfb=Path(f"{r.name}.vmfb"))) for r in routes.first]
        return ModelRehearsal(
            program, target, structure, routes, tuple(ranked), _first(ranked, target, options), tuple(commands)
        )


def _loops(group: Group) -> list[int | None]:
    """The sizes of its loops, dynamic ones as the inputs tell them; None where they do not."""
    root, told = group.root, loop_sizes(group.pieces[0], group.root) or {}
    return [(told.get(axis) or None) if axis in root.dynamic else size for axis, size in enumerate(root.loops)]


def _first(ranked: Sequence[Group], target: Target, options: Options) -> Rehearsal | None:
    group = next((g for g in ranked if not runs_alone(g.pieces[0], g.root)), None)
    if group is None:
        return None
    problem = DispatchProblem(group.pieces[0], group.root, "dispatch")
    return rehearse(problem, on_route(target, PLAIN), options=options)
