"""What a coordinator and a device's worker say to each other: plain data. A file goes by its content's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from autotuner.devices.conditions import Conditions
from autotuner.devices.device import CallPairs, Timing
from autotuner.errors import AutotuneError, BusyError, DeviceError, EnvironmentFailure, OutOfTimeError, StorageError
from autotuner.iree.benchmark import Benchmark, DispatchTime
from autotuner.iree.run import Invocation
from autotuner.system.digests import known_digest

Message = dict[str, Any]
NAME = re.compile(r"[0-9a-f]{64}(\.[A-Za-z0-9]{1,12})?")
"""A file's digest, and its ending: IREE's programs go by that."""
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,12}")
_RAISED: Mapping[str, type[EnvironmentFailure]] = {
    one.__name__: one for one in (DeviceError, BusyError, StorageError, EnvironmentFailure)
}
RAISED = "raised"


def content_name(path: Path) -> str:
    """What a file is called wherever it is sent."""
    suffix = path.suffix if _SUFFIX.fullmatch(path.suffix) else ""
    return known_digest(path) + suffix


def invocation_to_json(invocation: Invocation, name: Callable[[Path], str]) -> Message:
    """`name` gives a file's name on the other side."""
    return {
        "function": invocation.function,
        "inputs": [_named(text, name) for text in invocation.inputs],
        "results": list(invocation.results),
        "parameters": [[*_scope(text)[:1], name(Path(_scope(text)[1]))] for text in invocation.parameters],
    }


def invocation_from_json(document: Message, path: Callable[[str], Path]) -> Invocation:
    """`path` says where a file of that name lies here."""
    inputs = (text if name is None else f"{text}@{path(name)}" for text, name in document["inputs"])
    parameters = (f"{scope}{path(name)}" for scope, name in document["parameters"])
    return Invocation(document["function"], tuple(inputs), tuple(document["results"]), tuple(parameters))


def _named(text: str, name: Callable[[Path], str]) -> list[str | None]:
    before, at, file = text.partition("@")
    return [before, name(Path(file))] if at else [text, None]


def _scope(text: str) -> tuple[str, str]:
    scope, equals, file = text.rpartition("=")
    return scope + equals, file


def benchmark_to_json(benchmark: Benchmark, name: Callable[[Path], str]) -> Message:
    plain = {one: getattr(benchmark, one) for one in ("seconds", "timeout", "steady", "cache", "emptied", "flight")}
    return {**plain, "invocation": invocation_to_json(benchmark.invocation, name)}


def benchmark_from_json(document: Message, path: Callable[[str], Path]) -> Benchmark:
    return Benchmark(**{**document, "invocation": invocation_from_json(document["invocation"], path)})


def timing_to_json(timing: Timing) -> Message:
    return {
        "us": list(timing.us),
        "failure": timing.failure,
        "detail": timing.detail,
        "aborted": timing.aborted,
        "conditions": timing.conditions.to_json() if timing.conditions else None,
        "flight": timing.flight,
    }


def timing_from_json(document: Message) -> Timing:
    conditions = Conditions.from_json(document["conditions"]) if document["conditions"] else None
    return Timing(**{**document, "us": tuple(document["us"]), "conditions": conditions})


def pairs_to_json(pairs: CallPairs | None) -> Message | None:
    return None if pairs is None else asdict(pairs)


def pairs_from_json(document: Message | None) -> CallPairs | None:
    if document is None:
        return None
    times = {name: tuple(document[name]) for name in ("cold_us", "warm_us")}
    return CallPairs(**{**document, **times})


def dispatches_from_json(document: Mapping[str, Message] | None) -> dict[str, DispatchTime] | None:
    return None if document is None else {name: DispatchTime(**one) for name, one in document.items()}


def error_to_json(error: AutotuneError) -> Message:
    return {RAISED: type(error).__name__, "message": error.message, "remedy": error.remedy}


def raise_from_json(answer: Message, *, worker: str) -> None:
    """Raises what was raised on a worker; what is none of its own errors is the environment's."""
    if RAISED not in answer:
        return
    if answer[RAISED] == OutOfTimeError.__name__:
        raise OutOfTimeError
    kind = _RAISED.get(answer[RAISED], EnvironmentFailure)
    raise kind(f"worker {worker}: {answer['message']}", remedy=answer["remedy"])
