"""One file that opens by itself, in light and dark, without asking anything of a network: what every page is made of.

A page is one `View` or several: what was found, in a summary, and sections of words, facts, charts and tables.

- `Table`: can be sorted and, where it is long, filtered and turned by pages. Cells are text; those of a column of kind
  `number` are sorted by the number that they begin with, so a column has one unit.
- `Chart`: a figure of plotly as plain data, drawn when it is seen. A colour that begins with `@` is one of style.css's
  (`@c1` to `@c8`, `@ink`, `@muted`, `@line`, `@accent`, `@good`, `@warn`, `@bad`, `@low`, `@mid`, `@high`). Text in it
  goes through `plain`. A page with charts wants the extra [report].

Everything that a template is given is escaped. Only the frame's own scripts run: the page's policy has their digests.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

import jinja2
from markupsafe import Markup

from autotuner._version import __version__
from autotuner.errors import AutotuneError, EnvironmentFailure
from autotuner.report.tables import TONES, Table, Tone, tone
from autotuner.system.files import begins
from autotuner.system.settings import packaged

ADDRESS = "127.0.0.1"
"""No other machine is served: results have paths, names and commands in them."""
_HOSTS = (ADDRESS, "localhost")
OUR_PAGE = begins(
    rb'<!doctype html>\n<html lang="en">\n<head>\n(<meta [^\n]+>\n){5}'
    rb'<meta name="generator" content="autotune \d[^\n"]*">\n'
)
"""Is a file a page that autotune made? By the frame's own beginning."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure of plotly: {"data": […], "layout": {…}}, with what it shows in words."""

    title: str
    figure: Mapping[str, Any]
    note: str = ""
    height: int = 320
    width: int = 0
    """At least; where there is less room, it is scrolled."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with what stands under it; `words` alone where there is nothing to show."""

    slug: str
    title: str
    words: tuple[str, ...] = ()
    wide: tuple[Chart, ...] = ()
    """Charts over the whole width."""
    charts: tuple[Chart, ...] = ()
    """Side by side where there is room."""
    tables: tuple[Table, ...] = ()
    blocks: tuple[tuple[str, str], ...] = ()
    """A heading and text as it came."""
    facts: tuple[tuple[str, str], ...] = ()

    @property
    def figures(self) -> tuple[Chart, ...]:
        return (*self.wide, *self.charts)


@dataclass(frozen=True, slots=True)
class View:
    """What a page tells of one thing: a run, a comparison, a night. Its summary, its sections, and its parts folded."""

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
    parts: tuple[View, ...] = ()

    @property
    def figures(self) -> Iterator[Chart]:
        for section in self.sections:
            yield from (*section.wide, *section.charts)
        for part in self.parts:
            yield from part.figures


def plain(text: str) -> str:
    """Text for a figure: plotly takes some marks of HTML, and these are none."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def render(
    views: Sequence[View],
    *,
    title: str = "",
    live: str = "",
    overview: Table | None = None,
    left_out: Sequence[str] = (),
) -> str:
    """A page of one thing, or of several below an overview, with what is left out.

    `live` is the state that it shows: the page of a server looks for another one.
    """
    plotly, script = _plotly() if any(True for view in views for _ in view.figures) else "", _script()
    return _template().render(
        title=title or views[0].title,
        views=views,
        overview=overview,
        left_out=left_out,
        live=live,
        version=__version__,
        made=f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        style=Markup(_read("style.css")),
        plotly=Markup(plotly),
        script=Markup(script),
        policy=policy([one for one in (plotly, script) if one], live=bool(live)),
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


# --- a page that follows a run ---------------------------------------------------------------------------------------


class Server(ThreadingHTTPServer):
    """Gives `/`, the page, and `/state`, what it shows in a word: a page is made anew for whoever asks on this machine,
    when there is something new to show."""

    daemon_threads = True

    def __init__(self, *, port: int, state: Callable[[], str], page: Callable[[str], str]) -> None:
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "there is no such port"
            raise EnvironmentFailure(f"port {port} cannot be used: {reason}.", remedy="Give another --port.") from error
        self.state = state
        self._make = page
        self._made = ("", "")
        self._lock = Lock()

    @property
    def address(self) -> str:
        return f"http://{ADDRESS}:{self.server_port}/"

    def page(self) -> str:
        """The page of the present state; it is not made twice."""
        with self._lock:
            state = self.state()
            if self._made[0] != state:
                self._made = (state, self._make(state))
            return self._made[1]


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        answers: dict[str, tuple[Callable[[], str], str]] = {
            "/": (self.server.page, "text/html"),
            "/state": (self.server.state, "text/plain"),
        }
        # A page of another site may have a name of its own for this address.
        if self.headers.get("Host", "").partition(":")[0] not in _HOSTS:
            return self._answer(HTTPStatus.FORBIDDEN, "This page is for this machine only.")
        known = answers.get(urlsplit(self.path).path)
        if known is None:
            return self._answer(HTTPStatus.NOT_FOUND, "There is nothing here.")
        make, kind = known
        try:
            text = make()
        except AutotuneError as error:
            return self._answer(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        return self._answer(HTTPStatus.OK, text, kind=kind)

    def _answer(self, status: HTTPStatus, text: str, *, kind: str = "text/plain") -> None:
        body = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """A browser asks every two seconds: nobody wants to read that."""
