"""Targets: the chips that code is compiled for."""

from autotuner.targets.base import Target
from autotuner.targets.catalog import PRODUCTS, all_targets
from autotuner.targets.knobs import PLAIN, Route
from autotuner.targets.naming import NO_DEVICE

__all__ = ["NO_DEVICE", "PLAIN", "PRODUCTS", "Route", "Target", "all_targets"]
