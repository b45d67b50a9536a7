"""The result of a model's run, made of what its routes and tuned models came to, the files of what wins, and what is
said where nothing is left to race."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from autotuner.build.ship import Shipped
from autotuner.build.ship import ship as ship_parts
from autotuner.carriers.calls import kernel_calls, prove
from autotuner.carriers.flagfile import use_line
from autotuner.carriers.outputs import Outputs
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import PREPROCESSED, Compiled
from autotuner.jobs.model.contestant import Contestant, Lineup
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.dispatches import Dispatches
from autotuner.jobs.model.entries import applied
from autotuner.jobs.model.result import ModelDetails, ModelResult, Row, report_text
from autotuner.jobs.model.where import time_table
from autotuner.measure.blocks import ALPHA, Verdict
from autotuner.measure.caches import Caches
from autotuner.measure.judgement import Cause, Judgement
from autotuner.measure.schedule import longer
from autotuner.programs.arbiter import Arbiter
from autotuner.programs.model import ModelBuilder
from autotuner.system import process
from autotuner.system.text import count, printable
from autotuner.targets import PLAIN
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.result import Best, Counts, Files, FinalVerdict, Measured, Result

COMPILED_AGAIN = 1.2
"""Of a compile as it took before: what ships is compiled once more, and read."""
NO_ROOT = "no dispatch has a product, a convolution or an attention"
OBSTACLES = ("skipped", "no-knobs")
"""States of dispatches that no time would help."""


@dataclass
class Summary:
    """What a run has found so far; its steps add to it."""

    context: Context
    tried: list[Contestant] = field(default_factory=list)
    tuned: list[Contestant] = field(default_factory=list)
    parts: list[Dispatches] = field(default_factory=list)
    caches: Caches | None = None

    @property
    def lineup(self) -> Lineup:
        return Lineup.of(self.tried, self.tuned)

    @property
    def arbiter(self) -> Arbiter | None:
        """Whose outputs are right; None without a device."""
        return self.context.called.arbiter if self.context.called is not None else None

    def judged(self, judgement: Judgement) -> ModelResult:
        """What is shipped and told of a verdict."""
        reason = self.lineup.explained(judgement, self.arbiter.words) if self.arbiter else judgement.reason
        if judgement.verdict != "win" or judgement.winner is None:
            return self.result(judgement.verdict, reason, judgement)
        return self.shipped(self.lineup.outcomes[judgement.winner], "win", reason, judgement)

    def shipped(
        self, made: Contestant, verdict: FinalVerdict, reason: str, judgement: Judgement | None = None
    ) -> ModelResult:
        """With the files of a model, which is compiled once more with these."""
        context, files = self.context, self.context.files
        try:
            shipped = self._proven(made, files, claimed(verdict, reason, judgement))
        except OutOfTimeError:
            return self.result("inconclusive", context.run.unproven, judgement)
        result = self.result(verdict, reason, judgement, made)
        result = replace(
            result,
            files=Files(shipped.spec, shipped.flagfile, shipped.carrier),
            details=replace(
                result.details,
                executables=shipped.executables,
                applied=len(made.entries),
                kernel_spec=shipped.kernels or (shipped.spec if made.kernels else None),
                objects=shipped.objects,
            ),
        )
        return _with_report(result, files, files.report)

    def _proven(self, made: Contestant, files: Outputs, verdict: str) -> Shipped:
        """The files of a model, proven by a fresh compile."""
        context = self.context
        context.stage("shipping, and compiling the model once more with what is shipped")
        with process.however_late(latest=context.run.proof_ends(made.module.took)):
            return ship(
                files,
                made,
                context.flags(made.route),
                builder=context.builder,
                folder=context.folder / "shipped",
                timeout=context.compile_timeout,
                verdict=verdict,
            )

    def reported(self, result: ModelResult) -> ModelResult:
        """With a report, where what is shipped has none: beside the specs there may be those of an earlier run, with
        their own."""
        context = self.context
        if result.details.report is not None:
            return result
        own = context.session.workspace.results / f"{context.builder.program.name}-{context.run.id}.md"
        return _with_report(result, context.files, own)

    def result(
        self,
        verdict: FinalVerdict,
        reason: str,
        judgement: Judgement | None = None,
        made: Contestant | None = None,
    ) -> ModelResult:
        """`made` is the model that is shipped."""
        context, lineup = self.context, self.lineup
        us = dict(judgement.us) if judgement else {}
        stock, base = lineup.stock, lineup.base
        for one in self.tuned:
            if one.id in us:
                context.session.store.set_us(one.row, us[one.id])
        # The times that are told are of what the speedup is of.
        compared = judgement.confirmed_name if judgement else None
        shown = made or (lineup.outcomes[compared] if compared else self.tuned[0] if self.tuned else None)
        # Where a route wins that was not tuned itself, the ranking is of the one that was.
        first = self.parts[0] if self.parts else None
        part = next((p for p in self.parts if shown is not None and p.route == shown.route), first)
        best = None
        if shown is not None:
            best_us = us.get(shown.id, shown.us if shown.by_flags else None)
            measured = Measured(best_us, tuple(shown.route.flags), shown.route.name)
            best = Best(measured, {}, "microkernel" if shown.kernels else "codegen")
        default = lineup.default
        return Result(
            **context.facts(),
            verdict=verdict,
            reason=reason,
            baseline=base.measured(us.get(base.id)) if base is not None else Measured(),
            stock=stock.measured(us.get(stock.id)) if stock is not None else Measured(),
            best=best,
            speedup=judgement.speedup if judgement else None,
            speedup_over_stock=judgement.over_stock if judgement else None,
            confidence=1 - ALPHA,
            counts=Counts.total(result.counts for p in self.parts for result in p.results),
            files=Files(carrier=made.parts.carrier if made else None),
            caches=self.caches,
            cause=judgement.cause if judgement else None,
            reference=self.arbiter.found(default.us if default else None) if self.arbiter else None,
            details=ModelDetails(
                routes=tuple(t for t in self.tried if t.row),
                rows=tuple(part.rows.values()) if part else (),
                others=part.others if part else 0.0,
                ranked_by=part.shares.how if part else "",
                ranked_route=part.route.name if part else "",
                untunable=part.untunable if part else (),
                time=time_table(context, us, base=base, best=shown or stock, ranked=part),
                entries=made.entries if made else (),
                kernels=tuple(row for p in self.parts for row in p.kernels.rows.values()),
                shipped_kernels=made.kernels if made else (),
                error=made.error if made else None,
                arbiter=self.arbiter,
                program=context.builder.program.path,
                commands=("autotune", *context.options.command[1:]),
            ),
        )


def _with_report(result: ModelResult, files: Outputs, path: Path) -> ModelResult:
    """With a report at `path`."""
    result = replace(result, details=replace(result.details, report=path))
    files.write(path, report_text(result))
    return result


def claimed(verdict: FinalVerdict, reason: str, judgement: Judgement | None) -> str:
    """For the head of a spec."""
    gain = judgement.speedup if judgement else None
    if gain is None:
        return f"{verdict}, {reason}"
    return f"{verdict}, {gain.median:.3f}x, 95 % interval {gain.bounds}"


def ship(
    files: Outputs,
    made: Contestant,
    flags: Sequence[str],
    *,
    builder: ModelBuilder,
    folder: Path,
    timeout: float,
    verdict: str,
) -> Shipped:
    """Writes the files and compiles the model with them, as a user would: every entry must apply."""
    program = builder.program.path
    header = [
        f"model:      {program}",
        f"verdict:    {verdict}",
        f"use:        {use_line(files.flagfile, program=program)}",
    ]
    spec, kernels = (_headed(text, header) for text in (made.parts.spec, made.parts.kernels))

    def check(flagfile: Path) -> Compiled:
        build = builder.build_shipped(flagfile, folder=folder, timeout=timeout)
        missing = [f"{entry.label} ({why})" for entry in made.entries for n, why in [applied(build, entry)] if not n]
        if made.kernels and build.ok:
            calls = kernel_calls([entry.call() for entry in made.kernels])
            reason = prove(build.dumped[PREPROCESSED][0], calls).reason(calls)
            missing += [reason] if reason else []
        return replace(build, failure="not-applied", stderr="; ".join(missing)) if build.ok and missing else build

    parts = replace(made.parts, spec=spec, kernels=kernels)
    return ship_parts(files, parts, flags, check=check, binary=made.module.binary)


def _headed(text: str | None, lines: Sequence[str]) -> str | None:
    """A spec with more lines behind the first of its leading comment."""
    if text is None:
        return None
    first, _, rest = text.partition("\n")
    return "\n".join([first, *(f"// {printable(line)}" for line in lines), rest])


class Said(NamedTuple):
    """How a run without a device ends."""

    verdict: FinalVerdict
    reason: str
    cause: Cause | None = None


@dataclass(frozen=True)
class Tried:
    """What was timed beside the default of a model, and what was not."""

    routes: int
    configurations: int
    """Of dispatches."""
    untold: int = 0
    """Dispatches of which it cannot be told whether they gain."""
    left_out: int = 0
    """Dispatches that there was no time for."""
    ahead: int = 0
    """Dispatches that are ahead alone, where no model was made with them."""
    obstacles: tuple[str, ...] = ()
    """Why other dispatches cannot be tuned."""
    knobless: bool = False
    """No dispatch has anything to choose."""
    more_routes: bool = False
    """Routes that there was no time for."""

    @classmethod
    def of(
        cls,
        routes: Sequence[Contestant],
        rows: Sequence[Row],
        results: Sequence[Result],
        *,
        more_routes: bool = False,
    ) -> Tried:
        return cls(
            routes=sum(one.contends and one.route != PLAIN for one in routes),
            configurations=sum(result.counts.rivals for result in results),
            untold=sum(result.verdict == "inconclusive" for result in results),
            left_out=sum(row.out_of_time for row in rows),
            ahead=sum(row.state == "ahead" for row in rows),
            obstacles=tuple(row.reason for row in rows if row.state in OBSTACLES),
            knobless=bool(rows) and all(row.state == "no-knobs" for row in rows),
            more_routes=more_routes,
        )

    def words(self) -> str:
        routes = [count(self.routes, "route")] if self.routes else []
        searched = [f"{count(self.configurations, 'configuration')} of dispatches"] if self.configurations else []
        return " and ".join([*routes, *searched])

    def judged(self, *, wanted: float) -> Judgement:
        """The verdict where nothing is left to race against the default, and what it rests on; `wanted` are the seconds
        that would have done."""
        open_ones, tried = self.untold + self.left_out, self.words()
        if self.knobless and not tried:
            return _judged("no-winner", f"no knobs here, IREE's default is kept: {self.obstacles[0]}", "no-knobs")
        if not tried and not open_ones and not self.obstacles:
            if self.more_routes:
                return _judged("inconclusive", f"{NO_ROOT}, and the time was up for routes: {longer(wanted)}")
            return _judged("no-winner", f"nothing to tune here, IREE's default is kept: {NO_ROOT}", "no-operations")
        if not tried and not open_ones:
            return _judged("inconclusive", f"nothing was tried: {self.why()}, and no route was timed", "obstacles")
        if not tried:
            return _judged("inconclusive", f"nothing was tried, the time was up: {longer(wanted)}")
        if self.ahead:
            found = f"{count(self.ahead, 'dispatch')} {'is' if self.ahead == 1 else 'are'} ahead of the default alone"
            reason = f"{tried} timed: {found}, with no time to tell of the model"
            return _judged("inconclusive", f"{reason}: {longer(wanted)}")
        if open_ones:
            reason = f"{tried} timed, none ahead of the default, and no time to tell of {count(open_ones, 'dispatch')}"
            return _judged("inconclusive", f"{reason}: {longer(wanted)}")
        others = f"; {count(len(self.obstacles), 'dispatch')} cannot be tuned" if self.obstacles else ""
        return _judged("no-winner", f"{tried} timed, none is faster than the default{others}")

    def why(self) -> str:
        why, often = Counter(self.obstacles).most_common(1)[0]
        more = len(self.obstacles) - often
        return f"no dispatch can be tuned ({why}{f', and {more} more' if more else ''})"


def _judged(verdict: Verdict, reason: str, cause: Cause | None = None) -> Judgement:
    return Judgement(verdict, reason, BASELINE, cause=cause)


def without_device(tuned: Sequence[Contestant], rows: Sequence[Row]) -> Said:
    """The verdict of a model that was only compiled, and its reason."""
    if tuned:
        return Said(
            "compile-only", f"no device: {_proven(len(tuned[-1].entries), len(tuned[-1].kernels))}, never timed"
        )
    tried = Tried.of((), rows, ())
    if tried.knobless or not rows:
        judgement = tried.judged(wanted=0.0)
        return Said(judgement.verdict, judgement.reason, judgement.cause)
    if len(tried.obstacles) == len(rows):
        return Said("inconclusive", f"nothing was tried: {tried.why()}", "obstacles")
    if all(row.out_of_time or (row.result is not None and row.result.verdict == "inconclusive") for row in rows):
        return Said("inconclusive", f"nothing was tried: {rows[0].reason}")
    told = [row.reason for row in rows if row.result is not None and row.state not in OBSTACLES]
    if len(told) == 1:
        return Said("compile-only", told[0])
    return Said("compile-only", "no device: no candidate of any dispatch promises more than IREE's default")


def _proven(entries: int, kernels: int) -> str:
    """What is proven in a model without a device."""
    verb = "is" if entries + kernels == 1 else "are"
    if not kernels:
        return f"{count(entries, 'entry')} {verb} proven in the model, chosen by an estimate"
    chosen = f" and {count(entries, 'entry')}, chosen by an estimate," if entries else ""
    return f"{count(kernels, 'microkernel')}{chosen} {verb} proven in the model"
