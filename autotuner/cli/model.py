"""`autotune model`: make a whole model faster, and give the file."""

from __future__ import annotations

from dataclasses import replace

from autotuner.cli.microkernels import say_whose_code
from autotuner.cli.request import Request
from autotuner.cli.tuning import conclude, print_rehearsal, watched
from autotuner.errors import UsageError
from autotuner.jobs.model.context import Model
from autotuner.jobs.model.program import refuse_no_model
from autotuner.jobs.model.rehearse import rehearse_model
from autotuner.jobs.model.tuner import tune_model
from autotuner.problems.accuracy import known_precision


def run_model(wanted: Model, request: Request) -> None:
    """Tunes a model and ends the process with the contract's exit code."""
    refuse_no_model(wanted.path)  # before the device is waited for
    wanted = replace(wanted, allow=known_precision(request.allow_precision))
    target = request.built_for()
    options = request.options()
    request.refuse_untimed("tolerance", "expected", "parameters")
    if not request.timed and len(wanted.routes) > 1:
        raise UsageError("without a device no route is faster than another.", remedy="Give --route once.")
    if "top" in request.given:
        request.given.refuse(["min_share"], "is for a model without --top", remedy="Give one of them.")
    say_whose_code(options.microkernels, options.workspace, no_color=request.no_color)
    if request.dry_run:
        print_rehearsal(rehearse_model(wanted, target, options=options), request)
        return
    with watched(request) as watch:
        result = tune_model(wanted, target, options=options, **watch)
    conclude(result, request)
