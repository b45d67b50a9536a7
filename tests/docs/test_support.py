"""The table of support is true: rows of it are built again and must come out as they stand in the docs."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import pytest

from autotuner.build import Builder
from benchmarks.support import SAMPLES, TARGETS, examine

DOCS = Path(__file__).parents[2] / "docs" / "support.md"


CELLS = list(zip(SAMPLES, TARGETS[::3], strict=False))
"""Each operation is among them, and each family of chips; `python -m benchmarks.support` makes all."""
SLOW = "convnd data"
"""Its candidates take longer than those of all others together."""


@pytest.mark.parametrize(
    ("operation", "target"),
    [pytest.param(*cell, marks=[pytest.mark.long] * (cell[0] == SLOW)) for cell in CELLS],
)
def test_candidates_of_every_operation_apply_on_targets_as_the_docs_say(
    operation: str, target: str, builder: Builder, executor: Executor
) -> None:
    row = examine(operation, target, builder, executor, candidates=1)
    assert row.proven == row.tried >= 1
    assert row.markdown() in DOCS.read_text().splitlines()
