"""A model with what the registry knows of it: flags, microkernels, entries of specs. Nothing is searched."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Unpack

from autotuner.build import Compiled
from autotuner.carriers.outputs import MODEL
from autotuner.carriers.render import spec_mlir
from autotuner.errors import NoCandidateError, WrongResultError
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.entries import Entry, KernelEntry, Library
from autotuner.jobs.model.parts import PartSearch
from autotuner.jobs.model.result import ModelResult
from autotuner.jobs.model.routes import RouteRace
from autotuner.jobs.model.summary import Summary
from autotuner.jobs.model.whole import WholeModel
from autotuner.jobs.opening import model_program, read_model
from autotuner.programs.model import Model
from autotuner.programs.structure import ModelStructure, by_work
from autotuner.registry.folder import Known
from autotuner.specfiles.entries import read_spec
from autotuner.system import process
from autotuner.system.text import count
from autotuner.targets import PLAIN, Route, Target
from autotuner.tuning.options import Options
from autotuner.tuning.plan import Candidate
from autotuner.tuning.run import Job, Question
from autotuner.tuning.session import Watched


def known_route(context: Context) -> Route | None:
    """The flags to begin with; None where the registry has nothing for this chip."""
    if (found := context.known_route) is not None:
        return found.entry.own_route
    return PLAIN if any(one.kernel or one.spec for one in context.registry.entries) else None


def known_model(
    context: Context, plain: ModelStructure, route: Route, race: RouteRace | None, *, ends: float
) -> tuple[WholeModel, Contestant | None] | None:
    """The model with all that is known in it, proven and timed where there is a race; None where there is nothing
    beside flags."""
    structure = plain if route == PLAIN else context.configured(route)
    parts = PartSearch(context, route, structure, by_work(structure.groups))
    whole = WholeModel(parts, Contestant.of(route, 0), race, ends)
    kernels, entries = _kernels(parts), [*_entries(parts)]
    if not kernels and not entries:
        return None
    make = whole.unbuilt if race is None else whole.make
    return whole, make(f"known-{route.name}", entries, kernels)


def _kernels(parts: PartSearch) -> list[KernelEntry]:
    """The places that the registry has a kernel for."""
    context = parts.context
    if not context.options.microkernels or not any(one.kernel for one in context.registry.entries):
        return []
    found = parts.find_kernels(Library.open(context, parts.executable_target))
    for one in found:
        known = f"by the registry ({one.known.words})" if one.known else "the registry has no kernel for it"
        parts.set_row(one.label, state="taken" if one.known else "left-out", reason=known)
    return [one for one in found if one.known is not None]


def _entries(parts: PartSearch) -> Iterator[Entry]:
    """The dispatches that a spec of the registry matches exactly."""
    context = parts.context
    for row in parts.dispatches if context.registry.specs else ():
        matcher = read_spec(spec_mlir(name="known", dispatch=row.group.root, info=None), trust=True).entries[0]
        known = context.registry.spec(matcher.key, parts.route.flags)
        if known is None:
            continue
        carrier = known.carrier_of_spec(context.target.spec_flag)
        candidate = Candidate("known", "codegen", parts.route, 0, dispatch=row.group.root, carrier=carrier)
        parts.set_row(row.label, state="ahead", reason=f"by the registry ({Known(known, exact=True).words})")
        yield Entry(row.label, row.group, None, candidate)


# --- applied, and nothing timed ---------------------------------------------------------------------------------------


def apply_model(
    model: Model, target: Target, *, options: Options | None = None, **watched: Unpack[Watched]
) -> ModelResult:
    """Writes the files of what the registry knows, each entry proven in the model; on a device its outputs are
    compared with those of IREE's default. Nothing is timed."""
    with (
        Job.open(target, options, watched) as job,
        process.until(job.account.clock.latest),
        process.ended_by_an_error(),
    ):
        files = job.outputs(model.name, MODEL)
        files.claim(model.files(target))
        builder, plain = read_model(model, job, whole=job.session.timed)
        asks = {**builder.program.describe(flops=plain.flops), "apply": True}
        problem = {**asks, "ops": sorted(plain.ops)}
        reads = (*job.session.tools.programs, *builder.program.reads())
        with job.begin(Question("model", problem, target, asks=asks, reads=reads)) as run:
            context = Context(model, builder, run, files)
            found = Summary(context)
            made = _made(context, plain, found)
            right = partial(_require_right, context, plain) if run.timed else None
            result = found.shipped(made, "compile-only", _said(context, made), right=right)
            run.finish(result)
            return result


def _made(context: Context, plain: ModelStructure, found: Summary) -> Contestant:
    """The model with what is known, or with the known flags alone."""
    route = known_route(context)
    known = known_model(context, plain, route, None, ends=context.clock.end) if route is not None else None
    if known is not None:
        found.parts.append(known[0].parts)
        if known[1] is not None:
            found.tuned = [known[1]]
            return known[1]
    if route is None or route == PLAIN:
        name, target = context.model.name, context.target.name
        what = f"the registry has nothing for {name} on {target} ({count(len(context.registry.entries), 'entry')})"
        raise NoCandidateError(f"{what}.", remedy="Tune it: `autotune model`.")
    made = Contestant.of(route, context.row("stock", route))
    found.tried = [made]
    return made


def _require_right(context: Context, plain: ModelStructure, build: Compiled) -> None:
    """Raises unless the outputs are those of IREE's default, or those that are expected."""
    context.stage("comparing the outputs with those of IREE's default")
    program = model_program(context.model, plain, context.builder, context.run)
    context.called = program
    job = context.builder.job(context.flags(PLAIN), timeout=context.compile_timeout)
    program.arbiter.begin(program.outputs(context.builder.build(job).checked().vmfb))
    check = program.arbiter.check(program.outputs(build.vmfb))
    if not check.ok:
        why = f"{context.model.name} computes something else with what the registry knows: {check.detail}"
        raise WrongResultError(f"{why}.", remedy="Nothing is written. Tune it, or give --expected.")


def _said(context: Context, made: Contestant) -> str:
    """What was taken from where."""
    known = context.known_route
    exact = sum(one.known is not None and one.known.exact for one in made.kernels) + len(made.entries)
    near = len(made.kernels) + len(made.entries) - exact
    what = [f"route {made.route.name} {'exact' if known and known.exact else 'of a model alike'}"] if known else []
    what += [f"{exact} exact"] if exact else []
    what += [f"{near} of the nearest shape"] if near else []
    right = "outputs right, " if context.run.timed else ""
    return f"from the registry: {', '.join(what)}; each proven in the model, {right}nothing timed"
