"""Where a kernel is to run."""

from autotuner.targets.base import NO_DEVICE, PLAIN, Route, Target
from autotuner.targets.catalog import PRODUCTS, all_targets

__all__ = ["NO_DEVICE", "PLAIN", "PRODUCTS", "Route", "Target", "all_targets"]
