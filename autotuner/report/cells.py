"""Figures as the cells of pages have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotuner.report.reading import number


def text(value: object) -> str:
    """Whatever a document holds."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return "" if value is None else str(value)


def us(value: float | None) -> str:
    """Four digits: more is noise."""
    return "" if value is None else f"{value:.1f}" if value >= 1000 else f"{value:.4g}"


def fixed(value: float | None, digits: int) -> str:
    """So many digits behind the point."""
    return "" if value is None else f"{value:.{digits}f}"


def interval(speedup: Mapping[str, Any] | None) -> str:
    """A ratio and, where it is known, its interval."""
    ratio, low, high = (number((speedup or {}).get(name)) for name in ("median", "low", "high"))
    if ratio is None:
        return ""
    return f"{ratio:.3f}" if low is None or high is None else f"{ratio:.3f} ({low:.3f} to {high:.3f})"


def rate(value: float | None) -> str:
    """GFLOP/s; of a small one the digits that it has."""
    return "" if value is None else f"{value:.1f}" if value >= 1 else f"{value:.2g}"
