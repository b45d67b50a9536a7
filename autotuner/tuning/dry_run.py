"""A rehearsal: the space, one candidate and the exact commands, with nothing built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.microkernel import OBJECTS_FLAG, OBJECTS_FOLDER, object_flags
from autotuner.iree.compile import shell_line
from autotuner.iree.run import Benchmark, Invocation, benchmark_command
from autotuner.iree.tools import Tools
from autotuner.microkernels.variants import find_variants, kernel_chip
from autotuner.problems import Problem
from autotuner.problems.base import FUNCTION
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir, usable_cores
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.evaluate import candidate_id
from autotuner.tuning.options import WHOLE, Options, Task
from autotuner.tuning.plan import Plan


@dataclass(frozen=True)
class Rehearsal:
    """What a run would do, for programs and for people."""

    document: Mapping[str, Any]
    said: str

    def to_json(self) -> dict[str, Any]:
        return {"schema": 1, **self.document}

    def text(self) -> str:
        return self.said


def rehearse(problem: Problem, target: Target, *, options: Options, task: Task = WHOLE) -> Rehearsal:
    """Reads the space from the compiler and renders a sample; compiles and times nothing, and writes nothing.

    A microkernel that comes from source is built: its spec names the object.
    """
    prepared = target.prepare(problem)
    tools = Tools.find(options.iree_tools)
    builder = Builder(tools, Cache(cache_dir()), begins=False)
    with BuildExecutor.local(builder, options.jobs or usable_cores()) as executor:
        plan = Plan.make(prepared, target, executor, timeout=options.effort.compile_timeout)
    device = target.choose_device(options.device)
    variants, left_out = find_variants(
        options.microkernels,
        prepared,
        chip=kernel_chip(target, device if options.cluster is None else NO_DEVICE),
        workspace=options.workspace,
        executable_target=plan.executable_target,
    )
    plan = plan.with_kernels(variants, alone=task.microkernels_alone)
    candidate = None
    pieces: dict[str, int] = {}
    if len(plan.space):
        row = int(plan.space.sample(1, np.random.default_rng(options.seed))[0])
        candidate = plan.candidate(plan.space[row], id=candidate_id(0))
        pieces = {str(value): count for value, count in plan.space.counts(plan.space.knobs[0].name).items()}
    chosen = candidate or plan.baseline
    job = plan.job(chosen, timeout=0.0)
    commands = [shell_line(_where_objects_lie(job.command(tools), chosen.carrier.parts().objects))]
    if device != NO_DEVICE:
        inputs = tuple(operand.text for operand in prepared.operands)
        called = Benchmark(Invocation(FUNCTION, inputs, ()), options.effort.repetition_seconds, timeout=0.0)
        commands.append(shell_line(benchmark_command(tools, Path("module.vmfb"), called, device=device)))
    knobs, notes = candidate.knobs if candidate else None, [*plan.notes, *left_out]
    listed = ", ".join(f"{name} {count}" for name, count in pieces.items())
    lines = [f"space: {len(plan.space)} configurations{f' ({listed})' if listed else ''}"]
    lines += [*(f"note: {note}" for note in notes), "", "--- problem.mlir", plan.source.rstrip()]
    if knobs is not None and job.spec is not None:
        chosen_knobs = ", ".join(f"{k}={v}" for k, v in knobs.items())
        lines += ["", f"--- spec.mlir of a sample candidate: {chosen_knobs}", job.spec.rstrip()]
    document = {
        "problem": prepared.describe(),
        "target": target.name,
        "space": len(plan.space),
        "pieces": pieces,
        "config": knobs,
        "problem_mlir": plan.source,
        "spec_mlir": job.spec,
        "commands": commands,
        "notes": notes,
    }
    return Rehearsal(document, "\n".join([*lines, "", "--- commands", *commands]))


def _where_objects_lie(words: Sequence[str], objects: Sequence[Path]) -> list[str]:
    """A run copies a microkernel's objects beside its program; nothing is copied here."""
    copied = f"{OBJECTS_FLAG}={OBJECTS_FOLDER}"
    return [part for word in words for part in (object_flags(objects) if word == copied else [word])]
