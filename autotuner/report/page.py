"""The parts of every page: one file, in light and dark, that needs no network.

A page is one `View` or several: what was found, in a summary, and sections of words, facts, charts and tables.

- `Table`: can be sorted and, where it is long, filtered and turned by pages. Cells are text; those of a column of kind
  `number` are sorted by the number that they begin with, so a column has one unit.
- `Chart`: rows of marks, or points and a line, of the page's own elements; its marks lead to what they are of.

Everything that a template is given is escaped. Only the frame's own script runs: the page's policy has its digest.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

import jinja2
from markupsafe import Markup

from autotuner._version import __version__
from autotuner.report.charts import Chart
from autotuner.report.tables import TONES, Table, Tone, tone
from autotuner.system.files import begins
from autotuner.system.settings import packaged

OUR_PAGE = begins(
    rb'<!doctype html>\n<html lang="en">\n<head>\n(<meta [^\n]+>\n){5}'
    rb'<meta name="generator" content="autotune \d[^\n"]*">\n'
)
"""Is a file a page that autotune made? By the frame's own beginning."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands under it."""

    slug: str
    title: str
    words: tuple[str, ...] = ()
    charts: tuple[Chart, ...] = ()
    """Side by side where there is room."""
    tables: tuple[Table, ...] = ()
    folded: tuple[Table, ...] = ()
    """Folded away: tables without changes."""
    blocks: tuple[tuple[str, str], ...] = ()
    """A heading and text as it came."""
    facts: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        """Is there anything under the heading?"""
        rows = any(table.rows for table in (*self.tables, *self.folded))
        return rows or any((self.charts, self.blocks, self.facts))


@dataclass(frozen=True, slots=True)
class View:
    """One article of a page, a run or a night: its summary and its sections."""

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


def render(
    views: Sequence[View],
    *,
    title: str = "",
    overview: Table | None = None,
    left_out: Sequence[str] = (),
    lead: bool = True,
) -> str:
    """A page of one thing, or of several with an overview and what is left out; `lead`: the first stands before it."""
    script = _script()
    return _template().render(
        title=title or views[0].title,
        views=views,
        overview=overview,
        left_out=left_out,
        lead=lead,
        version=__version__,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        style=Markup(_read("style.css")),
        script=Markup(script),
        policy=policy(script),
    )


def policy(script: str) -> str:
    """Content policy: only this script runs, and nothing is loaded."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rules = [
        "default-src 'none'",
        f"script-src 'sha256-{digest}'",
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
