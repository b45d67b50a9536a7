"""The result of one problem's run, made of what its candidates came to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from autotuner.iree.figures import NO_FIGURES
from autotuner.measure.judge import Judgement
from autotuner.measure.race import ALPHA
from autotuner.tuning.caches import Caches
from autotuner.tuning.estimate import Estimate
from autotuner.tuning.evaluate import Evaluator, Outcome
from autotuner.tuning.result import Best, Files, FinalVerdict, Measured, Result
from autotuner.tuning.run import Run
from autotuner.tuning.standing import Standing

NOTHING = Files()
Times = Mapping[str, float]
"""µs by candidate."""
NONE: Times = MappingProxyType({})


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
        standing = Standing(outcomes)
        stock = outcomes[judgement.stock] if judgement else standing.stock
        best = self.fastest(judgement)
        us = judgement.us if judgement else {}
        race_us = judgement.race_us if judgement else {}
        return Result(
            **self.run.facts(),
            verdict=verdict,
            reason=standing.told(verdict, reason + self._slower(standing, best, us) * (verdict == "no-winner")),
            baseline=self.measured(standing.base, us, race_us),
            stock=self.measured(stock if stock and stock.contends else None, us, race_us),
            best=self.best(best, us, race_us) if best else None,
            speedup=judgement.speedup if judgement else None,
            speedup_over_stock=judgement.over_stock if judgement else None,
            confidence=1 - ALPHA,
            counts=self.evaluator.counts(),
            details=None,
            files=files,
            caches=caches,
            cause=judgement.cause if judgement else None,
            reference=standing.reference,
        )

    @staticmethod
    def _slower(standing: Standing, best: Outcome | None, us: Times) -> str:
        """How much slower than a wrong default the best is, where no route is right that it could be compared with."""
        default = standing.default
        if not standing.default_is_wrong or standing.stock is not None or best is None or default is None:
            return ""
        took, wrong = (us.get(one.candidate.id, one.us or math.nan) for one in (best, default))
        return f"; the best that is right takes {took / wrong:.2f} times as long"

    def fastest(self, judgement: Judgement | None) -> Outcome | None:
        """The one that the speedup is of, winner or not; else the fastest of those that were timed."""
        outcomes = self.evaluator.outcomes
        if judgement is not None and judgement.confirmed_name is not None:
            return outcomes[judgement.confirmed_name]
        # A time of the search is not compared with one of the race: where there was one, the fastest of it.
        us = judgement.us if judgement else {}
        contenders = [o for o in outcomes.values() if o.contends]
        raced = [o for o in contenders if o.candidate.id in us] or contenders
        return min(raced, key=lambda o: us.get(o.candidate.id, o.us or math.inf), default=None)

    def measured(self, outcome: Outcome | None, us: Times, race_us: Times = NONE) -> Measured:
        """`us` are times side by side, by candidate; without one, that of the search counts."""
        if outcome is None:
            return Measured()
        candidate = outcome.candidate
        # A candidate that an earlier part of a resumed run has timed is not built again.
        known = self.run.session.store.isa(self.run.id) if outcome.build is None else {}
        isa = outcome.build.isa if outcome.build else known.get(outcome.row, NO_FIGURES)
        known_us = us.get(candidate.id, outcome.us)
        return Measured(known_us, tuple(candidate.route.flags), candidate.route.name, isa, race_us.get(candidate.id))

    def best(self, outcome: Outcome, us: Times, race_us: Times = NONE, *, estimate: Estimate | None = None) -> Best:
        candidate = outcome.candidate
        return Best(
            self.measured(outcome, us, race_us),
            candidate.knobs,
            candidate.carrier.code,
            candidate.id,
            estimate.to_json() if estimate else None,
        )
