"""The frame of every page: one file that opens by itself, in light and dark, without asking anything of a network.

A page is a template under templates/report/ that extends the frame and puts parts into it:

    {% extends "report/base.html.j2" %}
    {% from "report/parts.html.j2" import table, chart, facts, command %}
    {% block content %}<section aria-labelledby="rows"><h2 id="rows">Rows</h2>{{ table(rows) }}</section>{% endblock %}

and `render("report/mine.html.j2", title="…", rows=Table(…))` gives its text. The parts:

- `table(Table)`: can be sorted and, where it is long, filtered and turned by pages. Cells are text; those of a column
  of kind `number` are sorted by the number that they begin with, so a column has one unit.
- `chart(Chart)`: a figure of plotly as plain data, drawn when it is seen. A colour that begins with `@` is one of
  style.css's (`@c1` to `@c8`, `@ink`, `@muted`, `@line`, `@accent`, `@good`, `@warn`, `@bad`, `@low`, `@mid`, `@high`).
  Text in it goes through `plain`. A page with charts is rendered with `charts=True`, which wants the extra [report].
- `facts([(name, text), …])`: a few words with what they mean. `command(label, text)`: a line to copy.

Everything that a template is given is escaped. Only the frame's own scripts run: the page's policy has their digests.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.util import find_spec
from typing import Any, Literal

import jinja2
from markupsafe import Markup

from autotuner._version import __version__
from autotuner.errors import EnvironmentFailure
from autotuner.system.files import begins
from autotuner.system.settings import packaged

Kind = Literal["text", "number", "badge", "long", "code", "brief"]
"""Of a column. `badge`: a word that has a colour, a verdict say; `long`: prose; `code`: as it stands in a file;
`brief`: lines that are not broken, a date say."""
Tone = Literal["good", "warn", "bad", ""]
TONES: Mapping[str, Tone] = {
    "win": "good",
    "tuned": "good",
    "faster": "good",
    "kept": "good",
    "replaced": "good",
    "finished": "good",
    "improvement": "good",
    "no-winner": "warn",
    "inconclusive": "warn",
    "interrupted": "warn",
    "unstable": "warn",
    "unclear": "warn",
    "incomparable": "warn",
    "differs": "warn",
    "failed": "bad",
    "slower": "bad",
    "regression": "bad",
    "dropped": "bad",
    "wrong-result": "bad",
}
"""The colour of a word; others have none."""
OUR_PAGE = begins(
    rb'<!doctype html>\n<html lang="en">\n<head>\n(<meta [^\n]+>\n){5}'
    rb'<meta name="generator" content="autotune \d[^\n"]*">\n'
)
"""Is a file a page that autotune made? By the frame's own beginning."""
STATIC_ROWS = 50
"""Rows of a table that stand in the page's own text; the others are data that its script shows."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; with `link` its cells lead to `link` followed by their text."""

    title: str
    kind: Kind = "text"
    link: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells, each as it is shown."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]

    @property
    def first(self) -> Sequence[Sequence[str]]:
        return self.rows[:STATIC_ROWS]

    @property
    def rest(self) -> Sequence[Sequence[str]]:
        return self.rows[STATIC_ROWS:]


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure of plotly: {"data": […], "layout": {…}}, with what it shows in words."""

    title: str
    figure: Mapping[str, Any]
    note: str = ""
    height: int = 320
    width: int = 0
    """At least; where there is less room, it is scrolled."""


def tone(word: str) -> Tone:
    return TONES.get(word, "")


def plain(text: str) -> str:
    """Text for a figure: plotly takes some marks of HTML, and these are none."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render(template: str, *, title: str, charts: bool = False, live: str = "", **values: object) -> str:
    """A page. `live` is the state that it shows: the page of a server looks for another one."""
    plotly, script = _plotly() if charts else "", _script()
    return (
        _environment()
        .get_template(template)
        .render(
            title=title,
            live=live,
            version=__version__,
            made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
            style=Markup(_read("style.css")),
            plotly=Markup(plotly),
            script=Markup(script),
            policy=policy([one for one in (plotly, script) if one], live=bool(live)),
            **values,
        )
    )


def policy(scripts: Sequence[str], *, live: bool) -> str:
    """Only these scripts run, and nothing is asked for; the page of a server may ask that server."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    known = " ".join(f"'sha256-{digest}'" for digest in digests)
    asked = "'self'" if live else "'none'"
    rules = [
        "default-src 'none'",
        f"script-src {known}",
        "style-src 'unsafe-inline'",
        "img-src data:",
        f"connect-src {asked}",
        "form-action 'none'",
        "base-uri 'none'",
    ]
    return "; ".join(rules)


def _script() -> str:
    return _read("page.js").replace("/*tones*/{}", json.dumps(TONES))


@cache
def _read(name: str) -> str:
    return (packaged("templates") / "report" / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs  # takes 0.3 s, and only charts need it
    except ImportError as error:
        remedy = 'Run: pip install "autotune-iree[report]"'
        raise EnvironmentFailure("charts need the plotly package.", remedy=remedy) from error
    script: str = get_plotlyjs()
    return script.replace("\r\n", "\n")  # as a browser reads it, or the digest would be another's


def has_charts() -> bool:
    """Whether what draws charts is installed: a page that says the same in tables is made without."""
    return find_spec("plotly") is not None


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(packaged("templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tone"] = tone
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}
    return environment
