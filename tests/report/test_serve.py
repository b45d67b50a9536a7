"""The server of a page: for this machine only, and never a page older than what is stored."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from autotuner.errors import EnvironmentFailure, StorageError
from autotuner.report.page import ADDRESS, Server
from tests.support.patience import ENOUGH


class Source:
    """A state, and how often a page of it was made."""

    def __init__(self) -> None:
        self.now = "1"
        self.made: list[str] = []

    def state(self) -> str:
        return self.now

    def page(self, state: str) -> str:
        if state == "broken":
            raise StorageError("the disk is gone", remedy="Look for it.")
        self.made.append(state)
        return f"<p>{state}</p>"


@contextmanager
def serving(source: Source) -> Iterator[Server]:
    with Server(port=0, state=source.state, page=source.page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ask(server: Server, path: str = "/", *, method: str = "GET", host: str = "") -> tuple[int, str]:
    connection = http.client.HTTPConnection(ADDRESS, server.server_port, timeout=ENOUGH)
    connection.request(method, path, headers={"Host": host} if host else {})
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def test_a_page_is_made_once_for_each_state() -> None:
    source = Source()
    with serving(source) as server:
        assert [ask(server), ask(server), ask(server, "/state")] == [(200, "<p>1</p>")] * 2 + [(200, "1")]
        source.now = "2"
        assert ask(server) == (200, "<p>2</p>")
    assert source.made == ["1", "2"]


def test_only_this_machine_is_listened_to() -> None:
    with serving(Source()) as server:
        assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "["])
def test_another_name_for_this_address_is_refused(host: str) -> None:
    with serving(Source()) as server:
        assert ask(server, host=host)[0] == 403


def test_nothing_else_is_served() -> None:
    with serving(Source()) as server:
        assert ask(server, "/../../etc/passwd")[0] == 404
        assert ask(server, method="POST")[0] == 501
        assert ask(server, host=f"localhost:{server.server_port}")[0] == 200


def test_an_error_is_told_and_the_server_goes_on() -> None:
    source = Source()
    with serving(source) as server:
        source.now = "broken"
        assert ask(server) == (503, "the disk is gone. Look for it.")
        source.now = "3"
        assert ask(server)[0] == 200


def test_a_port_that_is_taken_is_an_error_with_a_remedy() -> None:
    with (
        serving(Source()) as server,
        pytest.raises(EnvironmentFailure, match="Give another --port"),
    ):
        Server(port=server.server_port, state=str, page=str)
