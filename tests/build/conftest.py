from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.build import Builder
from autotuner.iree.tools import Tools
from autotuner.system.cache import Cache


@pytest.fixture
def fresh(tools: Tools, tmp_path: Path) -> Builder:
    """With an empty cache of its own."""
    return Builder(tools, Cache(tmp_path / "cache"))
