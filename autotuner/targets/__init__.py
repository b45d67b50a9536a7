"""Where a kernel is to run."""

from autotuner.targets.base import NO_DEVICE, Target
from autotuner.targets.catalog import PRODUCTS, all_targets
from autotuner.targets.knobs import PLAIN, Route

__all__ = ["NO_DEVICE", "PLAIN", "PRODUCTS", "Route", "Target", "all_targets"]
