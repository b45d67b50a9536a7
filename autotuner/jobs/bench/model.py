"""A whole model on IREE and on other libraries, side by side: those that take ONNX."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

from autotuner.devices.sampling import open_throttle
from autotuner.errors import Bug, OutOfTimeError
from autotuner.jobs.ab.arms import DEFAULT, Arm
from autotuner.jobs.ab.opening import Experiment, open_model
from autotuner.jobs.bench.budget import short_of, unreached
from autotuner.jobs.bench.building import ModelGiven, Site
from autotuner.jobs.bench.opening import Libraries, Terms
from autotuner.jobs.bench.problem import ProblemBench
from autotuner.jobs.bench.result import BenchResult, ProblemRows
from autotuner.jobs.bench.run import (
    at_once,
    concluded,
    known_rows,
    last_tuned,
    question,
    read_of,
    say_again,
    start_builds,
)
from autotuner.jobs.bench.sides import FLIGHT
from autotuner.jobs.opening import MIN_TIME, compile_timeout, model_clock, run_timeout
from autotuner.programs.model import Model
from autotuner.programs.program import ModelProgram
from autotuner.system import process
from autotuner.system.digests import path_digest
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Run
from autotuner.tuning.session import Session, Watched


def bench_model(
    model: Model, terms: Terms, target: Target, *, options: Options | None = None, **watched: Unpack[Watched]
) -> BenchResult:
    """Times a model on the backends that a user wants."""
    options = options or Options()
    with (
        Session.open(target, options, **watched) as session,
        Libraries.open(terms.chosen, target, options, session) as libraries,
    ):
        account = Account(session.reporter, model_clock(options, session))
        for one in libraries.left_out:
            account.note(str(one))
        with process.until(account.clock.latest):
            experiment = Experiment(DEFAULT, DEFAULT, model=model)
            opened = open_model(experiment, model, target, options, session, account)
            problem = opened.question.problem
            tuned = last_tuned(str(problem["name"]), terms, target, session, kinds=("model", "ab"))
            onnx = [path_digest(terms.onnx)] if terms.onnx is not None else []
            reads = (*opened.question.reads, *onnx, *read_of(libraries, tuned))
            flight = _flight(target)
            asks = {**opened.question.asks, **({"flight": flight} if flight > 1 else {})}
            asked = question(asks, terms, target, options, session, reads=reads)
            asked = replace(asked, problem=problem, recalls=True)
            with Run.begin(asked, session=session, options=options, account=account) as run:
                if (known := known_rows(run.known, session)) is not None:
                    say_again(known, account)
                    return _concluded(known, terms, run, libraries)
                if short := short_of(account.clock, 1, libraries.timed_of(terms.chosen), lasting=MIN_TIME):
                    account.note(short)
                inside = opened.subject(run)
                if not isinstance(inside, ModelProgram):
                    raise Bug(f"{model.path} is no model.")
                try:
                    rows = _timed(model, terms, run, inside, libraries, tuned)
                except OutOfTimeError:
                    rows = None
                    account.note(unreached(account.clock, 0, 1))
                return _concluded(rows, terms, run, libraries)


def _concluded(rows: ProblemRows | None, terms: Terms, run: Run, libraries: Libraries) -> BenchResult:
    found, missing = ((rows,), ()) if rows is not None else ((), (str(run.problem["name"]),))
    result = BenchResult(run.facts(), found, libraries.left_out, terms.blocks, terms.csv, not_reached=missing)
    return concluded(run, result)


def _timed(
    model: Model, terms: Terms, run: Run, inside: ModelProgram, libraries: Libraries, tuned: Arm | str
) -> ProblemRows | None:
    session, options, target = run.session, run.options, run.target
    site = Site(
        name=inside.name,
        program=inside.source,
        flags=(),
        target=target,
        session=session,
        timeout=compile_timeout(options, run.clock),
        folder=run.folder,
    )
    run.account.stage("compiling")
    builds = start_builds(site, terms, tuned)
    described = {**run.problem, "arguments": str(model.path)}
    return ProblemBench(
        run=run,
        calls=1,
        libraries=libraries.there,
        hipblaslt=libraries.hipblaslt,
        site=site,
        builds=builds,
        given=at_once(lambda: ModelGiven.make(inside, described, terms.onnx or model.path, run.folder / "inputs")),
        blocks=terms.blocks,
        cold=False,
        throttle=open_throttle(session.device),
        checks=None,
        seconds=MIN_TIME,
        timeout=run_timeout(options),
        flight=_flight(target),
        ends=run.clock.budget,
    ).go()


def _flight(target: Target) -> int:
    """On a processor a call has all cores: none idles until the next."""
    return 1 if target.backend.on_host else FLIGHT
