"""Where a problem's candidates stand: whether IREE's default is right, and what a win is over."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autotuner.errors import WrongResultError
from autotuner.measure.race import Verdict
from autotuner.tuning.evaluate import Outcome
from autotuner.tuning.plan import BASELINE
from autotuner.tuning.result import FinalVerdict, Reference


@dataclass(frozen=True)
class Standing:
    """Reads what the candidates have come to so far."""

    outcomes: Mapping[str, Outcome]

    @property
    def default(self) -> Outcome | None:
        return self.outcomes.get(BASELINE)

    @property
    def default_is_wrong(self) -> bool:
        """It was timed, and what it computes is not what numpy does."""
        default = self.default
        return default is not None and default.us is not None and default.failure == "wrong-result"

    @property
    def right(self) -> list[Outcome]:
        return [outcome for outcome in self.outcomes.values() if outcome.contends]

    @property
    def stock(self) -> Outcome | None:
        """The fastest that is right of what flags alone give, the plain default among them; None where none is."""
        routes = [o for o in self.right if o.candidate.kind in ("baseline", "stock")]
        return min(routes, key=lambda o: o.us or 0.0, default=None)

    @property
    def base(self) -> Outcome | None:
        """What a win is over: the default; where that is wrong and faster than all routes that are right, the best of
        these."""
        default, stock = self.default, self.stock
        if not self.default_is_wrong or default is None or stock is None:
            return default
        return stock if (stock.us or math.inf) >= (default.us or math.inf) else default

    @property
    def over(self) -> str:
        """What a win is over, for people."""
        if self.base is self.default or self.base is None:
            return "IREE's default"
        return f"route {self.base.candidate.route.name}, the best of the routes that are right"

    @property
    def words(self) -> str:
        """That the default is wrong; empty where it is right as far as is known."""
        if not self.default_is_wrong or self.default is None:
            return ""
        error = self.default.error
        off = "not all of them are numbers" if error is None else f"relative error {error:.3g} against numpy"
        return f"IREE's default gives wrong results for this problem ({off})"

    @property
    def reference(self) -> Reference | None:
        """What is told of the default where it is wrong."""
        default = self.default
        return Reference(default.error, default.us) if self.default_is_wrong and default is not None else None

    def told(self, verdict: FinalVerdict | Verdict, reason: str) -> str:
        """The reason of a verdict; where the default is wrong that comes first, with what a win is over."""
        if not self.words:
            return reason
        if verdict != "win":
            return f"{self.words}; {reason}"
        over = "it" if self.base is self.default else self.over.removesuffix(" right")
        return f"{self.words}; what wins is right, and faster than {over}: {reason}"

    def alone(self) -> str:
        """Why there is no win, where the default is wrong and only a slower route is right; empty otherwise."""
        base, default = self.base, self.default
        if base is default or base is None or default is None:
            return ""
        ratio = (base.us or 0.0) / (default.us or 1.0)
        return f"route {base.candidate.route.name} gives right ones, and takes {ratio:.2f} times as long"

    def require_right(self, reason: str) -> None:
        """Nothing can be won where neither the default nor anything else is right."""
        if self.default_is_wrong and not self.right:
            raise WrongResultError(
                f"{self.words}, and nothing right was found: {reason}.",
                remedy="Do not use IREE's default here, and please report it to IREE.",
            )
