"""Names that become part of a path: whoever chose them, they are names and lead nowhere else."""

from __future__ import annotations

import re

from autotuner.errors import UsageError
from autotuner.system.text import short

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+$-]{0,199}")
_LONGEST = 200
RULE = "Use letters, digits, . _ + $ and -, up to 200 of them, no two dots in a row."


def is_name(text: str) -> bool:
    """A file or a folder may be called so, in whichever folder."""
    return _NAME.fullmatch(text) is not None and ".." not in text


def is_component(text: str) -> bool:
    """What a program calls its functions and dispatches may be odd, but it is one part of a path and stays there."""
    return text.isprintable() and "/" not in text and not text.startswith(".") and 0 < len(text) <= _LONGEST


def checked_name(text: str, *, what: str) -> str:
    """The text, if it can name a file; `what` is what the error calls it."""
    if not is_name(text):
        raise UsageError(f"{short(text)} cannot name {what}.", remedy=RULE)
    return text
