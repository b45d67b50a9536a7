"""The frame of all pages: what strangers wrote stays text, only the frame's scripts may run, nothing is asked for."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
from typing import Any

import pytest

from autotuner.report import page
from autotuner.report.page import Chart, Section, View, plain, render
from autotuner.report.tables import Field, Table

HOSTILE = "</script><script>alert('x')</script><img src=x onerror=alert(1)>\"'&"


@pytest.fixture(scope="module")
def hostile() -> str:
    """A page of which every part holds what would run if it were markup."""
    columns = [Field("a"), Field("b", kind="badge"), Field("c", kind="code"), Field("d", link="#run-")]
    rows = Table(HOSTILE, columns, [[HOSTILE] * 4] * 60)
    figure = Chart(HOSTILE, {"data": [{"x": [1], "text": [HOSTILE]}], "layout": {}}, note=HOSTILE)
    pair = ((HOSTILE, HOSTILE),)
    told: Any = {"words": (HOSTILE,), "facts": pair}
    section = Section("s", HOSTILE, charts=(figure,), tables=(rows,), blocks=pair, **told)
    view = View("v", HOSTILE, HOSTILE, "good", HOSTILE, commands=pair, notes=(HOSTILE,), sections=(section,), **told)
    return render([view], title=HOSTILE, overview=rows, left_out=[HOSTILE])


def scripts(text: str) -> list[str]:
    """As a browser cuts them: the first `</script` ends one. Plotly's is text until a chart is seen."""
    return re.findall(r'<script(?: type="text/plain" id="plotly")?>(.*?)</script', text, re.S)


def test_what_strangers_wrote_is_text_in_every_part(hostile: str) -> None:
    own = scripts(hostile)
    assert len(own) == 2  # plotly and page.js
    rest = hostile
    for script in own:
        rest = rest.replace(script, "")
    assert "<img" not in rest
    assert "alert('x')" not in rest
    assert html.escape("<img src=x onerror=alert(1)>") in rest


def test_rows_beyond_the_first_are_data_that_reads_back(hostile: str) -> None:
    data = re.findall(r'<script type="application/json">(.*?)</script', hostile, re.S)
    overview, figure, rows = (json.loads(text) for text in data)
    assert overview == rows == [[HOSTILE] * 4] * 10
    assert figure["data"][0]["text"] == [HOSTILE]


def test_only_the_scripts_of_the_frame_may_run_and_nothing_is_asked_for(hostile: str) -> None:
    found = re.search(r'Content-Security-Policy" content="([^"]*)"', hostile)
    assert found is not None
    rules = dict(rule.split(" ", 1) for rule in html.unescape(found[1]).split("; "))
    digests = {f"'sha256-{base64.b64encode(hashlib.sha256(s.encode()).digest()).decode()}'" for s in scripts(hostile)}
    assert set(rules["script-src"].split()) == digests
    assert (rules["default-src"], rules["connect-src"], rules["img-src"]) == ("'none'", "'none'", "data:")


def test_a_figures_text_has_no_marks_of_its_own() -> None:
    assert plain("<b>&x") == "&lt;b&gt;&amp;x"


def test_without_plotly_a_page_has_no_charts_and_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "plotly.offline", None)
    page._plotly.cache_clear()
    section = Section("s", "Title", charts=(Chart("drawn", {"data": []}),))
    text = render([View("v", "title", "win", "good", sections=(section,))])
    page._plotly.cache_clear()
    assert "pip install plotly" in text
    assert "data-chart" not in text.replace(page._script(), "").replace(page._read("style.css"), "")
