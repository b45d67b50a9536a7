"""The winners of a suite as few files: one merged spec and one flagfile for those that can share a compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.build import Builder, BuildJob
from autotuner.build.ship import write_shipped
from autotuner.carriers.carrier import FLAGS, CarrierName, Parts, SpecCarrier, carrier_named
from autotuner.carriers.flagfile import Flagfile, use_line
from autotuner.carriers.outputs import Outputs
from autotuner.carriers.render import problem_mlir
from autotuner.errors import AutotuneError, UsageError
from autotuner.iree.compile import Compiled
from autotuner.jobs.suite.rows import Row
from autotuner.problems import Problem
from autotuner.specfiles.merge import merge
from autotuner.targets import Target
from autotuner.tuning.session import Session


@dataclass(frozen=True)
class Group:
    """Winners that one compile can have together, for they need the same flags."""

    flags: tuple[str, ...]
    carrier: CarrierName
    problems: tuple[str, ...]
    us_saved: float
    spec: Path | None
    flagfile: Path | None
    lost: Mapping[str, str]
    """Problems that the merged files do not give their winning binary, with the reason."""

    def to_json(self) -> dict[str, Any]:
        return {
            "flags": list(self.flags),
            "carrier": self.carrier,
            "problems": list(self.problems),
            "us_saved": self.us_saved,
            "spec": str(self.spec) if self.spec else None,
            "flagfile": str(self.flagfile) if self.flagfile else None,
            "lost": dict(self.lost),
        }


@dataclass(frozen=True)
class Shipper:
    """Merges, writes, and compiles every winner once more with what it has written."""

    target: Target
    session: Session
    builder: Builder
    problems: Mapping[str, Problem]
    path: Path
    """Of the group that saves most; the others get a number."""
    timeout: float
    made_by: Sequence[str] = ()

    def ship(self, kept: Sequence[Row], saved: Mapping[str, float]) -> list[Group]:
        """The group that saves most first."""
        together: dict[tuple[str, ...], list[Row]] = {}
        alone: list[Row] = []
        for row in kept:
            if carrier_named(row.carrier).merges:
                together.setdefault(row.flags, []).append(row)
            else:
                alone.append(row)

        def total(rows: Sequence[Row]) -> float:
            return sum(saved.get(row.problem, 0.0) for row in rows)

        groups = []
        for number, rows in enumerate(sorted(together.values(), key=total, reverse=True), start=1):
            path = self.path if number == 1 else self.path.with_stem(f"{self.path.stem}-{number}")
            groups.append(self._group(rows, path, saved))
        groups += [_single(row, saved.get(row.problem, 0.0)) for row in alone]
        return sorted(groups, key=lambda group: group.us_saved, reverse=True)

    def _group(self, rows: Sequence[Row], path: Path, saved: Mapping[str, float]) -> Group:
        specs = [Path(row.spec) for row in rows if row.spec]
        files = Outputs.at(path, self.session.workspace)
        names = tuple(row.problem for row in rows)
        carrier = SpecCarrier.name if specs else FLAGS.name
        try:
            parts = Parts()
            if specs:
                use = f"use:        {use_line(files.flagfile)}"
                merged = merge(specs, tools=self.session.tools, made_by=[*self.made_by, use])
                parts = Parts(carrier, merged.text, self.target.spec_flag)
            shipped = write_shipped(files, parts, [*self.target.compile_flags, *rows[0].flags])
        except AutotuneError as error:
            return Group(rows[0].flags, carrier, names, 0.0, None, None, dict.fromkeys(names, str(error)))
        lost = self._lost(rows, shipped.flagfile)
        if len(lost) == len(names):
            files.clear()
            return Group(rows[0].flags, carrier, names, 0.0, None, None, lost)
        gain = sum(saved.get(name, 0.0) for name in names if name not in lost)
        return Group(rows[0].flags, carrier, names, gain, shipped.spec, shipped.flagfile, lost)

    def _lost(self, rows: Sequence[Row], flagfile: Path) -> dict[str, str]:
        """Problems that the merged files do not give the very binary that their own files give, with the reason."""
        running = [(row, self._compile(row, row.flagfile), self._compile(row, flagfile)) for row in rows]
        reasons = {row.problem: _difference(own, merged, row.flagfile or "") for row, own, merged in running}
        return {problem: reason for problem, reason in reasons.items() if reason}

    def _compile(self, row: Row, flagfile: Path | str | None) -> Future[Compiled] | str:
        """The row's problem, compiled with what a flagfile has; or what is wrong with that."""
        if flagfile is None:
            return "its own flagfile is not there"
        try:
            flags = Flagfile.read(Path(flagfile), known=self.target.user_flags).flags
        except UsageError as error:
            return str(error)
        source = problem_mlir(self.target.prepare(self.problems[row.problem]))
        return self.session.executor.start(BuildJob(source, flags, self.timeout))


def _difference(own: Future[Compiled] | str, merged: Future[Compiled] | str, flagfile: str) -> str:
    for one in (own, merged):
        if isinstance(one, str):
            return one
    first, second = (one.result() for one in (own, merged) if not isinstance(one, str))
    if not first.ok or not second.ok:
        return f"it does not compile with {flagfile if not first.ok else 'the merged files'}"
    return "" if first.binary == second.binary else "the merged files give another binary"


def _single(row: Row, saved: float) -> Group:
    spec, flagfile = (Path(path) if path else None for path in (row.spec, row.flagfile))
    return Group(row.flags, row.carrier or "flags", (row.problem,), saved, spec, flagfile, {})
