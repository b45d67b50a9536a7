"""The reference of results, and whether IREE's default agrees with it, for problems, models and experiments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

DEFAULT = "IREE's default"
Source = Literal["numpy", "default", "first", "expected", "llvm-cpu"]
WORDS: dict[Source, str] = {
    "numpy": "numpy",
    "default": DEFAULT,
    "first": "the first build that runs",
    "expected": "--expected",
    "llvm-cpu": "the same program on llvm-cpu",
}


@dataclass(frozen=True)
class Reference:
    """Whose results are right, and whether the default's are."""

    source: Source
    default_is_right: bool
    """As far as it is known."""
    default_error: float | None
    """Relative; None where it is no number."""
    default_us: float | None = None
    allowed_error: float | None = None
    """Relative; None where each element has a bound of its own."""
    undecided: str = ""
    """Why the host's outputs did not decide, where they were asked for."""
    failed: str = ""
    """Why the default computes nothing at all."""
    compared: str = ""
    """How outputs were compared that are right, and farther off than rounding explains."""

    def to_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "default_is_right": self.default_is_right,
            "default_error": self.default_error,
            "default_us": self.default_us,
            "allowed_error": self.allowed_error,
            **({"undecided": self.undecided} if self.undecided else {}),
            **({"failed": self.failed} if self.failed else {}),
            **({"compared": self.compared} if self.compared else {}),
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Reference:
        more = (
            table.get("default_us"),
            table.get("allowed_error"),
            table.get("undecided", ""),
            table.get("failed", ""),
            table.get("compared", ""),
        )
        return cls(table["source"], table["default_is_right"], table["default_error"], *more)

    def words(self, what: str, *, name: str = DEFAULT, against: str = "") -> str:
        """That the default is wrong for a `what`; empty where it is right."""
        if self.default_is_right:
            return ""
        if self.failed:
            return f"{name} {self.failed}"
        error, against = self.default_error, against or WORDS[self.source]
        off = "not all of them are numbers" if error is None else f"relative error {error:.3g} against {against}"
        return f"{name} gives wrong results for this {what} ({off})"


def explained(wrong: str, verdict: str, reason: str, *, route: str | None) -> str:
    """The reason of a verdict: that the default is `wrong` comes first, with what a win is over, it or a right
    `route`."""
    if not wrong:
        return reason
    if verdict != "win":
        return f"{wrong}; {reason}"
    over = "it" if route is None else f"route {route}, the best of the routes that are"
    return f"{wrong}; what wins is right, and faster than {over}: {reason}"


def right_but_slower(route: str, us: float | None, default_us: float | None) -> str:
    """Why there is no win where only a slower route is right."""
    return f"route {route} gives right ones, and takes {(us or 0.0) / (default_us or 1.0):.2f} times as long"
