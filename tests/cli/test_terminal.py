"""What files and databases hold is shown as text: it neither steers the terminal nor passes for markup."""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner.cli.app import main
from autotuner.cli.console import LiveReporter, emit, make_console
from autotuner.devices.device import Timing
from autotuner.errors import UsageError
from autotuner.space.table import Config
from autotuner.store.rows import NewRun
from autotuner.store.store import Store

EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[red]x[/red][link=http://x]y[/link]:boom:"
SHOWN = "[red]x[/red][link=http://x]y[/link]:boom:"
FORBIDDEN = "\x1b\x07\x9b\u202e"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def autotune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "400")

    def run(*words: object) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr("sys.argv", ["autotune", *map(str, words)])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return subprocess.CompletedProcess([*map(str, words)], int(end.value.code or 0), out, err)

    return run


def hold(done: subprocess.CompletedProcess[str], *, code: int = 0) -> None:
    assert done.returncode == code, done.stderr
    assert not set(FORBIDDEN) & set(done.stdout + done.stderr)


def test_a_database_of_a_strangers_is_listed_as_text(autotune: Run, tmp_path: Path) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        problem = {"op": EVIL, "name": f"{EVIL}\nverdict win"}
        run = store.start_run(NewRun("single", "k", [EVIL], problem, EVIL, EVIL, 0))
        row = store.add_candidate(run, ordinal=1, config=Config.of({EVIL: EVIL}), kind="codegen", route=EVIL)
        store.record_timing(row, Timing((10.0,)), phase="screen", block=0)
        other = store.add_candidate(run, ordinal=2, config=Config(()), kind="codegen", route=EVIL)
        store.record_failure(other, EVIL, stderr=EVIL)
        store.finish_run(run, "finished", result={"verdict": EVIL, "spec": EVIL})
    for words in (("history",), ("history", run), ("history", "--json"), ("export", "--json"), ("export", "--csv")):
        done = autotune(*words)
        hold(done)
        assert SHOWN in done.stdout.replace("\\u001b", "")
    listed = autotune("history").stdout
    assert "\nverdict win" not in listed


def test_a_log_and_a_list_of_shapes_are_reported_as_text(autotune: Run, tmp_path: Path) -> None:
    log = tmp_path / "evil.log"
    log.write_text(
        f"- {{function: matmul, M: 1, N: 1, K: {EVIL}}}\n"
        f"- {{function: '{EVIL}', M: 1}}\n"
        "- {function: matmul, M: 64, N: 32, K: 16, transA: N, transB: N, a_type: f16_r, b_type: f16_r, d_type: f16_r, "
        "compute_type: c_f32_r}\n"
    )
    done = autotune("suite", log, "--list")
    hold(done)
    assert "[red]x[/red]" in done.stderr
    shapes = tmp_path / "evil.csv"
    shapes.write_text(f"op,shape\n{EVIL},4x4x4\n")
    hold(autotune("suite", shapes, "--list"), code=2)


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


def test_plain_output_has_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    emit(f"a\tb\n{EVIL}")
    out = capsys.readouterr().out
    assert out.startswith("a\tb\n")
    assert not set(FORBIDDEN) & set(out)
