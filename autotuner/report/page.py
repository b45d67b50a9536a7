"""One file that opens by itself, in light and dark, without asking anything of a network: what every page is made of.

A page is one `View` or several: what was found, in a summary, and sections of words, facts, charts and tables.

- `Table`: can be sorted and, where it is long, filtered and turned by pages. Cells are text; those of a column of kind
  `number` are sorted by the number that they begin with, so a column has one unit.
- `Chart`: a figure of plotly as plain data, drawn when it is seen. A colour that begins with `@` is one of style.css's
  (`@c1` to `@c8`, `@ink`, `@muted`, `@line`, `@accent`, `@good`, `@warn`, `@bad`). Text in it
  goes through `plain`. Without the extra [report] a page has no charts.

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
from typing import Any

import jinja2
from markupsafe import Markup

from autotuner._version import __version__
from autotuner.report.tables import TONES, Table, Tone, tone
from autotuner.system.files import begins
from autotuner.system.settings import packaged

OUR_PAGE = begins(
    rb'<!doctype html>\n<html lang="en">\n<head>\n(<meta [^\n]+>\n){5}'
    rb'<meta name="generator" content="autotune \d[^\n"]*">\n'
)
"""Is a file a page that autotune made? By the frame's own beginning."""
NO_CHARTS = "Charts need plotly: pip install plotly"


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure of plotly: {"data": […], "layout": {…}}, with what it shows in words."""

    title: str
    figure: Mapping[str, Any]
    note: str = ""
    height: int = 320


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands under it."""

    slug: str
    title: str
    words: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    """Side by side where there is room."""
    tables: tuple[Table, ...] = ()
    blocks: tuple[tuple[str, str], ...] = ()
    """A heading and text as it came."""
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class View:
    """What a page tells of one thing, a run or a night: its summary and its sections."""

    anchor: str
    title: str
    verdict: str
    tone: Tone
    headline: str = ""
    """Beside the verdict."""
    words: tuple[str, ...] = ()
    """Under it."""
    facts: tuple[tuple[str, str], ...] = ()
    commands: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()


def plain(text: str) -> str:
    """Text for a figure: plotly takes some marks of HTML, and these are none."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render(
    views: Sequence[View],
    *,
    title: str = "",
    overview: Table | None = None,
    left_out: Sequence[str] = (),
) -> str:
    """A page of one thing, or of several below an overview, with what is left out."""
    drawn = any(section.charts for view in views for section in view.sections)
    plotly, script = _plotly() if drawn else "", _script()
    return _template().render(
        title=title or views[0].title,
        views=views,
        overview=overview,
        left_out=left_out,
        no_charts=NO_CHARTS if drawn and not plotly else "",
        version=__version__,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        style=Markup(_read("style.css")),
        plotly=Markup(plotly),
        script=Markup(script),
        policy=policy([one for one in (plotly, script) if one]),
    )


def policy(scripts: Sequence[str]) -> str:
    """Only these scripts run, and nothing is asked for."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    known = " ".join(f"'sha256-{digest}'" for digest in digests)
    rules = [
        "default-src 'none'",
        f"script-src {known}",
        "style-src 'unsafe-inline'",
        "img-src data:",
        "connect-src 'none'",
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
    """What draws charts; a page says the same in tables where it is not installed."""
    try:
        from plotly.offline import get_plotlyjs  # takes 0.3 s, and only charts need it
    except ImportError:
        return ""
    script: str = get_plotlyjs()
    return script.replace("\r\n", "\n")  # as a browser reads it, or the digest would be another's


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(packaged("templates")),
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tone"] = tone
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "ensure_ascii": False, "allow_nan": False}
    return environment.get_template("report/page.html.j2")
