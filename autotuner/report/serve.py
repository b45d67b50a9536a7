"""A page that follows a run: made anew for whoever asks on this machine, when there is something new to show."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from urllib.parse import urlsplit

from autotuner.errors import AutotuneError, EnvironmentFailure

ADDRESS = "127.0.0.1"
"""No other machine is served: results have paths, names and commands in them."""
_HOSTS = (ADDRESS, "localhost")


class Server(ThreadingHTTPServer):
    """Gives `/`, the page, and `/state`, what it shows in a word."""

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
