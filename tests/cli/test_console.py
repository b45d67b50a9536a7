"""The live line: whatever happens it is one line, with the stage and the clock."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from autotuner.cli.console import LiveReporter, live_line
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


def test_what_matters_most_comes_first() -> None:
    line = live_line("searching 47354 configurations", NOW, elapsed=3723.0)
    assert line.startswith("1:02:03  searching 47354 configurations  ━━━━━━──────  best 2.705 ms (2.76x)  1234 s left")
    assert live_line("reading", None, elapsed=83.0) == "0:01:23  reading"


@pytest.mark.parametrize("width", [20, 80])
def test_the_line_is_one_line_however_narrow_the_terminal_is(width: int) -> None:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    with LiveReporter(console) as reporter:
        reporter.stage("searching 47354 configurations")
        reporter.progress(NOW)
        shown = console.render_lines(LiveReporter._line(reporter), pad=False)  # type: ignore[arg-type]
    assert len(shown) == 1
