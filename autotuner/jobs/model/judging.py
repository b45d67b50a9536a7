"""Who decides what is right in a run: with the user's outputs, or with the host's processor to ask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autotuner.iree.run import Invocation
from autotuner.jobs.model.arbiter import WORDS, Arbiter, HostAnswer
from autotuner.jobs.model.context import Model, ModelStructure, compile_timeout
from autotuner.jobs.model.expected import load_expected, wider
from autotuner.jobs.model.host import compute_on_host
from autotuner.jobs.model.program import ProgramBuilder
from autotuner.jobs.model.rounding import expected_error
from autotuner.jobs.model.stages import HOST_SHARE
from autotuner.problems.accuracy import Precision
from autotuner.tuning.run import Run

_COARSEST: Precision = "f16"


def arbiter_of(
    model: Model,
    structure: ModelStructure,
    builder: ProgramBuilder,
    call: Invocation,
    run: Run,
    *,
    name: str = WORDS["default"],
) -> Arbiter:
    """For outputs of this call; files that do not fit are refused. `name` is what all is compared with at first."""
    expected = load_expected(model.expected, structure.flow.signature)
    rounded = wider(expected, structure.flow.signature)
    rounding, coarse = (
        expected_error(structure.groups, structure.others, allow=allow, rounded_weights=rounded)
        for allow in (model.allow, _COARSEST)
    )
    return Arbiter(
        rounding,
        model.tolerance,
        ask=_asking(builder, call, run, run.folder / "reference"),
        note=run.account.note,
        name=name,
        given=expected,
        coarse=coarse if any(group.root.element_types[0] == _COARSEST for group in structure.groups) else 0.0,
    )


def _asking(builder: ProgramBuilder, call: Invocation, run: Run, folder: Path) -> Callable[[], HostAnswer]:
    def ask() -> HostAnswer:
        clock = run.clock
        run.account.stage("two builds disagree: computing the model on llvm-cpu")
        with run.account.clocked("build"):
            return compute_on_host(
                builder,
                run.target,
                call,
                folder,
                until=clock.at(min(clock.elapsed + HOST_SHARE * clock.budget, clock.budget)),
                timeout=compile_timeout(run.options, clock),
            )

    return ask
