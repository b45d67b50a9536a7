"""`autotune gemm`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.tuning import Request, run_tuning
from autotuner.problems import Gemm


def gemm(
    shape: Annotated[str, typer.Option("--shape", help="MxNxK, such as 4096x4096x4096.")],
    batch: Annotated[int, typer.Option("--batch", help="How many products at once.")] = 1,
    dtype: Annotated[str, typer.Option("--dtype", help="f32, f16, bf16, i8 or f8.")] = "f16",
    acc: Annotated[str | None, typer.Option("--acc", help="Accumulator: f32, i32 or f16. [default: by dtype]")] = None,
    layout: Annotated[str, typer.Option("--layout", help="nn, nt, tn or tt: is A, is B transposed?")] = "nn",
    target: o.TargetOption = "cpu",
    device: o.DeviceOption = None,
    effort: o.EffortOption = "normal",
    trials: o.TrialsOption = None,
    budget: o.BudgetOption = None,
    jobs: o.JobsOption = None,
    seed: o.SeedOption = 0,
    workspace: o.WorkspaceOption = Path(),
    output: o.OutputOption = None,
    storage: o.StorageOption = None,
    flag: o.FlagOption = None,
    resume: o.ResumeOption = False,
    keep: o.KeepOption = "best,failed",
    dry_run: o.DryRunOption = False,
    as_json: o.JsonOption = False,
    quiet: o.QuietOption = False,
    no_color: o.NoColorOption = False,
    fail_if_no_winner: o.FailOption = False,
) -> None:
    """Tune a matrix multiplication: from a shape to a proven spec file."""
    problem = Gemm.parse(shape=shape, dtype=dtype, batch=batch, acc=acc, layout=layout)
    request = Request(
        target=target,
        device=device,
        effort=effort,
        trials=trials,
        budget=budget,
        jobs=jobs,
        seed=seed,
        workspace=workspace,
        output=output,
        storage=storage,
        flags=flag or (),
        resume=resume,
        keep=keep,
        dry_run=dry_run,
        as_json=as_json,
        quiet=quiet,
        no_color=no_color,
        fail_if_no_winner=fail_if_no_winner,
    )
    run_tuning(problem, request)
