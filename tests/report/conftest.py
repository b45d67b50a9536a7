"""What tests of reports share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from autotuner.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(None, workspace=tmp_path) as opened:
        yield opened
