"""The command that makes a spec again, for its header."""

from __future__ import annotations

from autotuner.problems import Problem
from autotuner.targets import NO_DEVICE
from autotuner.tuning.options import Task
from autotuner.tuning.run import Run


def command(problem: Problem, run: Run, *, task: Task, trials: int) -> list[str]:
    """In words that a shell can be given; what the options left open is spelt out."""
    target, options, device = run.target, run.options, run.session.named
    words = [*problem.arguments(), *target.words, "--device", device]
    kernels = options.microkernels
    if task.microkernels_alone:
        own = [word for path in kernels[0].objects for word in ("--object", str(path))]
        own += ["--symbol", kernels[0].symbol] if kernels[0].symbol else []
        words = ["ab", kernels[0].name, *words[1:], *own]
    elif kernels:
        words += ["--microkernels", ",".join(kernel.name for kernel in kernels)]
    words += ["--isolate"] if options.isolate else []
    words += ["--cache", options.cache] if options.cache != "both" else []
    words += ["--state", options.state] if options.state != "sustained" else []
    words += [f"--flag={flag}" for flag in target.user_flags]
    words += run.session.tools.arguments()
    if device == NO_DEVICE and options.output is not None:  # without it nothing is written
        words += ["-o", str(options.output)]
    budget = f"{run.clock.budget:g}s"
    return ["autotune", *words, "--budget", budget, "--trials", str(trials), "--seed", str(options.seed)]
