"""From the words of a command line to a problem of any operation, or to a model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autotuner.cli.commands.ab import Wanted
from autotuner.cli.commands.bench import BenchWords
from autotuner.cli.commands.operations import COMMANDS, default_dtype, words_of
from autotuner.cli.commands.retune import RetuneWords
from autotuner.cli.request import Request
from autotuner.errors import UsageError
from autotuner.jobs.model.context import Model
from autotuner.jobs.model.program import refuse_no_model
from autotuner.microkernels.library import find, search_folders
from autotuner.problems import Problem
from autotuner.problems.accuracy import known_precision

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


def named_model(path: Path, wanted: Wanted | BenchWords | RetuneWords, request: Request) -> Model:
    """The model in a file, with what the words say of it; it is there, or no device is waited for."""
    refuse_no_model(path)
    return Model(
        path,
        function=wanted.function,
        inputs=tuple(wanted.inputs or ()),
        parameters=tuple(wanted.parameters or ()),
        tolerance=wanted.tolerance,
        expected=tuple(wanted.expected or ()),
        trust=wanted.trust,
        allow=known_precision(request.allow_precision),
    )
