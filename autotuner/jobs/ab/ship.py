"""A microkernel that has won, as files: a spec with its provenance, the objects, and a flagfile, proven once more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from autotuner._version import __version__
from autotuner.carriers.flagfile import flagfile_text, use_line
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG, spec_mlir
from autotuner.carriers.outputs import MICROKERNEL, Outputs, files_in
from autotuner.carriers.provenance import Provenance, today
from autotuner.errors import EnvironmentFailure
from autotuner.iree.compile import first_error, shell_line
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.ab.build import build
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.side import A, B, Side
from autotuner.jobs.ab.subject import Subject
from autotuner.jobs.model.context import compile_timeout
from autotuner.jobs.model.program import program_name
from autotuner.measure.judge import Judgement
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.system.workspace import Workspace
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Run


def outputs(subject: str, arm: Arm, target: Target, options: Options, workspace: Workspace) -> Outputs:
    """Where the files of an arm that wins go, for the problem or model of this name."""
    default = workspace.specs / f"{subject}-{target.name}-{arm.name}.mlir"
    return Outputs.at(options.output or default, workspace, MICROKERNEL)


def claim(wanted: Experiment, target: Target, options: Options, workspace: Workspace) -> None:
    """Where a microkernel wins, files are written: can they be? Asked before anything is compiled."""
    kernel, model = wanted.b.kernel, wanted.model
    name = program_name(model.path) if model else wanted.problem.name if wanted.problem else ""
    if kernel is None:
        return
    arms = [arm.path for arm in (wanted.a, wanted.b) if arm.path is not None]
    read = [*arms, *kernel.objects, *files_in([*wanted.inputs, *target.user_flags])]
    files = outputs(name, wanted.b, target, options, workspace)
    files.claim([*read, *(model.files(target) if model else ())])


def ship(side: Side, subject: Subject, judgement: Judgement, run: Run) -> tuple[Path, Path]:
    """(spec, flagfile); what does not give the code that won is not left behind."""
    placed = side.how.placed
    if placed is None:
        raise ValueError(f"{side.arm.name} is no microkernel")
    files = outputs(subject.name, side.arm, run.target, run.options, run.session.workspace)
    path, flagfile = files.spec, files.flagfile
    command = shell_line(("autotune", *run.options.command[1:]))
    speedup, tools = judgement.speedup, replace(run.session.tools, iree_compile=side.how.compiler)
    provenance = Provenance(
        problem=subject.name,
        target=run.target.name,
        device=run.session.device,
        iree=tools.release,
        compiler=tools.build,
        verdict=judgement.verdict,
        us=judgement.us.get(B),
        baseline_us=judgement.us.get(A),
        low=speedup.low if speedup else None,
        median=speedup.median if speedup else None,
        high=speedup.high if speedup else None,
        date=today(),
        command=command,
    )
    interval = f"{speedup.median:.3f}x, 95 % interval {speedup.low:.3f} to {speedup.high:.3f}" if speedup else ""
    header = [
        f"Microkernel spec by autotune {__version__}",
        f"problem:    {subject.name}",
        f"target:     {run.target.name}; IREE {tools.release} ({tools.build})",
        f"verdict:    {judgement.verdict}, {interval}",
        f"date:       {today()}",
        f"made by:    {command}",
        f"use:        {use_line(flagfile)}",
    ]
    lines = [" ".join(line.splitlines()) for line in header]
    text = spec_mlir(placed.calls, target=placed.executable_target, header=lines, provenance=provenance)
    files.write(path, text)
    for source in {source for call in placed.calls for source in call.instance.objects}:
        files.copy(source)
    own = [flag for flag in side.how.flags if flag not in placed.flags]
    files.write(flagfile, flagfile_text([*own, f"{SPEC_FLAG}={path}", f"{OBJECTS_FLAG}={files.objects}"]))
    try:
        _verify(side, subject, flagfile, run)
    except EnvironmentFailure:
        files.clear()
        raise
    return path, flagfile


def _verify(side: Side, subject: Subject, flagfile: Path, run: Run) -> None:
    """A fresh compile by `@flagfile`, as a user would do it, must give the code that won."""
    with Cache(cache_dir()).scratch() as folder:
        fresh = build(
            side.how.compiler,
            subject.source(folder),
            [f"@{flagfile}"],
            folder=folder,
            timeout=compile_timeout(run.options, run.clock),
        )
        if not fresh.ok:
            raise EnvironmentFailure(
                f"the winner does not compile again from {flagfile}: {first_error(fresh.stderr)}",
                remedy="Run again; if it stays so, please report it with the candidate's folder.",
            )
        if side.built is not None and fresh.binary != side.built.binary:
            raise EnvironmentFailure(
                "the shipped files give another binary than the one that won.",
                remedy="Was IREE exchanged during the run? Run again.",
            )
