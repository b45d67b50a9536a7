"""The result of a model's run, made of what its routes and tuned models came to, and the files of what wins."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from autotuner.build.ship import Shipped
from autotuner.carriers.outputs import Outputs
from autotuner.errors import OutOfTimeError
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.dispatches import Dispatches
from autotuner.jobs.model.ending import COMPILED_AGAIN, READ_AGAIN
from autotuner.jobs.model.lineup import Lineup, measured, raced_as
from autotuner.jobs.model.result import ModelDetails, ModelResult
from autotuner.jobs.model.routes import RouteOutcome
from autotuner.jobs.model.ship import claimed, report_text, ship
from autotuner.jobs.model.where import time_table
from autotuner.jobs.model.whole import Tuned
from autotuner.measure.blocks import ALPHA, Rules
from autotuner.measure.caches import Caches
from autotuner.measure.judgement import Judgement
from autotuner.programs.arbiter import Arbiter
from autotuner.system import process
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.result import Best, Counts, Files, FinalVerdict, Measured, Result

_AS_TIMED = (
    "no time to compile the model once more: the flagfile has the very words that made the module that was timed, "
    "by the same compiler of the same files, and iree-compile reads it so"
)


@dataclass
class Summary:
    """What a run has found so far; its steps add to it."""

    context: Context
    tried: list[RouteOutcome] = field(default_factory=list)
    tuned: list[Tuned] = field(default_factory=list)
    parts: list[Dispatches] = field(default_factory=list)
    caches: Caches | None = None
    arbiter: Arbiter | None = None
    """Whose outputs are right; None without a device."""

    @property
    def lineup(self) -> Lineup:
        return Lineup(self.tried, self.tuned)

    def judged(self, judgement: Judgement) -> ModelResult:
        """What is shipped and told of a verdict."""
        reason = self.lineup.told(judgement, self.arbiter) if self.arbiter is not None else judgement.reason
        if judgement.verdict != "win" or judgement.winner is None:
            return self.result(judgement.verdict, reason, judgement)
        return self.shipped(self.lineup.named(judgement.winner), "win", reason, judgement)

    def shipped(
        self, made: Tuned, verdict: FinalVerdict, reason: str, judgement: Judgement | None = None
    ) -> ModelResult:
        """With the files of a model, which is compiled once more with these where that is needed, or there is time."""
        context, files = self.context, self.context.files
        again = not made.by_flags or context.clock.left > COMPILED_AGAIN * made.build.took
        simple = self._by_flags(judgement) if judgement is not None and not made.by_flags else None
        kept = READ_AGAIN * self.lineup.named(simple.stock).build.took if simple is not None else 0.0
        try:
            shipped = self._proven(made, files, claimed(verdict, reason, judgement), again=again, kept=kept)
        except OutOfTimeError:
            if simple is None or simple.winner is None:
                return self.result("inconclusive", context.run.unproven, judgement)
            context.note(
                f"the compile of {made.name} had not ended when the time was up: {simple.winner} ships instead"
            )
            return self.judged(simple)
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

    def _by_flags(self, judgement: Judgement) -> Judgement | None:
        """The best route's own win, where it was timed beside the winner's."""
        rules = Rules(smallest_gain=self.context.options.effort.smallest_gain)
        return judgement.of_stock(baseline=BASELINE, rules=rules, label=f"route {judgement.stock}")

    def _proven(self, made: Tuned, files: Outputs, verdict: str, *, again: bool, kept: float = 0.0) -> Shipped:
        """The files of a model, proven by a fresh compile; without one where flags alone made what was timed.

        `kept` are seconds that are left for something else where the compile does not end.
        """
        context = self.context
        context.stage("shipping, and compiling the model once more with what is shipped" if again else "shipping")
        ends = context.clock.latest if made.by_flags and again else context.run.proof_ends(made.build.took)
        try:
            with process.however_late(latest=ends - kept):
                shipped = ship(
                    files,
                    made,
                    context.flags(made.tried.route),
                    builder=context.builder,
                    folder=context.folder / "shipped",
                    timeout=context.compile_timeout,
                    verdict=verdict,
                    again=again,
                )
        except OutOfTimeError:
            if not (made.by_flags and again):
                raise
            return self._proven(made, files, verdict, again=False)
        if not again:
            context.note(_AS_TIMED)
        return shipped

    def reported(self, result: ModelResult) -> ModelResult:
        """With a report, where what is shipped has none: beside the specs there may be those of an earlier run, with
        their own."""
        context = self.context
        if result.details.report is not None:
            return result
        own = context.session.workspace.results / f"{context.program.name}-{context.run.id}.md"
        return _with_report(result, context.files, own)

    def result(
        self,
        verdict: FinalVerdict,
        reason: str,
        judgement: Judgement | None = None,
        made: Tuned | None = None,
    ) -> ModelResult:
        """`made` is the model that is shipped."""
        context = self.context
        us = dict(judgement.us) if judgement else {}
        stock = self.lineup.stock
        base = self.lineup.base if self.tried else None
        for made_row in self.tuned:
            if made_row.name in us:
                context.session.store.set_us(made_row.row, us[made_row.name])
        # The times that are told are of what the speedup is of.
        compared = judgement.confirmed_name if judgement else None
        shown = made or (self.lineup.named(compared) if compared else self.tuned[0] if self.tuned else None)
        # Where a route wins that was not tuned itself, the ranking is of the one that was.
        first = self.parts[0] if self.parts else None
        part = next((p for p in self.parts if shown is not None and p.route == shown.tried.route), first)
        best = None
        if shown is not None:
            route = shown.tried.route
            best_us = us.get(shown.name, shown.tried.us if not (shown.entries or shown.kernels) else None)
            kind: Literal["codegen", "microkernel"] = "microkernel" if shown.kernels else "codegen"
            best = Best(Measured(best_us, tuple(route.flags), route.name), {}, kind)
        return Result(
            **context.facts(),
            verdict=verdict,
            reason=reason,
            baseline=measured(base, us.get(BASELINE)),
            stock=measured(stock, us.get(raced_as(stock, base))),
            best=best,
            speedup=judgement.speedup if judgement else None,
            speedup_over_stock=judgement.over_stock if judgement else None,
            confidence=1 - ALPHA,
            counts=Counts.total(result.counts for p in self.parts for result in p.results),
            files=Files(carrier=made.parts.carrier if made else None),
            caches=self.caches,
            cause=judgement.cause if judgement else None,
            reference=self.arbiter.found(self.tried[0].us if self.tried else None) if self.arbiter else None,
            details=ModelDetails(
                routes=tuple(t for t in self.tried if t.row),
                rows=tuple(part.rows.values()) if part else (),
                others=part.others if part else 0.0,
                ranked_by=part.shares.how if part else "",
                ranked_route=part.route.name if part else "",
                untunable=part.untunable if part else (),
                time=time_table(context, us, base=base, stock=stock, tuned=shown, ranked=part),
                entries=made.entries if made else (),
                kernels=tuple(row for p in self.parts for row in p.kernels.rows.values()),
                shipped_kernels=made.kernels if made else (),
                error=made.error if made else None,
                arbiter=self.arbiter,
                program=context.program.path,
                commands=("autotune", *context.options.command[1:]),
            ),
        )


def _with_report(result: ModelResult, files: Outputs, path: Path) -> ModelResult:
    """With a report at `path`."""
    result = replace(result, details=replace(result.details, report=path))
    files.write(path, report_text(result))
    return result
