"""A build cache of its own for every test."""

from __future__ import annotations

from tests.tune.conftest import cache

__all__ = ["cache"]
