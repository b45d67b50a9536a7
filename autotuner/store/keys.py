"""Which runs are the same run, so that --resume finds them, and whose they are."""

from __future__ import annotations

import hashlib
import json
import platform
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from autotuner.errors import StorageError
from autotuner.store.rows import Json

_WORKSPACE = re.compile("[0-9a-f]{32}")


def run_key(*, problem: Json, target: str, flags: Sequence[str], reads: Sequence[str]) -> str:
    """The same for runs that ask the same question of the same programs and files.

    `reads` are the digests of what is not in the question's words. They are the key's second half: of a run that
    differs only there it can be said why it is not continued.
    """
    question = json.dumps([problem, target, list(flags)], sort_keys=True)
    return "-".join(hashlib.sha256(text.encode()).hexdigest()[:16] for text in (question, json.dumps(list(reads))))


def question_of(key: str) -> str:
    """The half of a key that says what is asked."""
    return key.partition("-")[0]


def home_of(workspace: Path, *, create: bool) -> str:
    """A workspace's name in a database that it shares. Two machines may have one name and the same path, as containers
    do: a number in the workspace tells them apart, so neither goes on with the other's run."""
    path = workspace.resolve()
    return f"{platform.node()}:{path}:{_number(path / 'results' / '.autotune-workspace', create=create)}"


def _number(file: Path, *, create: bool) -> str:
    with suppress(OSError, ValueError):
        found = file.read_text(encoding="ascii").strip()
        if _WORKSPACE.fullmatch(found):
            return found
    if not create:
        return ""
    number = secrets.token_hex(16)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(number + "\n", encoding="ascii")
    except OSError as error:
        remedy = "Check that you may write there, or choose another --workspace."
        raise StorageError(f"{file} cannot be written ({error.strerror}).", remedy=remedy) from error
    return number
