"""From the words of `--shape` and its kin to a problem, for commands that take one of any operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotuner.cli.commands.operations import COMMANDS, default_dtype, words_of
from autotuner.cli.request import Request
from autotuner.errors import UsageError
from autotuner.microkernels.library import find, search_folders
from autotuner.problems import Problem

_ATTENTION_SIZES = 5
"""Sizes of its --shape; a product has three, a convolution a --filter."""


def named_problem(given: Mapping[str, Any], request: Request, *, kernel: str | None = None) -> Problem | None:
    """The problem that the words give: of the microkernel's operation, else by their form; None without --shape."""
    words, op = dict(given), "gemm"
    everything = {name for known in COMMANDS for name in words_of(known)}
    if "shape" not in words:
        request.given.refuse(sorted(everything), "says more of a --shape", remedy="Give --shape too.")
        return None
    if kernel is not None:
        manifest = find(kernel, search_folders(request.workspace))
        op = manifest.operation
        words.setdefault("dtype", manifest.dtypes[0])
    elif "filter" in words:
        op = "conv"
    elif words["shape"].count("x") + 1 == _ATTENTION_SIZES:
        op = "attention"
    if op == "conv" and "filter" not in words:
        raise UsageError(f"{kernel} is a convolution.", remedy="Give --filter KHxKWxF too.")
    request.given.refuse(sorted(everything - words_of(op).keys()), f"is not for {op}")
    words.setdefault("dtype", default_dtype(request.target))
    problem: Problem = COMMANDS[op](**words)
    return problem
