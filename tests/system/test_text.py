"""What comes from elsewhere is shown as text: short, on its line, without a way to steer a terminal."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.system.text import cells, clean, count, nesting, printable, short, times
from autotuner.tuning.printer import Printer

ESCAPES = "\x1b[31mred\x07\x9b2J\u202egnp.exe\u2066\r\x00"


def test_control_characters_become_spaces() -> None:
    assert printable(f"a{ESCAPES}b") == "a [31mred  2J gnp.exe   b"
    assert clean("a\tb\nc\x1b\x85\u2028") == "a\tb\nc   "


def test_numbers_are_written_as_people_read_them() -> None:
    assert [count(1, "entry"), count(2, "entry"), count(2, "dispatch")] == ["1 entry", "2 entries", "2 dispatches"]
    assert [times(0), times(1), times(2)] == ["0 times", "once", "2 times"]


@given(st.text())
def test_nothing_unprintable_is_left(text: str) -> None:
    assert printable(text).isprintable()
    assert clean(text).replace("\n", "").replace("\t", "").isprintable()
    assert short(text).isprintable()


@pytest.mark.parametrize("value", ["x" * 10_000_000, list(range(10**6)), {1: 2}, 10**4000, "it's", 'a"b', None, 1.5])
def test_a_value_in_a_message_is_short(value: object) -> None:
    assert len(short(value)) < 130


def test_a_value_that_stands_for_gigabytes_is_not_written_out() -> None:
    bomb: list[object] = ["x"]
    for _ in range(40):
        bomb = [bomb] * 9
    started = time.process_time()
    assert short(bomb) == "a list of 9"
    assert time.process_time() - started < 1


def test_nesting_is_counted_without_a_stack() -> None:
    assert nesting("a (b [c {d} e] f) (g)") == 3
    assert nesting("{" * 10**6) == 10**6
    assert nesting("") == 0
    assert nesting("tuple<tuple<() -> i1>>, #set<(d0) : (d0 >= 0, d0 <= 4)>") == 3
    assert nesting('( // )\n( ")" (') == 3, "comments and texts close nothing"
    assert nesting("- - \n---d0 - 1") == 5
    assert nesting(f"(d0) -> (d0{' floordiv 3 mod 1000' * 25_000})") == 50_000
    assert nesting("(d0 mod 2, d0 floordiv 2 mod 3, mod_of, d0 ceildiv 4)") == 2


def test_no_part_of_the_command_line_prints_past_the_console() -> None:
    """Plain `print` is for JSON and numbers of our own; what may hold text from elsewhere goes through one place."""
    allowed = (
        "print(json.dumps(",
        "print(clean(",
        'print(f"autotune {__version__}")',
        'print(f"bucket ',
        'print(f"\\nthe run',
    )
    for path in sorted((Path(__file__).parents[2] / "autotuner").rglob("*.py")):
        for line in path.read_text().splitlines():
            text = line.strip()
            if text.startswith("print("):
                assert text.startswith(allowed) or path.name in ("__init__.py", "worker.py"), f"{path}: {text}"
            # The printer's own is only captured, and what it says is cleaned.
            consoles = (
                "class _Clean(Console)",
                "return _Clean(",
                "console = Console(color_system=None, force_terminal=False",
            )
            assert "Console(" not in text or text.startswith(consoles), f"{path}: {text}"


def test_a_result_that_is_printed_can_steer_no_terminal() -> None:
    printer = Printer()
    printer.line("note", "red \x1b[31m and a bell \x07")
    assert "\x1b" not in printer.text()
    assert "\x07" not in printer.text()


@pytest.mark.parametrize("text", ["=1+1", "+A1", "-2+3", "@SUM(A1)", "=cmd|' /C calc'!A0", "\t=1", "\r=1", "-1e5+A1"])
def test_what_a_spreadsheet_would_compute_is_text_in_csv(text: str) -> None:
    (cell,) = cells([text])
    assert cell == f"'{text}"


@pytest.mark.parametrize("value", ["gemm", "", "'quoted'", "-1.5", "+3", "-2e-3", -1.5, -1, None, True])
def test_other_cells_stay_and_numbers_stay_numbers(value: object) -> None:
    assert cells([value]) == [value]
