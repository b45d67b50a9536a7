"""A rehearsal of an experiment: both arms are prepared and proven, and the commands shown; no module is made."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.iree.compile import shell_line
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.recipe import ArmSite, Recipe
from autotuner.microkernels.variants import kernel_chip
from autotuner.problems.render import problem_mlir
from autotuner.system.text import times
from autotuner.targets import Target
from autotuner.tuning.options import Options


@dataclass(frozen=True)
class Rehearsal:
    """What an experiment would do."""

    name: str
    target: Target
    arms: tuple[Mapping[str, Any], ...]
    source: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "problem": {"name": self.name},
            "target": self.target.name,
            "arms": [dict(arm) for arm in self.arms],
            "problem_mlir": self.source,
        }

    def text(self) -> str:
        lines = [f"{self.name} on {self.target.name}"]
        for letter, arm in zip("AB", self.arms, strict=True):
            applied = f", its spec applies {times(arm['applied'])}" if arm["spec"] else ""
            lines += ["", f"--- {letter}: {arm['name']} ({arm['kind']}){applied}", *arm["command"]]
        return "\n".join([*lines, "", "--- problem.mlir", self.source.rstrip()] if self.source else lines)


def rehearse_experiment(wanted: Experiment, target: Target, *, options: Options) -> Rehearsal:
    """Writes nothing outside of a folder that is thrown away."""
    tools = Tools.find(options.iree_tools)
    problem = target.prepare(wanted.problem) if wanted.problem is not None else None
    with tempfile.TemporaryDirectory(prefix="autotune-") as scratch:
        folder = Path(scratch)
        if wanted.model is not None:
            program = wanted.model.opened(folder=folder, tools=tools)
            source: str | Path = program.path
            name = program.name
        elif problem is not None:
            source, name = problem_mlir(problem), problem.name
        else:
            raise ValueError("neither a problem nor a model")
        arms = []
        for arm in (wanted.a, wanted.b):
            site = ArmSite(
                program=source,
                flags=(*(problem.flags if wanted.model is None and problem else ()), *target.compile_flags),
                target=target,
                chip=kernel_chip(target, target.choose_device(options.device)),
                tools=tools,
                workspace=options.workspace.absolute(),
                folder=folder,
                timeout=options.effort.compile_timeout,
                problem=problem,
                allow=wanted.allow,
            )
            arms.append(_described(arm, arm.recipe(site), source, folder))
        return Rehearsal(name, target, tuple(arms), source if isinstance(source, str) else None)


def _described(arm: Arm, recipe: Recipe, source: str | Path, folder: Path) -> dict[str, Any]:
    """As an experiment would run it in its folder."""

    def inside(word: str) -> str:
        return word.replace(f"{folder}/", "")

    words = recipe.job(source, timeout=0.0).by_hand(recipe.tools)
    return {
        "name": arm.name,
        "kind": arm.kind,
        "flags": [inside(flag) for flag in recipe.flags],
        "spec": inside(str(recipe.spec)) if recipe.spec else None,
        "applied": recipe.applied,
        "command": [shell_line(inside(word) for word in words)],
    }
