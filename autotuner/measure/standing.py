"""Where a problem's candidates stand: whether IREE's default is right, and what a win is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:  # a machine that only runs modules has no compiler
    from autotuner.iree.compile import FailureClass

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from autotuner.errors import WrongResultError
from autotuner.measure.judgement import Judgement
from autotuner.measure.reference import Reference, explained, right_but_slower

Kind = Literal["baseline", "stock", "codegen", "microkernel"]
SEARCHED: tuple[Kind, ...] = ("codegen", "microkernel")
"""What a search asks for."""
BASELINE = "baseline"
"""The id of IREE's default."""


class Contestant(Protocol):
    """What it is, and its state on the device."""

    @property
    def id(self) -> str: ...

    @property
    def kind(self) -> Kind: ...

    @property
    def route_name(self) -> str: ...

    @property
    def label(self) -> str:
        """Its name in messages."""

    @property
    def complexity(self) -> int: ...

    @property
    def foreign(self) -> bool:
        """It has code in it that is neither the compiler's nor autotune's."""

    @property
    def failure(self) -> FailureClass | None: ...

    @property
    def duplicate_of(self) -> str | None: ...

    @property
    def error(self) -> float | None:
        """Relative, against the right answer; None where it is no number or not known."""

    @property
    def us(self) -> float | None: ...

    @property
    def contends(self) -> bool:
        """It may enter the race: right, timed, and no duplicate."""


C = TypeVar("C", bound=Contestant)


@dataclass(frozen=True)
class Standing(Generic[C]):
    """Reads what the candidates have come to so far."""

    outcomes: Mapping[str, C]
    knows: bool = True
    """The right answers are known without the default."""

    @property
    def default(self) -> C | None:
        return self.outcomes.get(BASELINE)

    @property
    def default_is_wrong(self) -> bool:
        """It was timed, and what it computes is not what numpy does."""
        default = self.default
        return default is not None and default.us is not None and default.failure == "wrong-result"

    @property
    def right(self) -> list[C]:
        return [outcome for outcome in self.outcomes.values() if outcome.contends]

    @property
    def stock(self) -> C | None:
        """The fastest that is right of what flags alone give, the plain default among them; None where none is."""
        return self._fastest("baseline", "stock")

    @property
    def compiled(self) -> C | None:
        """The fastest that is right of what the compiler makes itself."""
        return self._fastest("baseline", "stock", "codegen")

    def _fastest(self, *kinds: Kind) -> C | None:
        return min((o for o in self.right if o.kind in kinds), key=lambda o: o.us or 0.0, default=None)

    @property
    def base(self) -> C | None:
        """What a win is over: the default; where that fails, or is wrong and faster than all routes that are right, the
        best of these."""
        default, stock = self.default, self.stock
        if default is not None and default.failure is not None and default.us is None:
            return stock
        if not self.default_is_wrong or default is None or stock is None:
            return default
        return stock if (stock.us or math.inf) >= (default.us or math.inf) else default

    def fastest(self, judgement: Judgement | None = None) -> C | None:
        """The one that the speedup is of, winner or not; else the fastest of those that were timed."""
        if judgement is not None and judgement.confirmed_name is not None:
            return self.outcomes[judgement.confirmed_name]
        # A time of the search is not compared with one of the race: where there was one, the fastest of it.
        us = judgement.us if judgement else {}
        raced = [one for one in self.right if one.id in us] or self.right
        return min(raced, key=lambda one: us.get(one.id, one.us or math.inf), default=None)

    @property
    def over(self) -> str:
        """What a win is over, in words."""
        if self.base is self.default or self.base is None:
            return "IREE's default"
        return f"route {self.base.route_name}, the best of the routes that are right"

    @property
    def words(self) -> str:
        """That the default is wrong; empty where it is right as far as is known."""
        return self.reference.words("problem") if self.default_is_wrong and self.reference is not None else ""

    @property
    def reference(self) -> Reference | None:
        """What is known of the default once it is timed. Where nothing else is, it is what all is compared with."""
        default = self.default
        if default is None or default.us is None:
            return None
        return Reference("numpy" if self.knows else "default", not self.default_is_wrong, default.error, default.us)

    def explained(self, verdict: str, reason: str, judgement: Judgement | None = None) -> str:
        """The reason of a verdict; where the default is wrong that comes first, with what a win is over."""
        slower = self._slower(judgement) if verdict == "no-winner" and self.words else ""
        route = self.base.route_name if self.base is not None and self.base is not self.default else None
        return explained(self.words, verdict, f"{reason}{slower}", route=route)

    def _slower(self, judgement: Judgement | None) -> str:
        """How much slower than a wrong default the best is, where no route is right that it could be compared with."""
        best, default = self.fastest(judgement), self.default
        if self.stock is not None or best is None or default is None:
            return ""
        us = judgement.us if judgement else {}
        took, wrong = (us.get(one.id, one.us or math.nan) for one in (best, default))
        return f"; the best that is right takes {took / wrong:.2f} times as long"

    def alone(self) -> str:
        """Why there is no win, where the default is wrong and only a slower route is right; empty otherwise."""
        base, default = self.base, self.default
        if base is default or base is None or default is None:
            return ""
        return right_but_slower(base.route_name, base.us, default.us)

    def require_right(self, reason: str) -> None:
        """Raises where neither the default nor anything else is right."""
        if self.default_is_wrong and not self.right:
            raise WrongResultError(
                f"{self.words}, and nothing right was found: {reason}.",
                remedy="Do not use IREE's default here, and please report it to IREE.",
            )
