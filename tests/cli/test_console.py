"""The live line: whatever happens it is one line, with the stage and the clock."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from autotuner.cli.console import LiveReporter, PlainReporter, live_line
from autotuner.system.progress import LOG, Log, Prefixed, Progress, Silent

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
    line = live_line("searching 47354 configurations", NOW, elapsed=3723.0, left=1234.0)
    assert line.startswith("1:02:03, 1234 s left  searching 47354 configurations  ━━━━━━──────  best 2.705 ms (2.76x)")
    assert live_line("reading", None, elapsed=83.0) == "0:01:23  reading"


def test_without_a_terminal_a_phase_is_a_line_and_a_note_is_said_once() -> None:
    console = Console(width=100, file=io.StringIO())
    reporter = PlainReporter(console)
    reporter.stage("searching")
    for step in ("compiling O3", "timing O3"):
        reporter.stage(f"trying flags: {step}")
    for ratio in (0.5, 0.6, 0.5):
        reporter.progress(NOW)
        reporter.note(f"the device takes {ratio} of its first time")
    reporter.note("another")
    said = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert said == ["searching", "trying flags", "note: the device takes 0.5 of its first time", "note: another"]


def test_the_log_has_every_note_with_the_time_also_from_before_there_was_a_file(tmp_path: Path) -> None:
    log = Log(Silent())
    log.stage("reading")
    log.into(tmp_path / "run")
    log.note("twice")
    Prefixed(log, "1/2 ").note("twice")
    lines = (tmp_path / "run" / LOG).read_text().splitlines()
    assert [line.partition(" s  ")[2] for line in lines] == ["reading", "note: twice", "note: 1/2 twice"]


@pytest.mark.parametrize("width", [20, 80])
def test_the_line_is_one_line_however_narrow_the_terminal_is(width: int) -> None:
    console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
    with LiveReporter(console) as reporter:
        reporter.stage("searching 47354 configurations")
        reporter.progress(NOW)
        shown = console.render_lines(LiveReporter._line(reporter), pad=False)  # type: ignore[arg-type]
    assert len(shown) == 1
