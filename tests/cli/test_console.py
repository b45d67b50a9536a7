"""The live line: whatever happens it is one line, with the stage and the clock."""

from __future__ import annotations

import pytest

from autotuner.cli.console import live_line
from autotuner.system.progress import Progress

NOW = Progress(
    trials=1000,
    asked=512,
    built=498,
    failed=12,
    timed=431,
    baseline_us=7464.0,
    best_us=2705.0,
    seconds=100.0,
    seconds_left=1234.0,
)
STAGE = "[3/12] matmul_like_512x512x1024_f32: searching 415250 configurations"


@pytest.mark.parametrize("width", [20, 40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("stage", ["searching 47354 configurations", STAGE])
@pytest.mark.parametrize("now", [None, NOW])
def test_the_line_fits_the_terminal_and_keeps_the_clock(width: int, stage: str, now: Progress | None) -> None:
    line = live_line(stage, now, elapsed=3723.0, width=width)
    assert len(line) <= width
    assert line.endswith("1:02:03")
    assert line.startswith(stage[:5])


def test_eighty_columns_have_room_for_what_counts() -> None:
    line = live_line("searching 47354 configurations", NOW, elapsed=83.0, width=80)
    assert line == "searching 47354 configurations  ━━━━━━──────  best 2.705 ms (2.76x)  0:01:23"
