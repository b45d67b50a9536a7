"""Long computations that look at the clock."""

from __future__ import annotations

import pytest

from autotuner.errors import OutOfTimeError
from autotuner.system import process
from autotuner.system.parts import in_parts, part


def test_what_is_cut_off_says_how_much_of_all_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    left = iter([1.0, 1.0, 1.0, 0.0])
    monkeypatch.setattr(process, "seconds_left", lambda: next(left))
    done: list[str] = []
    with pytest.raises(OutOfTimeError) as caught, part(2, 4):
        done.extend(in_parts("abcd"))
    assert done == ["a", "b"]
    assert caught.value.done == 0.625


def test_nothing_is_begun_where_the_time_is_up() -> None:
    with process.until(0.0):
        with pytest.raises(OutOfTimeError), part(0, 1):
            pytest.fail("begun")
        with pytest.raises(OutOfTimeError):
            next(in_parts([1]))
