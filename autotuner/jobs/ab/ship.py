"""A microkernel that has won, as files: a spec with its provenance, the objects, and a flagfile, proven once more."""

from __future__ import annotations

from pathlib import Path

from autotuner.build.ship import compile_shipped
from autotuner.build.ship import ship as ship_parts
from autotuner.carriers.carrier import FileHeader, MicrokernelCarrier
from autotuner.carriers.flagfile import use_line
from autotuner.carriers.outputs import MICROKERNEL, Outputs, files_in
from autotuner.carriers.provenance import Provenance, heading, machine_of, today
from autotuner.jobs.ab.arms import Arm
from autotuner.jobs.ab.opening import Experiment
from autotuner.jobs.ab.racing import ArmRun
from autotuner.jobs.ab.result import A, B
from autotuner.jobs.opening import compile_timeout
from autotuner.measure.judgement import Judgement
from autotuner.programs.program import Program
from autotuner.system.workspace import Workspace
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Run


def outputs(subject: str, arm: Arm, target: Target, options: Options, workspace: Workspace) -> Outputs:
    """Where the files of an arm that wins go, for the problem or model of this name."""
    default = workspace.specs / f"{subject}-{target.name}-{arm.name}.mlir"
    return Outputs.at(options.output or default, workspace, MICROKERNEL, force=options.force)


def claim(wanted: Experiment, target: Target, options: Options, workspace: Workspace) -> None:
    """Where a microkernel wins, files are written: can they be? Asked before anything is compiled."""
    if not wanted.b.kernels:
        return
    model = wanted.model
    name = model.name if model else wanted.problem.name if wanted.problem else ""
    read = [*wanted.a.reads, *wanted.b.reads, *files_in(target.user_flags)]
    files = outputs(name, wanted.b, target, options, workspace)
    files.claim([*read, *(model.files(target) if model else ())])


def ship(
    side: ArmRun, kernel: MicrokernelCarrier, subject: Program, judgement: Judgement, run: Run
) -> tuple[Path, Path]:
    """(spec, flagfile); what does not give the code that won is not left behind."""
    files = outputs(subject.name, side.arm, run.target, run.options, run.session.workspace)
    speedup, tools = judgement.speedup, run.session.tools
    provenance = Provenance(
        problem=subject.name,
        target=run.target.name,
        device=run.session.device,
        verdict=judgement.verdict,
        us=judgement.us.get(B),
        baseline_us=judgement.us.get(A),
        seconds=run.clock.elapsed,
        command=run.command,
    ).stamped(tools, speedup, run.environment)
    said = {
        "problem": subject.name,
        "target": run.target.name,
        "machine": machine_of(run.environment),
        "verdict": f"{judgement.verdict}, {speedup}, 95 % confidence" if speedup else judgement.verdict,
        "date": today(),
        "made by": run.command,
        "use": use_line(files.flagfile, program=subject.source if isinstance(subject.source, Path) else None),
    }
    job = side.recipe.job(subject.source, timeout=compile_timeout(run.options, run.clock))
    shipped = ship_parts(
        files,
        kernel.parts(FileHeader(heading(kernel.title, tools, said), provenance)),
        side.recipe.flags,
        check=lambda path: compile_shipped(job, path, run.session.builder),
        binary=side.once.binary,
    )
    return files.spec, shipped.flagfile
