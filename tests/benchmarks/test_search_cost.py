"""What the search itself costs a candidate."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_with_twenty_runs_to_read_and_fit_a_candidate_costs_milliseconds_and_more_than_is_allowed_is_an_error() -> None:
    """In a process of its own: numpy takes one thread there, as in the command line."""
    words = ("benchmarks.search_cost", "--target", "gfx942", "--repeats", "3", "--most", "0.01")
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "more than 0.01" in done.stderr
    parts = re.search(r"reading +(\d+) ms, fitting +(\d+), searching +(\d+): ([\d.]+) ms a candidate", done.stdout)
    assert parts is not None
    *milliseconds, each = (float(part) for part in parts.groups())
    assert min(milliseconds) > 0
    assert sum(milliseconds) / 100 == pytest.approx(each, abs=0.02)
    assert each < 15.0, "about two on a machine of its own; here others compute beside it"
