"""The result of a model's run, made of the results of its routes and tuned models, the files of what wins, and what is
said where nothing is left to race."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from autotuner.build.ship import Shipped, ship
from autotuner.carriers.calls import kernel_calls, prove
from autotuner.carriers.flagfile import use_line
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import PREPROCESSED, Compiled
from autotuner.jobs.model.contestant import Contestant, Lineup
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.entries import applied
from autotuner.jobs.model.parts import COMPUTED, PartSearch
from autotuner.jobs.model.result import ModelDetails, ModelResult
from autotuner.jobs.model.rows import DispatchRow, Row
from autotuner.measure.blocks import ALPHA, Verdict
from autotuner.measure.judgement import Cause, Judgement
from autotuner.programs.arbiter import Arbiter
from autotuner.programs.breakdown import Breakdown, TimeTable
from autotuner.system import process
from autotuner.system.text import count, printable
from autotuner.targets import PLAIN
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.result import Best, Counts, Files, FinalVerdict, Measured, Result

R = TypeVar("R", bound=Row)
NO_ROOT = "no dispatch has a product, a convolution or an attention"
OBSTACLES = ("skipped", "no-knobs")
"""States of dispatches that no time would help."""


@dataclass
class Summary:
    """The state of a run; its steps add to it."""

    context: Context
    tried: list[Contestant] = field(default_factory=list)
    tuned: list[Contestant] = field(default_factory=list)
    parts: list[PartSearch] = field(default_factory=list)

    @property
    def lineup(self) -> Lineup:
        return Lineup.of(self.tried, self.tuned)

    @property
    def dispatches(self) -> list[DispatchRow]:
        """All that were ranked, on whichever route."""
        return [row for parts in self.parts for row in parts.dispatches]

    @property
    def arbiter(self) -> Arbiter | None:
        """Whose outputs are right; None without a device."""
        return self.context.called.arbiter if self.context.called is not None else None

    def judged(self, judgement: Judgement) -> ModelResult:
        """The result of a verdict, with the files that ship."""
        lineup, wrong = self.lineup, self.arbiter.words if self.arbiter else ""
        reason = lineup.reason_of(judgement, wrong)
        if judgement.verdict == "win" and judgement.winner is not None:
            return self.shipped(lineup.outcomes[judgement.winner], "win", reason, judgement)
        if (made := lineup.instead) is not None:
            reason = lineup.works_instead(made, wrong, judgement)
            return self.shipped(made, "win", reason, judgement.without_speedup())
        return self.result(judgement.verdict, reason, judgement)

    def shipped(
        self,
        made: Contestant,
        verdict: FinalVerdict,
        reason: str,
        judgement: Judgement | None = None,
        *,
        right: Callable[[Compiled], None] | None = None,
    ) -> ModelResult:
        """With the files of a model, which is compiled once more with these; `right` raises where it computes something
        else."""
        context = self.context
        context.stage("shipping, and compiling the model once more with what is shipped")
        try:
            with process.however_late(latest=context.run.proof_ends):
                shipped = self._ship(made, claimed(verdict, reason, judgement), right)
        except OutOfTimeError:
            return self.result("inconclusive", context.run.unproven, judgement)
        result = self.result(verdict, reason, judgement, made)
        return replace(
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

    def _ship(self, made: Contestant, verdict: str, right: Callable[[Compiled], None] | None) -> Shipped:
        """Writes the files and compiles the model with them, as a user would: every entry must apply."""
        context, files, program = self.context, self.context.files, self.context.builder.program.source
        header = [
            f"model:      {program}",
            f"verdict:    {verdict}",
            f"use:        {use_line(files.flagfile, program=program)}",
        ]
        spec, kernels = (_headed(text, header) for text in (made.parts.spec, made.parts.kernels))

        def check(flagfile: Path) -> Compiled:
            folder, timeout = context.folder / "shipped", context.compile_timeout
            build = context.builder.build_shipped(flagfile, folder=folder, timeout=timeout)
            missing = [f"{one.label} ({why})" for one in made.entries for n, why in [applied(build, one)] if not n]
            if made.kernels and build.ok:
                calls = kernel_calls([entry.call for entry in made.kernels])
                reason = prove(build.dumped[PREPROCESSED][0], calls).reason(calls)
                missing += [reason] if reason else []
            if build.ok and missing:
                return replace(build, failure="not-applied", stderr="; ".join(missing))
            if build.ok and right is not None:
                right(build)
            return build

        parts = replace(made.parts, spec=spec, kernels=kernels)
        return ship(
            files, parts, context.flags(made.route), check=check, binary=made.build.binary if made.build else None
        )

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
        # The times shown are those that the speedup compares.
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
            audited=judgement.audited if judgement else None,
            cause=judgement.cause if judgement else None,
            reference=self.arbiter.found(default.us if default else None) if self.arbiter else None,
            details=ModelDetails(
                routes=tuple(t for t in self.tried if t.row),
                rows=tuple(_settled(row, shown) for row in part.dispatches) if part else (),
                others=part.others if part else 0.0,
                ranked_by=part.shares.how if part else "",
                ranked_route=part.route.name if part else "",
                time=_time_table(context, us, base=base, best=shown or stock),
                entries=made.entries if made else (),
                kernels=tuple(_settled(row, shown) for p in self.parts for row in p.places),
                shipped_kernels=made.kernels if made else (),
                error=made.error if made else None,
                arbiter=self.arbiter,
                program=context.builder.program.source,
            ),
        )


def _settled(row: R, shown: Contestant | None) -> R:
    """As the shown model has it: whether a microkernel computes it there."""
    if shown is None or shown.kernels or not (row.state == "taken" or row.reason == COMPUTED):
        return row
    return replace(row, state="left-out", reason="the fastest model has no microkernels", applied=0)


def claimed(verdict: FinalVerdict, reason: str, judgement: Judgement | None) -> str:
    """For the head of a spec."""
    gain = judgement.speedup if judgement else None
    if gain is None:
        return f"{verdict}, {reason}"
    return f"{verdict}, {gain}, 95 % confidence"


def _headed(text: str | None, lines: Sequence[str]) -> str | None:
    """A spec with more lines behind the first of its leading comment."""
    if text is None:
        return None
    first, _, rest = text.partition("\n")
    return "\n".join([first, *(f"// {printable(line)}" for line in lines), rest])


def nothing_faster(found: Summary) -> Judgement:
    """The verdict where nothing can race the default, with its reason."""
    rows, results = found.dispatches, [result for parts in found.parts for result in parts.results]
    routes = sum(one.contends and one.route != PLAIN for one in found.tried)
    configurations = sum(result.counts.rivals for result in results)
    tried = [count(routes, "route")] if routes else []
    tried += [f"{count(configurations, 'configuration')} of dispatches"] if configurations else []
    late = any(row.out_of_time or row.state == "ahead" for row in rows)
    if late or any(result.verdict == "inconclusive" for result in results):
        timed = f"{' and '.join(tried)} timed, none faster so far" if tried else "nothing was tried"
        route = found.context.known_route
        known = "; `autotune apply` writes what the registry knows of it" if route and route.exact else ""
        reason = f"ran out of time: {timed}{known}. {found.context.clock.longer()}"
        return _judged("inconclusive", reason)
    if (default := found.lineup.default) is not None and not default.ok:
        alone = "nothing else that was tried is faster" if found.lineup.right else "nothing that was tried is right"
        return _judged("no-winner", alone)
    if tried:
        return _judged("no-winner", f"{' and '.join(tried)} timed, none is faster than IREE's default")
    return _untried(rows)


def _untried(rows: Sequence[Row]) -> Judgement:
    """Nothing could be tried, whatever the time."""
    if not rows:
        return _judged("no-winner", f"nothing to tune: {NO_ROOT}", "nothing-to-tune")
    if all(row.state == "no-knobs" for row in rows):
        return _judged("no-winner", f"nothing to choose: {rows[0].reason}", "nothing-to-tune")
    why, often = Counter(row.reason for row in rows).most_common(1)[0]
    more = f", and {len(rows) - often} more" if often < len(rows) else ""
    return _judged("inconclusive", f"nothing was tried: no dispatch can be tuned ({why}{more})", "failed")


def _judged(verdict: Verdict, reason: str, cause: Cause | None = None) -> Judgement:
    return Judgement(verdict, reason, BASELINE, cause=cause)


def without_device(found: Summary) -> tuple[FinalVerdict, str, Cause | None]:
    """The verdict of a model that was only compiled, and its reason."""
    if found.tuned:
        made = found.tuned[-1]
        parts = [count(len(made.kernels), "microkernel")] if made.kernels else []
        parts += [f"{count(len(made.entries), 'entry')} by an estimate"] if made.entries else []
        return "compile-only", f"{' and '.join(parts)} proven in the model, never timed", None
    tried = [row for row in found.dispatches if row.result is not None and row.state not in OBSTACLES]
    if any(row.result is not None and row.result.verdict != "inconclusive" for row in tried):
        return "compile-only", "nothing was timed, and no candidate promises more than IREE's default", None
    for row in found.dispatches:
        if row.out_of_time or row in tried:
            return "inconclusive", f"nothing was tried: {row.reason}", None
    judgement = _untried(found.dispatches)
    return judgement.verdict, judgement.reason, judgement.cause


def _time_table(
    context: Context, us: Mapping[str, float], *, base: Contestant | None, best: Contestant | None
) -> TimeTable:
    """The default and the best model in parts; a side is empty where the device keeps no statistics."""
    if not context.timed or base is None:
        return TimeTable()
    after = best if best is not base else None
    return TimeTable(*(_told(context, one.build, us.get(one.id, one.us)) if one else None for one in (base, after)))


def _told(context: Context, build: Compiled | None, us: float | None) -> Breakdown | None:
    """By the statistics that were read last, or are read now if there is time."""
    times = context.read.get(build.vmfb) if build is not None else None
    if times is None and context.clock.fits(context.timing_seconds, before=context.clock.end):
        with suppress(OutOfTimeError):
            times = context.statistics(build)
    return Breakdown.from_statistics(times, us) if times and us else None
