"""Which configuration next: ask for some, tell what they came to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from autotuner.search.grid import ExhaustiveSearch, Grid, Search
from autotuner.search.guided import GuidedSearch
from autotuner.space.table import Config, Space

__all__ = ["Sampler", "Search", "make_search"]

Sampler = Literal["guided", "tpe"]


def make_search(
    space: Space,
    *,
    seed: int,
    first: Sequence[Config] = (),
    exhaustive_up_to: int = 300,
    sampler: Sampler = "guided",
) -> Search:
    """The search that suits this space. `first` is proposed first, in order, each as its nearest legal row."""
    grid = Grid(space)
    rows = [grid.repair(config) for config in first] if len(space) else []
    if len(space) <= exhaustive_up_to:
        return ExhaustiveSearch(grid, seed=seed, first=rows)
    if sampler == "tpe":
        from autotuner.search.tpe import TpeSearch  # imported where it is used: Optuna takes 0.1 s

        return TpeSearch(grid, seed=seed, first=rows)
    return GuidedSearch(grid, seed=seed, first=rows)
