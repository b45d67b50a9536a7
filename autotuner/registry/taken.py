"""Entries from rows of a results database: of runs that were won and timed, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from autotuner.carriers.provenance import Provenance
from autotuner.errors import UsageError
from autotuner.iree.compile import shell_line
from autotuner.microkernels.library import is_shipped
from autotuner.registry.entry import DISPATCH, KERNEL, MODEL, RegistryEntry
from autotuner.space.table import ABSENT
from autotuner.specfiles.entries import read
from autotuner.specfiles.renew import renew
from autotuner.store.reader import Reader
from autotuner.store.rows import RunRow


class LeftOut(NamedTuple):
    """A run, or a part of one, that is no entry."""

    name: str
    reason: str


def take(store: Reader, run: str) -> tuple[list[RegistryEntry], list[LeftOut]]:
    """The entries of a run: of a problem, of each problem of a suite, of a model and what is in it."""
    row = store.run(run)
    with store.intact():
        rows = store.parts(run) if row.kind == "suite" else [row]
        environments = store.environments([one.id for one in rows])
        found = [part for one in rows for part in _entries(store, one, environments.get(one.id, {}))]
    return [one for one in found if isinstance(one, RegistryEntry)], [one for one in found if isinstance(one, LeftOut)]


def _entries(store: Reader, row: RunRow, environment: Mapping[str, Any]) -> Iterator[RegistryEntry | LeftOut]:
    document, name = row.result or {}, str(row.problem.get("name") or row.id)
    why = _obstacle(row, document, environment)
    if why:
        yield LeftOut(name, why)
        return
    best, speedup = document["best"], document["speedup"]
    said: dict[str, Any] = {
        "chip": row.target,
        "sku": str(environment["device_name"]),
        "iree": str(environment["iree"]),
        "route": str(best.get("route") or "plain"),
        "flags": tuple(best["flags"]),
        **{end: speedup[end] for end in ("low", "median", "high")},
        "allow": row.problem.get("allow_precision", ""),
        "device": row.device,
        "driver": str(environment.get("driver") or ""),
        "date": f"{row.started:%Y-%m-%d %H:%M} UTC",
        "command": shell_line(("autotune", *row.command[1:])),
        "run": row.id,
    }
    own = {"op": row.problem["op"], "problem": name, "us": best["us"], "baseline_us": document["baseline"]["us"]}
    if row.kind == MODEL:
        known = {"sha256": row.problem["sha256"], "ops": tuple(row.problem.get("ops", ()))}
        yield RegistryEntry(**said, **own, **known, carrier="flags", error=document.get("error"))
        yield from _within(document, {**said, "within": name})
    else:
        yield _alone(document, {**said, **own, **_proof(store, row, best)})


def _obstacle(row: RunRow, document: Mapping[str, Any], environment: Mapping[str, Any]) -> str:
    """Why nothing of a run is taken."""
    if row.kind not in ("single", MODEL):
        return f"it is a run of `{row.kind}`; problems, suites and models are taken"
    if row.status != "finished":
        return f"it is {row.status}"
    if document.get("verdict") != "win" or not document.get("speedup"):
        return f"its verdict is {document.get('verdict') or 'not there'}"
    if not document.get("best") or not environment.get("device_name"):
        return "nothing says what it was timed on"
    return "it substitutes an executable, which fits this one program" if document["carrier"] == "substitution" else ""


def _alone(document: Mapping[str, Any], said: dict[str, Any]) -> RegistryEntry | LeftOut:
    """Of a problem that was timed alone."""
    config, carrier = _knobs(document["best"].get("config", {})), document["carrier"]
    kernel = str(config.pop(KERNEL, "")) if carrier == "microkernel" else ""
    if kernel:
        return _kernel(kernel, config, said)
    (text,) = _texts(Path(document["spec"])).values() if carrier == "spec" else ((),)
    return RegistryEntry(**said, carrier=carrier, spec=text, config=config if text else {})


def _within(document: Mapping[str, Any], said: dict[str, Any]) -> Iterator[RegistryEntry | LeftOut]:
    """What is in a model, and was timed as a part of it."""
    for place in document["microkernels"]["places"] if document["best"].get("kind") == "microkernel" else ():
        if place["applied"] and place["state"] == "taken":
            own = {"op": place["problem"].partition("_")[0], "problem": place["problem"]}
            times = {"us": place["us"], "baseline_us": place["codegen_us"]}
            config = _knobs(place["config"])
            config.pop(KERNEL, None)
            yield _kernel(place["kernel"], config, {**said, **own, **times, "route": "plain", "flags": ()})
    if document.get("spec") and document["entries"]["shipped"]:
        for name, text in _texts(Path(document["spec"])).items():
            yield RegistryEntry(**said, op=DISPATCH, problem=name, carrier="spec", spec=text)


def _kernel(name: str, config: dict[str, Any], said: dict[str, Any]) -> RegistryEntry | LeftOut:
    if not is_shipped(name):
        return LeftOut(said["problem"], f"{name} does not come with autotune: others do not have it")
    return RegistryEntry(**said, carrier="microkernel", kernel=name, config=config)


def _knobs(config: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if value != ABSENT}


def _proof(store: Reader, row: RunRow, best: Mapping[str, Any]) -> dict[str, Any]:
    """The hash of the winner's code and its error: `c0012` is the candidate of that number, `stock-1` a route."""
    name, route = str(best.get("candidate")), ("stock", best.get("route"))
    for one in store.candidates(row.id):
        if name == f"c{one.ordinal:04d}" or (name.startswith("stock") and (one.kind, one.route) == route):
            built = (build.binary for build in store.builds(row.id) if build.candidate == one.id and build.binary)
            return {"binary": next(built, ""), "error": one.error}
    return {}


def _texts(spec: Path) -> dict[str, tuple[str, ...]]:
    """A shipped spec, as one of each entry; by the problem."""
    if not spec.is_file():
        raise UsageError(f"{spec} is gone, and the run's entry is in it.", remedy="Tune it again.")
    said = [(one, one.provenance or Provenance()) for one in read(spec).entries]
    return {of.problem or one.name: tuple(renew(spec, {one.id: of}, header=()).splitlines()) for one, of in said}
