"""The live line, whatever happens one line; and what strangers wrote, which is text and steers no terminal."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest
from rich.console import Console

from autotuner.cli.console import LiveReporter, PlainReporter, live_line, make_console
from autotuner.devices.device import Timing
from autotuner.errors import UsageError
from autotuner.space.table import Config
from autotuner.store.rows import NewRun
from autotuner.store.store import Store
from autotuner.system.progress import LOG, Log, Prefixed, Progress, Silent
from tests.support.command_line import Here

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


# --- what strangers wrote ---------------------------------------------------------------------------------------------


EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[red]x[/red][link=http://x]y[/link]:boom:"
SHOWN = "[red]x[/red][link=http://x]y[/link]:boom:"
FORBIDDEN = "\x1b\x07\x9b\u202e"


def hold(done: subprocess.CompletedProcess[str], *, code: int = 0) -> None:
    assert done.returncode == code, done.stderr
    assert not set(FORBIDDEN) & set(done.stdout + done.stderr)


def test_a_database_of_a_strangers_is_listed_as_text(here: Here, tmp_path: Path) -> None:
    here.monkeypatch.setenv("COLUMNS", "400")
    with Store.open(None, workspace=tmp_path) as store:
        problem = {"op": EVIL, "name": f"{EVIL}\nverdict win"}
        run = store.start_run(NewRun("single", "k", [EVIL], problem, EVIL, EVIL, 0))
        row = store.add_candidate(run, ordinal=1, config=Config.of({EVIL: EVIL}), kind="codegen", route=EVIL)
        store.record_timing(row, Timing((10.0,)), phase="screen", block=0)
        other = store.add_candidate(run, ordinal=2, config=Config(()), kind="codegen", route=EVIL)
        store.record_failure(other, EVIL, stderr=EVIL)
        store.finish_run(run, "finished", result={"verdict": EVIL, "spec": EVIL})
    for words in (("history",), ("history", run), ("history", "--json"), ("export", "--json"), ("export", "--csv")):
        done = here(*words)
        hold(done)
        assert SHOWN in done.stdout.replace("\\u001b", "")
    listed = here("history").stdout
    assert "\nverdict win" not in listed


def test_a_log_and_a_list_of_shapes_are_reported_as_text(here: Here, tmp_path: Path) -> None:
    log = tmp_path / "evil.log"
    log.write_text(
        f"- {{function: matmul, M: 1, N: 1, K: {EVIL}}}\n"
        f"- {{function: '{EVIL}', M: 1}}\n"
        "- {function: matmul, M: 64, N: 32, K: 16, transA: N, transB: N, a_type: f16_r, b_type: f16_r, d_type: f16_r, "
        "compute_type: c_f32_r}\n"
    )
    done = here("suite", str(log), "--list")
    hold(done)
    assert "[red]x[/red]" in done.stderr
    shapes = tmp_path / "evil.csv"
    shapes.write_text(f"op,shape\n{EVIL},4x4x4\n")
    hold(here("suite", str(shapes), "--list"), code=2)


def test_an_error_a_stage_and_a_note_are_text() -> None:
    console = make_console(stderr=True)
    console.file = io.StringIO()
    console._force_terminal = True
    assert console.is_terminal
    with LiveReporter(console) as reporter:
        reporter.stage(f"one {EVIL}")
        reporter.note(f"two {EVIL}")
    shown = console.file.getvalue()
    assert SHOWN in shown
    assert "\x1b]0;" not in shown
    assert "\x07" not in shown
    console.print(str(UsageError(EVIL)))
    assert SHOWN in console.file.getvalue().replace("\n", "")
