"""Where a kernel is to run."""

from autotuner.targets.base import PLAIN, Route, Target
from autotuner.targets.catalog import PRODUCTS, all_targets

__all__ = ["PLAIN", "PRODUCTS", "Route", "Target", "all_targets"]
