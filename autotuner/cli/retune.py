"""`autotune retune`: what became of specs after a new IREE."""

from __future__ import annotations

from dataclasses import replace

from autotuner.cli.commands.retune import RetuneWords
from autotuner.cli.microkernels import say_whose_code
from autotuner.cli.problem import named_model
from autotuner.cli.request import Request
from autotuner.cli.tuning import conclude, print_rehearsal, watched
from autotuner.errors import UsageError
from autotuner.jobs.model.context import Model
from autotuner.jobs.retune.plan import Wanted
from autotuner.jobs.retune.rehearsal import rehearse_retune
from autotuner.jobs.retune.run import retune


def run_retune(words: RetuneWords, request: Request) -> None:
    """Retunes specs and ends the process with the contract's exit code."""
    given = request.given
    if "target" not in given:
        given.refuse(["flags", "chip"], "is for one target", remedy="Give --target too.")
    if words.model is None:
        words_of_model = ("function", "inputs", "parameters", "tolerance", "expected")
        given.refuse(words_of_model, "is for a model", remedy="Give --model too.")
    if words.in_place and request.output is not None:
        raise UsageError("--in-place and -o name two places.", remedy="Give one of them.")
    request.refuse_untimed("tolerance", "expected", "parameters")
    options = request.options()
    if "workspace" not in given and words.path.is_dir():
        options = replace(options, workspace=words.path)
    say_whose_code(options.microkernels, options.workspace, no_color=request.no_color)
    wanted = Wanted(
        words.path,
        target=request.built_for() if "target" in given else None,
        model=_model(words, request),
        in_place=words.in_place,
        trust=words.trust,
        allow=request.allow_precision,
    )
    if request.dry_run:
        print_rehearsal(rehearse_retune(wanted, options=options), request)
        return
    with watched(request) as watch:
        result = retune(wanted, options=options, **watch)
    conclude(result, request, exit_code=result.details.exit_code)


def _model(words: RetuneWords, request: Request) -> Model | None:
    if words.model is None:
        return None
    return named_model(words.model, words, request)
