"""A space as pandas has it."""

from __future__ import annotations

import numpy as np
import pandas as pd

from autotuner.space import Space


def frame(space: Space) -> pd.DataFrame:
    """A row a configuration, with the values of its knobs."""
    return pd.DataFrame({k.name: np.array(k.values, object)[space.indices[:, i]] for i, k in enumerate(space.knobs)})
