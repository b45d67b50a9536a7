"""The winners of a suite as few files: one merged spec and one flagfile for those that can share a compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autotuner.build import BuildJob
from autotuner.build.ship import ship_together
from autotuner.carriers.carrier import FLAGS, CarrierName, Parts, SpecCarrier, carrier_named
from autotuner.carriers.flagfile import Flagfile, use_line
from autotuner.carriers.outputs import Outputs
from autotuner.errors import AutotuneError
from autotuner.iree.compile import Compiled
from autotuner.jobs.suite.rows import Row
from autotuner.problems import Problem
from autotuner.problems.render import problem_mlir
from autotuner.specfiles.merge import merge
from autotuner.tuning.run import Run


@dataclass(frozen=True)
class Group:
    """Winners that one compile can have together, for they need the same flags."""

    flags: tuple[str, ...]
    carrier: CarrierName
    problems: tuple[str, ...]
    us_saved: float = 0.0
    spec: Path | None = None
    flagfile: Path | None = None
    lost: Mapping[str, str] = field(default_factory=dict)
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

    run: Run
    problems: Mapping[str, Problem]
    files: Outputs
    """Of the group that saves most; the others get a number."""
    made_by: Sequence[str] = ()

    def ship(self, kept: Sequence[Row]) -> list[Group]:
        """The group that saves most first."""
        together: dict[tuple[str, ...], list[Row]] = {}
        for row in kept:
            if carrier_named(row.carrier).merges:
                together.setdefault(row.flags, []).append(row)
        largest = sorted(together.values(), key=lambda rows: sum(row.us_saved for row in rows), reverse=True)
        groups = [self._group(rows, number) for number, rows in enumerate(largest, start=1)]
        groups += [_single(row) for row in kept if not carrier_named(row.carrier).merges]
        return sorted(groups, key=lambda group: group.us_saved, reverse=True)

    def _group(self, rows: Sequence[Row], number: int) -> Group:
        spec, flags, target = self.files.spec, rows[0].flags, self.run.target
        files = replace(self.files, spec=spec if number == 1 else spec.with_stem(f"{spec.stem}-{number}"))
        specs = [Path(row.spec) for row in rows if row.spec]
        names = tuple(row.problem for row in rows)
        carrier = SpecCarrier.name if specs else FLAGS.name
        parts = Parts()
        try:
            if specs:
                use = f"use:        {use_line(files.flagfile)}"
                merged = merge(specs, tools=self.run.session.tools, made_by=[*self.made_by, use])
                parts = Parts(carrier, merged.text, target.spec_flag)
            shipped, lost = ship_together(
                files,
                parts,
                [*target.compile_flags, *flags],
                compiles=lambda flagfile: {name: self._compile(name, flagfile) for name in names},
                binaries={row.problem: row.binary for row in rows},
            )
        except AutotuneError as error:
            return Group(flags, carrier, names, lost=dict.fromkeys(names, str(error)))
        if shipped is None:
            return Group(flags, carrier, names, lost=lost)
        gain = sum(row.us_saved for row in rows if row.problem not in lost)
        return Group(flags, carrier, names, gain, shipped.spec, shipped.flagfile, lost)

    def _compile(self, name: str, flagfile: Path) -> Future[Compiled]:
        """A problem, compiled with what a flagfile has."""
        target, session = self.run.target, self.run.session
        flags = Flagfile.read(flagfile, known=target.user_flags).flags
        source = problem_mlir(target.prepare(self.problems[name]))
        return session.executor.start(BuildJob(source, flags, self.run.options.effort.compile_timeout))


def _single(row: Row) -> Group:
    spec, flagfile = (Path(path) if path else None for path in (row.spec, row.flagfile))
    return Group(row.flags, row.carrier or "flags", (row.problem,), row.us_saved, spec, flagfile)
