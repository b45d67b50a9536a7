"""What a history comes to: alarms on the night they are certain, the golden set, the exit code, the page."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from autotuner.jobs.nightly.plan import Part, Plan
from autotuner.jobs.nightly.run import Entry
from autotuner.report.nightly import look_at, page
from autotuner.store.figures import Failure, Figure

CHIP = "chip <img src=x onerror=alert(1)>"


def a_plan(folder: Path, *, golden: str | None = None) -> Plan:
    parts = (Part("suite", ("suite", "unet"), 60.0),)
    return Plan(folder / "n.toml", "n", folder, golden, folder / "n.html", parts)


def entries(*, count: int, step_at: int | None = None, kernels: int = 3, step: float = 1.05) -> list[Entry]:
    """Nights of a few kernels; the first of them becomes slower at `step_at`, with another IREE."""
    generator = random.Random(0)
    found = []
    for night in range(count):
        late = step_at is not None and night >= step_at
        figures = []
        for kernel in range(kernels):
            us = 10.0 * (kernel + 1) * (1 + generator.gauss(0, 0.002)) * (step if late and kernel == 0 else 1)
            plain = Figure(
                f"p{kernel}", "sm_80", "default", us, us * 0.999, us * 1.001, 0.0, 9, "sustained", "warm", CHIP
            )
            figures += [plain, replace(plain, us=3 * us, low=None, high=None, cache="cold")]
        environment = {"iree": "3.13.1" if late else "3.13.0", "driver": "1"}
        when = (date(2026, 1, 1) + timedelta(days=night)).isoformat()
        more: dict[str, Any] = {"figures": tuple(figures), "environment": environment}
        found.append(Entry(when, "suite", "finished", "", ("suite", "unet"), f"r{night}", **more))
    return found


def test_what_is_slower_than_in_the_last_nights_is_an_alarm_once(tmp_path: Path) -> None:
    whole = entries(count=14, step_at=10)
    told = {night: found for night in range(2, 15) if (found := look_at(a_plan(tmp_path), whole[:night])).alarms}
    assert [*told] == [11], "and with the new level among the last nights it is told no more"
    found = told[11]
    (alarm,) = found.to_json()["alarms"]
    assert (alarm["series"], alarm["than"]) == ("p0 default on sm_80", "the last nights")
    assert (alarm["iree_before"], alarm["iree"]) == ("3.13.0", "3.13.1")
    assert alarm["size"] == pytest.approx(0.05, abs=0.01)
    assert found.exit_code == 6
    assert found.verdict.startswith("1 alarm; against the last nights: regression: 1 regression")
    assert look_at(a_plan(tmp_path), whole).exit_code == 0


def test_a_new_kernel_is_compared_once_a_few_nights_are_known(tmp_path: Path) -> None:
    for night in (1, 2, 3):
        found = look_at(a_plan(tmp_path), entries(count=night + 1, step_at=night, step=2.0))
        assert bool(found.alarms) == (night == 3)


@pytest.mark.parametrize("step_at", [None, 30])
def test_nights_without_a_change_and_faster_ones_have_no_alarm(step_at: int | None, tmp_path: Path) -> None:
    found = look_at(a_plan(tmp_path), entries(count=31, step_at=step_at, step=0.9))
    assert (found.alarms, found.exit_code) == ([], 0)
    assert found.trends[0].change == pytest.approx(0.9 if step_at else 1.0, abs=0.01)


def test_the_page_has_every_section_and_strangers_text_is_text(tmp_path: Path) -> None:
    whole = entries(count=31, step_at=30)
    bad = Failure("p9", "sm_80", "<b>crash</b>", "r", "2026")
    whole[-1] = replace(whole[-1], failures=(bad,))
    text = page(look_at(a_plan(tmp_path), whole))
    for section in ("summary", "parts", "compared", "trends", "environment"):
        assert f'id="night-{section}"' in text
    assert "slower than the last nights (IREE 3.13.0 → 3.13.1)" in text
    outside = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert "<img src=x" not in outside
    assert "<b>crash</b>" not in outside
    assert "3.13.1" in outside


def test_a_golden_set_that_is_not_there_is_told_and_an_exit_code(tmp_path: Path) -> None:
    nothing = look_at(a_plan(tmp_path), [Entry("2026-01-01", "suite", "begun", "")])
    assert (nothing.exit_code, "no night yet" in page(nothing)) == (0, True)
    found = look_at(a_plan(tmp_path, golden="nothing.json"), entries(count=3))
    assert not found.compared.compared
    assert (found.exit_code, len(found.notes)) == (2, 1)
    assert "nothing.json" in page(found)


def test_a_part_that_failed_tonight_is_the_exit_code(tmp_path: Path) -> None:
    whole = entries(count=3)
    failed = replace(whole[-1], status="failed", exit_code=5, figures=(), reason="no device")
    found = look_at(a_plan(tmp_path), [*whole[:-1], failed])
    assert found.exit_code == 5
    without = replace(a_plan(tmp_path), parts=(Part("another", ("suite", "another"), 60.0),))
    assert look_at(without, [*whole[:-1], failed]).exit_code == 0, "it is not in the file any more"
    assert found.to_json()["parts"][0]["reason"] == "no device"
