"""What a suite's run has from before, when it goes on: the times of the defaults, and what each problem came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from autotuner.carriers.flags import objection
from autotuner.devices.device import Timing
from autotuner.errors import AutotuneError, StorageError
from autotuner.jobs.suite.rows import Row, outcome
from autotuner.space.table import Config
from autotuner.store.rows import CandidateRow, RunRow
from autotuner.tuning.result import read_result
from autotuner.tuning.run import Run

_FAILURES = {2: "refused", 3: "no-candidate", 4: "wrong-result", 5: "environment"}
"""Exit code -> how the row of a problem that failed calls it."""
_CODES = {name: code for code, name in _FAILURES.items()}


@dataclass(frozen=True)
class ProblemRows:
    """The suite's own rows, one a problem: how long IREE's default takes, or how the problem failed."""

    run: Run
    ids: dict[str, int]

    @classmethod
    def of(cls, run: Run) -> ProblemRows:
        """With those that the run has from before."""
        return cls(run, {_problem(row): row.id for row in run.earlier or () if row.kind == "default"})

    def time(self, problem: str, us: float) -> None:
        row, store = self._id(problem), self.run.session.store
        store.restart_candidate(row)
        store.record_timing(row, Timing((us,)), phase="screen", block=0)

    def fail(self, problem: str, error: AutotuneError) -> None:
        """It may have failed before there was a run of its own."""
        failure = _FAILURES.get(error.exit_code, "environment")
        self.run.session.store.record_failure(self._id(problem), failure, stderr=str(error))

    def _id(self, problem: str) -> int:
        if problem not in self.ids:
            self.ids[problem] = self.run.candidate("default", "", Config.of({"problem": problem}))
        return self.ids[problem]


@dataclass(frozen=True)
class Earlier:
    """Read from the rows of the run and of its parts."""

    rows: Mapping[str, Row] = field(default_factory=dict)
    defaults: Mapping[str, float] = field(default_factory=dict)
    begun: frozenset[str] = frozenset()
    """Problems whose tuning was cut short: their runs go on."""

    @classmethod
    def read(cls, run: Run, rows: Mapping[str, Row]) -> Earlier:
        """`rows` are those of the suite's problems, as they are before anything is known of them."""
        store = run.session.store
        with store.intact():
            tried = {_problem(row): row for row in run.earlier or () if row.kind == "default"}
            parts = {str(part.problem["name"]): part for part in store.parts(run.id)}
            found = {name: _row(row, tried.get(name), parts.get(name), run) for name, row in rows.items()}
            begun = {name for name, part in parts.items() if part.status in ("running", "interrupted")}
            defaults = {name: c.us for name, c in tried.items() if c.us is not None and name in rows}
        known = {name: row for name, row in found.items() if row is not None and row.finished}
        return cls(known, defaults, frozenset(begun & rows.keys()) - known.keys())


def _problem(row: CandidateRow) -> str:
    return str(row.config.as_dict().get("problem", ""))


def _row(row: Row, tried: CandidateRow | None, part: RunRow | None, run: Run) -> Row | None:
    """What a problem came to, as far as it is known."""
    if part is not None and part.status == "finished" and part.result is not None:
        workspace, store = run.session.workspace.root, run.session.store
        result = read_result(part.result, workspace=workspace, storage=run.options.storage)
        done = replace(row, **outcome(result, store=store))
        # A database may come from anybody, and these flags go into a compile.
        if objection([flag for flag in done.flags if flag not in run.target.user_flags]):
            raise StorageError(
                f"{store.name} holds flags for {row.problem} that autotune does not write.",
                remedy="Run without --resume to start anew.",
            )
        return done
    if tried is not None and tried.state == "failed":
        return replace(row, verdict="failed", reason=tried.stderr, exit_code=_CODES.get(tried.failure, 1))
    return None
