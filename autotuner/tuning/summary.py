"""The result of one problem's run, made of its candidates' results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotuner.iree.figures import NO_FIGURES
from autotuner.measure.blocks import ALPHA
from autotuner.measure.caches import Caches
from autotuner.measure.judgement import Judgement
from autotuner.measure.standing import Standing
from autotuner.tuning.estimate import Estimate
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.result import Best, Files, FinalVerdict, Measured, Result, RunFacts
from autotuner.tuning.run import Run

NOTHING = Files()
Times = Mapping[str, float]
"""µs by candidate."""


@dataclass(frozen=True)
class Summary:
    """Reads the candidates of a run."""

    run: Run
    evaluator: Evaluator

    def result(
        self,
        verdict: FinalVerdict,
        reason: str,
        *,
        judgement: Judgement | None = None,
        files: Files = NOTHING,
        caches: Caches | None = None,
    ) -> Result:
        outcomes = self.evaluator.outcomes
        standing = Standing(outcomes, self.evaluator.plan.problem.knows)
        stock = outcomes[judgement.stock] if judgement else standing.stock
        best = standing.fastest(judgement)
        us = judgement.us if judgement else {}
        own = standing.compiled if self.evaluator.plan.kernels else None
        return Result(
            **self._facts(),
            verdict=verdict,
            reason=standing.explained(verdict, reason, judgement),
            baseline=self.measured(standing.base, us),
            stock=self.measured(stock if stock and stock.contends else None, us),
            best=self.best(best, us) if best else None,
            best_codegen=self.best(own, us) if own else None,
            speedup=judgement.speedup if judgement else None,
            speedup_over_stock=judgement.over_stock if judgement else None,
            confidence=1 - ALPHA,
            counts=self.evaluator.counts(),
            details=None,
            files=files,
            audited=judgement.audited if judgement else None,
            caches=caches,
            cause=judgement.cause if judgement else None,
            reference=standing.reference,
        )

    def _facts(self) -> RunFacts:
        """Those of the run; with what the default takes on each device, where there are several."""
        facts, us = self.run.facts(), self.evaluator.default_us()
        devices = tuple({**one, "default_us": us.get(one["device"])} for one in facts["devices"])
        return {**facts, "devices": devices}

    def measured(self, outcome: Outcome | None, us: Times) -> Measured:
        """`us` are times side by side, by candidate; without one, that of the search counts."""
        if outcome is None:
            return Measured()
        candidate = outcome.candidate
        # A candidate that an earlier part of a resumed run has timed is not built again.
        known = self.run.session.store.isa(self.run.id) if outcome.build is None else {}
        isa = outcome.build.isa if outcome.build else known.get(outcome.row, NO_FIGURES)
        known_us = us.get(candidate.id, outcome.us)
        return Measured(known_us, tuple(candidate.route.flags), candidate.route.name, isa)

    def best(self, outcome: Outcome, us: Times, *, estimate: Estimate | None = None) -> Best:
        candidate, measured = outcome.candidate, self.measured(outcome, us)
        promised = replace(measured, estimate=estimate.to_json() if estimate else None)
        return Best(promised, candidate.knobs, candidate.carrier.code, candidate.id)
