"""Entries from rows of a results database: of runs that were won and timed, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.carriers.provenance import Provenance
from autotuner.errors import UsageError
from autotuner.iree.compile import shell_line
from autotuner.microkernels.library import is_shipped
from autotuner.registry.entry import DISPATCH, MODEL, RegistryEntry
from autotuner.space.table import ABSENT
from autotuner.specfiles.entries import read
from autotuner.specfiles.renew import renew
from autotuner.store.reader import Reader
from autotuner.store.rows import CandidateRow, RunRow

_KERNEL = "kernel"
"""The knob that names a microkernel."""


@dataclass(frozen=True)
class LeftOut:
    """A run, or a part of one, that is no entry."""

    name: str
    reason: str


def take(store: Reader, run: str) -> tuple[list[RegistryEntry], list[LeftOut]]:
    """The entries of a run: of a problem, of each problem of a suite, of a model and what is in it."""
    row = store.run(run)
    with store.intact():
        rows = store.parts(run) if row.kind == "suite" else [row]
        environments = store.environments([run, *(one.id for one in rows)])
        found: list[RegistryEntry] = []
        left: list[LeftOut] = []
        for one in rows:
            taken = _Taken(store, one, environments.get(one.id) or environments.get(run) or {})
            why = taken.obstacle
            if why:
                left.append(LeftOut(str(one.problem.get("name") or one.id), why))
                continue
            for part in taken.entries():
                (left if isinstance(part, LeftOut) else found).append(part)  # type: ignore[arg-type]
    return found, left


@dataclass(frozen=True)
class _Taken:
    """One run that may have won."""

    store: Reader
    row: RunRow
    environment: Mapping[str, Any]

    @property
    def document(self) -> Mapping[str, Any]:
        return self.row.result or {}

    @property
    def obstacle(self) -> str:
        """Why nothing of it is taken."""
        if self.row.kind not in ("single", MODEL):
            return f"it is a run of `{self.row.kind}`; problems, suites and models are taken"
        if self.row.status != "finished":
            return f"it is {self.row.status}"
        if self.document.get("verdict") != "win" or not self.document.get("speedup"):
            return f"its verdict is {self.document.get('verdict') or 'not there'}"
        if self.document.get("best") is None or not self.environment.get("device_name"):
            return "nothing says what it was timed on"
        if self.document.get("carrier") == "substitution":
            return "an executable is substituted, which fits this one program"
        return ""

    def entries(self) -> Iterator[RegistryEntry | LeftOut]:
        return self._of_model() if self.row.kind == MODEL else self._of_problem()

    def _of_problem(self) -> Iterator[RegistryEntry | LeftOut]:
        document, best = self.document, self.document["best"]
        config = {name: value for name, value in best.get("config", {}).items() if value != ABSENT}
        won, problem = self._won(str(best.get("candidate"))), self.row.problem
        more: dict[str, Any] = {
            "op": problem["op"],
            "problem": problem["name"],
            "allow": problem.get("allow_precision", ""),
            "carrier": document["carrier"],
            "us": best["us"],
            "baseline_us": document["baseline"]["us"],
            "error": won.error if won else None,
            "binary": self._binary(won),
        }
        if document["carrier"] == "spec":
            (text,) = _texts(Path(document["spec"])).values()
            yield self._entry(**more, spec=text, config=config)
        elif document["carrier"] == "microkernel":
            yield self._kernel(str(config.pop(_KERNEL, "")), **more, config=config)
        else:
            yield self._entry(**more)

    def _of_model(self) -> Iterator[RegistryEntry | LeftOut]:
        """Its flags, and what is in it: that was timed as a part of it."""
        document, problem = self.document, self.row.problem
        told = {"allow": problem.get("allow_precision", "")}
        yield self._entry(
            op=MODEL,
            problem=problem["name"],
            sha256=problem["sha256"],
            ops=tuple(problem.get("ops", ())),
            carrier="flags",
            us=document["best"]["us"],
            baseline_us=document["baseline"]["us"],
            error=document.get("error"),
            **told,
        )
        told["within"] = problem["name"]
        places = document.get("microkernels", {}).get("places", ())
        for place in places if document["best"].get("kind") == "microkernel" else ():
            if not place["applied"] or place["state"] != "taken":
                continue
            config = {name: value for name, value in place["config"].items() if name != _KERNEL and value != ABSENT}
            times = {"us": place["us"], "baseline_us": place["codegen_us"]}
            op = place["problem"].partition("_")[0]
            own = {"op": op, "problem": place["problem"], "carrier": "microkernel", "config": config}
            yield self._kernel(place["kernel"], **own, **times, **told)
        if document.get("spec") and document.get("entries", {}).get("shipped"):
            for name, text in _texts(Path(document["spec"])).items():
                yield self._entry(op=DISPATCH, problem=name, carrier="spec", spec=text, **told)

    def _kernel(self, name: str, **more: Any) -> RegistryEntry | LeftOut:
        if not is_shipped(name):
            return LeftOut(more["problem"], f"{name} does not come with autotune: others do not have it")
        return self._entry(**more, kernel=name)

    def _entry(self, **more: Any) -> RegistryEntry:
        """With what the run itself says."""
        row, speedup, best = self.row, self.document["speedup"], self.document["best"]
        return RegistryEntry(
            chip=row.target,
            sku=str(self.environment["device_name"]),
            iree=str(self.environment["iree"]),
            route=str(best.get("route") or "plain"),
            flags=tuple(best["flags"]),
            low=speedup["low"],
            median=speedup["median"],
            high=speedup["high"],
            device=row.device,
            driver=str(self.environment.get("driver") or ""),
            date=f"{row.started:%Y-%m-%d %H:%M} UTC",
            command=shell_line(("autotune", *row.command[1:])),
            run=row.id,
            **more,
        )

    def _won(self, name: str) -> CandidateRow | None:
        """The row of the candidate of this name: `c0012` is the one with that number, `stock-1` a route."""
        route = self.document["best"].get("route")
        for row in self.store.candidates(self.row.id):
            if name == f"c{row.ordinal:04d}" or (
                name.startswith("stock") and (row.kind, row.route) == ("stock", route)
            ):
                return row
        return None

    def _binary(self, won: CandidateRow | None) -> str:
        builds = self.store.builds(self.row.id) if won is not None else ()
        return next((one.binary for one in builds if won and one.candidate == won.id and one.binary), "")


def _texts(spec: Path) -> dict[str, tuple[str, ...]]:
    """A shipped spec, as one of each entry; by the problem."""
    if not spec.is_file():
        raise UsageError(f"{spec} is gone, and the run's entry is in it.", remedy="Tune it again.")
    file = read(spec)
    said = [(one, one.provenance or Provenance()) for one in file.entries]
    return {
        provenance.problem or one.name: tuple(renew(spec, {one.id: provenance}, header=()).splitlines())
        for one, provenance in said
    }
