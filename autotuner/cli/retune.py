"""`autotune retune`: do specs still apply and win with a new IREE?"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer

from autotuner.cli.options import option
from autotuner.cli.request import CLUSTER, OF_A_CALL, OF_A_MODEL, ModelWords, Request, tuning_command


@dataclass(frozen=True)
class RetuneWords:
    """Prove and race a spec's entries again, after a new IREE. Each is kept, replaced or dropped."""

    path: Annotated[Path, typer.Argument(metavar="SPEC|WORKSPACE", help="A spec (.mlir), or all of a folder.")]
    model: Annotated[Path | None, option("--model", "The model that the spec is for.")] = None
    said: ModelWords = field(default_factory=ModelWords)


def run_retune(words: RetuneWords, request: Request) -> None:
    """Retunes specs and ends the process with the contract's exit code."""
    from autotuner.cli.tuning import carry_out
    from autotuner.jobs.retune.plan import Wanted, read_plan
    from autotuner.jobs.retune.run import retune

    given = request.given
    if "target" not in given:
        given.refuse(["flags", "chip"], "is for one target", remedy="Give --target too.")
    if words.model is None:
        given.refuse(OF_A_MODEL, "is for a model", remedy="Give --model too.")
    request.refuse_untimed(*OF_A_CALL)
    options = request.options()
    if "workspace" not in given and words.path.is_dir():
        options = replace(options, workspace=words.path)
    wanted = Wanted(
        words.path,
        target=request.built_for() if "target" in given else None,
        model=words.said.there(words.model, request) if words.model is not None else None,
        trust=words.said.trust,
        allow=request.allow_precision,
    )
    carry_out(
        replace(request, workspace=options.workspace),
        lambda watch: retune(wanted, options=options, **watch),
        rehearse=lambda: read_plan(wanted, options).rehearsal(options),
        kernels=options.microkernels,
        exit_code=lambda result: result.details.exit_code,
    )


TUNING = tuning_command(
    RetuneWords,
    run_retune,
    without=CLUSTER,
)
