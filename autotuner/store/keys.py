"""Which runs are the same run, so that --resume finds them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from autotuner.store.rows import Json


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
