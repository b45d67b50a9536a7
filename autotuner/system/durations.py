"""How long something may take, as people write it."""

from __future__ import annotations

import re

from autotuner.errors import UsageError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")
LEAST_BUDGET = 5.0
"""Seconds: in less nothing can be timed, let alone compared."""


def parse_budget(text: str) -> float:
    """The seconds of a run that times; what no verdict can come of is refused at once."""
    seconds = parse_duration(text)
    if seconds < LEAST_BUDGET:
        raise UsageError(
            f"--budget {text} is too short for any verdict.",
            remedy=f"Give {LEAST_BUDGET:.0f}s at the least; a small problem takes about 30s, a model minutes.",
        )
    return seconds


def parse_duration(text: str) -> float:
    """`90`, `90s`, `10m`, `1h30m` in seconds."""
    match = _DURATION.fullmatch(text.strip().lower())
    if not match or not any(match.groups()):
        raise UsageError(f"--budget {text!r} is not a duration.", remedy="Write it as 90s, 10m or 1h30m.")
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    total = hours * _UNITS["h"] + minutes * _UNITS["m"] + seconds
    if total <= 0:
        raise UsageError(f"--budget {text!r} leaves no time.", remedy="Write it as 90s, 10m or 1h30m.")
    return total
