"""Which configuration next: ask for some, tell what they came to."""

from __future__ import annotations

from collections.abc import Sequence

from autotuner.search.grid import ExhaustiveSearch, Grid, Search
from autotuner.search.guided import GuidedSearch
from autotuner.space.table import Config, Space

__all__ = ["Search", "make_search"]


def make_search(
    space: Space,
    *,
    seed: int,
    first: Sequence[Config] = (),
    exhaustive_up_to: int = 300,
) -> Search:
    """The search that suits this space. `first` is proposed first, in order, each as its nearest legal row."""
    grid = Grid(space)
    rows = [grid.repair(config) for config in first] if len(space) else []
    if len(space) <= exhaustive_up_to:
        return ExhaustiveSearch(grid, seed=seed, first=rows)
    return GuidedSearch(grid, seed=seed, first=rows)
