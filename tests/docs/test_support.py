"""The table of support is true: each of its rows is built again and must come out as it stands in the docs."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import pytest

from autotuner.build import Builder
from benchmarks.support import CANDIDATES, SAMPLES, TARGETS, examine

DOCS = Path(__file__).parents[2] / "docs" / "support.md"


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("operation", SAMPLES)
def test_candidates_of_every_operation_apply_on_every_target(
    operation: str, target: str, builder: Builder, executor: Executor
) -> None:
    row = examine(operation, target, builder, executor)
    assert row.tried >= CANDIDATES
    assert row.proven == row.tried
    assert row.distinct >= 2
    assert row.markdown() in DOCS.read_text().splitlines()
