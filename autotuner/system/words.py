"""The words of the command that runs, as results and files may repeat them: without passwords."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

_LOGIN = re.compile(r"(://[^:/@]*):.*@")
"""Up to the last @: a password that should have been %-encoded is not shown either."""
_STORAGE = "--storage"
_QUERY = frozenset({"application_name", "connect_timeout", "dbname", "host", "options", "port", "sslmode", "timeout"})
"""What of a database URL's options is repeated. Any other may be a secret."""


def given_command() -> tuple[str, ...]:
    """What was typed. A URL is still one that works where ~/.pgpass has the password."""
    return without_passwords(sys.argv)


def without_passwords(words: Sequence[str]) -> tuple[str, ...]:
    before = ("", *words)
    return tuple(
        _plain(word, storage=option == _STORAGE or word.startswith(f"{_STORAGE}="))
        for option, word in zip(before, words, strict=False)
    )


def _plain(word: str, *, storage: bool) -> str:
    word = _LOGIN.sub(r"\1@", word)
    url, mark, query = word.partition("?") if storage else (word, "", "")
    kept = [part for part in query.split("&") if part.partition("=")[0] in _QUERY]
    return url + (mark + "&".join(kept) if kept else "")
