"""How long repetitions must be on a device that is too noisy for the gains that count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autotuner.devices.device import Timing
from autotuner.iree.benchmark import Benchmark
from autotuner.system.text import percent


def lengthened(benchmark: Benchmark, heard: Timing, *, smallest_gain: float) -> tuple[Benchmark, str | None]:
    """The benchmark for a device on which the default against itself was heard; what is said where it is longer."""
    spread = float(np.subtract(*np.percentile(np.log(heard.us), [75, 25])))
    if spread <= smallest_gain:
        return benchmark, None
    longer = 2 * benchmark.seconds
    noise = (
        f"the default against itself spreads by {percent(spread)}, and gains count from "
        f"{100 * smallest_gain:g} %: repetitions are lengthened to {longer * 1000:.0f} ms. "
        f"A quieter machine would tell small gains apart."
    )
    return replace(benchmark, seconds=longer), noise
