"""`autotune bundle import`: a verdict from another machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autotuner.cli.request import Request
from autotuner.cli.tuning import conclude, watched
from autotuner.tuning.bringing import bring_home


def bring(file: Path, **words: Any) -> None:
    """Takes a result up as a run of this workspace, and ends as every tuning command does."""
    request = Request(**words)
    with watched(request) as watch:
        result = bring_home(file, options=request.options(), **watch)
    conclude(result, request)
