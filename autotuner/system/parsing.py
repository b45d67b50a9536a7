"""Python's own parser, which is not safe in threads everywhere."""

from __future__ import annotations

from threading import Lock

PARSING = Lock()
"""Held while `ast` parses, as numpy's `load` does: CPython 3.11 may raise SystemError where two threads do at once."""
