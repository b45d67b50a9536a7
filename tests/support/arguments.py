"""A problem from the words of the command line that it gives itself."""

from __future__ import annotations

from collections.abc import Sequence

from autotuner.problems import Operation
from autotuner.problems.operations import OPERATIONS


def parse_arguments(words: Sequence[str]) -> Operation:
    op, *rest = words
    options: dict[str, str] = {}
    for word, value in zip(rest, [*rest[1:], "--"], strict=True):
        if word.startswith("--"):
            options[word.removeprefix("--")] = "true" if value.startswith("--") else value
    allowed = options.pop("allow-precision", None)
    return OPERATIONS[op].from_words(options).allowing(allowed)
