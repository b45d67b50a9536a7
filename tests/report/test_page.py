"""The frame of all pages: what strangers wrote stays text, only the frame's scripts may run, nothing is asked for."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from typing import Any

import pytest

from autotuner.report.charts import Mark, Plot, Point, Scale, forest
from autotuner.report.page import Section, View, render
from autotuner.report.tables import Field, Table

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&"


@pytest.fixture(scope="module")
def hostile() -> str:
    """A page of which every part holds what would run if it were markup."""
    columns = [Field("a"), Field("b", kind="badge"), Field("c", kind="code"), Field("d", link="#run-")]
    rows = Table(HOSTILE, columns, [[HOSTILE] * 4] * 60)
    rows_of = forest(HOSTILE, [Mark(HOSTILE, 2.0, 1.0, 3.0, HOSTILE, HOSTILE, HOSTILE)], note=HOSTILE)
    scale, point = Scale(0.0, 2.0), Point(1.0, 1.0, HOSTILE, HOSTILE, HOSTILE)
    legend = {HOSTILE: HOSTILE}
    plot = Plot(HOSTILE, scale, scale, [point], [(0.0, 1.0)], (HOSTILE, HOSTILE), HOSTILE, legend, [(0.0, HOSTILE)])
    pair = ((HOSTILE, HOSTILE),)
    told: Any = {"words": (HOSTILE,), "facts": pair}
    section = Section("s", HOSTILE, charts=(rows_of, plot), tables=(rows,), folded=(rows,), blocks=pair, **told)
    view = View("v", HOSTILE, HOSTILE, "good", HOSTILE, commands=pair, notes=(HOSTILE,), sections=(section,), **told)
    return render([view], title=HOSTILE, overview=rows, left_out=[HOSTILE])


def scripts(text: str) -> list[str]:
    """As a browser cuts them: the first `</script` ends one."""
    return re.findall(r"<script>(.*?)</script", text, re.S)


def test_what_strangers_wrote_is_text_in_every_part(hostile: str) -> None:
    own = scripts(hostile)
    assert len(own) == 1  # page.js
    rest = hostile
    for script in own:
        rest = rest.replace(script, "")
    assert "<img" not in rest
    assert "alert('x')" not in rest
    assert html.escape("<img src=x onerror=alert(1)>") in rest


def test_rows_beyond_the_first_are_data_that_reads_back(hostile: str) -> None:
    data = re.findall(r'<script type="application/json">(.*?)</script', hostile, re.S)
    assert [json.loads(text) for text in data] == [[[HOSTILE] * 4] * 10] * 3


def test_only_the_scripts_of_the_frame_may_run_and_nothing_is_asked_for(hostile: str) -> None:
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', hostile)
    assert found is not None
    rules = dict(rule.split(" ", 1) for rule in html.unescape(found[1]).split("; "))
    digests = {f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts(hostile)}
    assert set(rules["script-src"].split()) == digests
    assert (rules["default-src"], rules["connect-src"], rules["img-src"]) == ("'none'", "'none'", "data:")


@pytest.mark.parametrize(
    ("scale", "ticks"),
    [
        (Scale(0.0, 100.0), ["0", "20", "40", "60", "80", "100"]),
        (Scale(0.9, 1.3, log=True), ["0.9", "1", "1.1", "1.2", "1.3"]),
        (Scale(3.0, 450.0, log=True), ["10", "100"]),
        (Scale(2.0, 21.0, log=True), ["2", "5", "10", "20"]),
        (Scale.over([5.0]), ["4.8", "4.9", "5", "5.1", "5.2"]),
    ],
)
def test_an_axis_has_round_numbers(scale: Scale, ticks: list[str]) -> None:
    assert [name for _, name in scale.ticks] == ticks
    assert all(0 <= at <= 100 for at, _ in scale.ticks)
