"""Reading back what earlier runs have measured."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from autotuner.store.store import Store


def load_results(workspace: str | Path = ".", *, storage: str | None = None, run: str | None = None) -> pd.DataFrame:
    """Every timed candidate of a workspace (or of one run), one a row; knobs are columns `config.…`."""
    with Store.open(storage, workspace=Path(workspace), create=False) as store, store.intact():
        return store.frame(run)
