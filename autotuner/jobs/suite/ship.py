"""The winners of a suite as few files: one merged spec and one flagfile for those that can share a compile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.build import Builder
from autotuner.build.builder import BINARIES, dump_flags, hash_binaries
from autotuner.carriers.flagfile import Flagfile, flagfile_text, use_line
from autotuner.carriers.outputs import Outputs
from autotuner.carriers.render import problem_mlir
from autotuner.errors import AutotuneError, UsageError
from autotuner.jobs.suite.rows import Row
from autotuner.problems import Problem
from autotuner.specfiles.merge import merge
from autotuner.system import process
from autotuner.targets import Target
from autotuner.tuning.plan import Carrier
from autotuner.tuning.session import Session


@dataclass(frozen=True)
class Group:
    """Winners that one compile can have together, for they need the same flags."""

    flags: tuple[str, ...]
    carrier: Carrier
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
            if row.carrier in ("spec", "flags"):
                together.setdefault(row.flags, []).append(row)
            else:  # A substituted executable and a microkernel's objects belong to one program each.
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
        specs = [Path(row.spec) for row in rows if row.carrier == "spec" and row.spec]
        flags = [*self.target.compile_flags, *rows[0].flags]
        files = Outputs.at(path, self.session.workspace)
        flagfile = files.flagfile
        names = tuple(row.problem for row in rows)
        carrier: Carrier = "spec" if specs else "flags"
        try:
            if specs:
                use = f"use:        {use_line(flagfile)}"
                merged = merge(specs, tools=self.session.tools, made_by=[*self.made_by, use])
                files.write(path, merged.text)
                flags.append(f"{self.target.spec_flag}={path}")
            files.write(flagfile, flagfile_text(flags))
        except AutotuneError as error:
            return Group(rows[0].flags, carrier, names, 0.0, None, None, dict.fromkeys(names, str(error)))
        reasons = self.session.executor.map(lambda row: self._difference(row, flagfile), rows)
        lost = {row.problem: reason for row, reason in zip(rows, reasons, strict=True) if reason}
        gain = sum(saved.get(name, 0.0) for name in names if name not in lost)
        return Group(rows[0].flags, carrier, names, gain, path if specs else None, flagfile, lost)

    def _difference(self, row: Row, flagfile: Path) -> str:
        """The merged files must give the very binary that the problem's own files give."""
        if row.flagfile is None:
            return "its own flagfile is not there"
        source = problem_mlir(self.target.prepare(self.problems[row.problem]))
        try:
            own, merged = (self._binary(source, path) for path in (Path(row.flagfile), flagfile))
        except UsageError as error:
            return str(error)
        if own is None or merged is None:
            return f"it does not compile with {row.flagfile if own is None else flagfile}"
        return "" if own == merged else "the merged files give another binary"

    def _binary(self, source: str, flagfile: Path) -> str | None:
        with self.builder.cache.scratch() as folder:
            (folder / "problem.mlir").write_text(source)
            flags = Flagfile.read(flagfile, known=self.target.user_flags).flags
            words = ["problem.mlir", *flags, *dump_flags(substitutes=False), "-o", "module.vmfb"]
            done = process.run([self.session.tools.iree_compile, *words], timeout=self.timeout, cwd=folder)
            return hash_binaries(folder / BINARIES) if done.ok else None


def _single(row: Row, saved: float) -> Group:
    spec, flagfile = (Path(path) if path else None for path in (row.spec, row.flagfile))
    return Group(row.flags, row.carrier or "flags", (row.problem,), saved, spec, flagfile, {})
