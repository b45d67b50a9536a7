"""One run, whatever the command: its row, the run it is a part of, its notes, its clock, its end, how it goes on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from autotuner.carriers.outputs import SPEC, Outputs
from autotuner.devices.environment import capture
from autotuner.errors import AutotuneError, StorageError
from autotuner.iree.compile import shell_line
from autotuner.measure.clock import Clock
from autotuner.space.table import Config
from autotuner.store.rows import CandidateRow, Json, Kind, NewRun, RunKind, RunRow, Status
from autotuner.store.store import run_key
from autotuner.system.progress import Watcher, clocked
from autotuner.system.text import count
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.pool import WORK
from autotuner.tuning.result import RunFacts
from autotuner.tuning.session import Session, Watched

P = TypeVar("P")
R = TypeVar("R")
STEPS = ("space", "build", "time", "search", *WORK)
"""What a run's seconds are counted for; the last ones say how busy device and builders were during the search."""


@dataclass(frozen=True)
class Account:
    """What a run says, and what it spends its time on; it begins with the command, before there is a row."""

    reporter: Watcher
    clock: Clock
    notes: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEPS, 0.0))

    def stage(self, text: str) -> None:
        self.reporter.stage(text)

    def note(self, text: str) -> None:
        """What the user can act on."""
        self.notes.append(text)
        self.reporter.note(text)

    def remark(self, text: str) -> None:
        """What explains the result to those who ask: in the document, with -v, in the log."""
        self.notes.append(text)
        self.reporter.log(text)

    def clocked(self, step: str) -> AbstractContextManager[None]:
        """Adds the wall time of a block to a step's seconds."""
        return clocked(self.seconds, step)

    def add(self, part: Mapping[str, float]) -> None:
        """What a part of the run spent."""
        for step in STEPS:
            self.seconds[step] += part.get(step, 0.0)

    def spent(self) -> dict[str, float]:
        """The seconds by step, and in all."""
        return {step: round(s, 3) for step, s in (*self.seconds.items(), ("total", self.clock.elapsed))}


@dataclass(frozen=True)
class Question:
    """What a run asks. --resume goes on with a run that asked the same of the same programs and files."""

    kind: RunKind
    problem: Json
    """As the row and the JSON document have it."""
    target: Target
    asks: Json
    """The words that tell it from other questions to the same target."""
    reads: tuple[str, ...]
    """Digests of the programs and files that its timings depend on."""
    space_size: int | None = None
    recalls: bool = False
    """--resume goes on with a finished one too, and repeats nothing that it has finished."""

    def row(self, session: Session, options: Options) -> NewRun:
        target = self.target
        return NewRun(
            kind=self.kind,
            key=run_key(
                problem=self.asks,
                # Times of one state are not compared with those of another.
                target="/".join(
                    [target.name, session.named, str(options.seed), options.searched_state, options.searched_cache]
                ),
                flags=target.user_flags,
                # A kernel for a newer chip is other code.
                reads=self.reads
                if session.chip in ("", replace(target, chip="").kernel_chip)
                else (*self.reads, session.chip),
            ),
            command=options.command,
            problem=self.problem,
            target=target.name,
            device=session.named,
            seed=options.seed,
            parent=session.parent,
        )


class Document(Protocol):
    """What a run ends with."""

    @property
    def interrupted(self) -> bool: ...

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Job:
    """A command or a part of one, before there is a run: for what it works, how, where, and in what time."""

    target: Target
    options: Options
    session: Session
    account: Account

    @classmethod
    @contextmanager
    def open(
        cls, target: Target, options: Options | None, watched: Watched, *, otherwise: float | None = None
    ) -> Iterator[Job]:
        """A command."""
        options = options or Options()
        with Session.open(target, options, **watched) as session:
            yield cls.within(session, target, options, otherwise=otherwise)

    @classmethod
    def within(cls, session: Session, target: Target, options: Options, *, otherwise: float | None = None) -> Job:
        """`otherwise` are its seconds where a user gives none: the effort's, unless the job knows better."""
        seconds = options.budget or otherwise or options.effort.budget
        clock = Clock(seconds, session.began, part=session.parent is not None)
        return cls(target, options, session, Account(session.reporter, clock))

    def begin(self, question: Question) -> AbstractContextManager[Run]:
        return Run.begin(question, session=self.session, options=self.options, account=self.account)

    def outputs(self, name: str, suffixes: tuple[str, ...] = SPEC) -> Outputs:
        """Where its files go: to -o, or by this name among the workspace's specs."""
        options, workspace = self.options, self.session.workspace
        default = workspace.specs / f"{name}-{self.target.name}.mlir"
        return Outputs.at(options.output or default, workspace, suffixes, force=options.force)


@dataclass(frozen=True)
class Turn(Generic[P]):
    """A part of a run whose turn has come."""

    what: P
    session: Session
    """Its stages and notes say which part it is."""
    options: Options
    """With the seconds that it has."""

    def job(self, target: Target, *, otherwise: float | None = None) -> Job:
        """The part as a job of its own."""
        return Job.within(self.session, target, self.options, otherwise=otherwise)


@dataclass(frozen=True)
class Run:
    """One run with its row in the results database."""

    id: str
    target: Target
    session: Session
    options: Options
    account: Account
    environment: Mapping[str, Any]
    problem: Json
    earlier: tuple[CandidateRow, ...] | None
    """The candidates that the run has from before, when it goes on; None when it is new."""
    known: Json = field(default_factory=dict)
    """What the run had come to before it went on: its document, or nothing."""
    _rows: list[CandidateRow] = field(default_factory=list)
    """Those of them that were not taken up again yet."""
    _ordinals: list[int] = field(default_factory=list)

    @classmethod
    @contextmanager
    def begin(cls, question: Question, *, session: Session, options: Options, account: Account) -> Iterator[Run]:
        """A new run, or with --resume the one that asked the same; an error or a signal within is written down."""
        store, new = session.store, question.row(session, options)
        before = _earlier(question, new, session, account) if options.resume else None
        if before is None:
            run, rows = store.start_run(new, space_size=question.space_size), None
        else:
            run, rows = before.id, tuple(store.candidates(before.id))
            store.resume_run(run)
        if session.log is not None and session.parent is None:
            session.log.into(session.workspace.run_folder(run))
        environment = session.environment or capture(session.device, session.tools)
        store.record_environment(run, environment)
        begun = cls(
            id=run,
            target=question.target,
            session=session,
            options=options,
            account=account,
            environment=environment,
            problem=question.problem,
            earlier=rows,
            known=(before.result if before is not None else None) or {},
            _rows=[*(rows or ())],
            _ordinals=[row.ordinal for row in rows or ()],
        )
        try:
            yield begun
        except AutotuneError as error:
            document = {"verdict": "failed", "reason": str(error), "exit_code": error.exit_code}
            with suppress(StorageError):  # the error that ends the run counts, not that its end could not be written
                store.finish_run(run, "failed", result=document)
            if session.log is not None and session.log.file is not None and session.parent is None:
                error.add_note(f"{session.log.file} has the log.")
            raise
        except BaseException:
            with suppress(StorageError):
                store.finish_run(run, "interrupted")
            raise

    @property
    def proof_ends(self) -> float:
        """The moment at which the compile of what ships is cut off. A budget of the user's holds; where nobody gave
        one, what was found is not thrown away for being late."""
        return self.clock.proven if self.options.budget is not None and not self.clock.part else math.inf

    @property
    def unproven(self) -> str:
        """Why nothing ships of a win, where the compile of what ships did not end."""
        return f"ran out of time while compiling what would ship, so nothing ships. {self.clock.longer()}"

    def finish(self, result: Document) -> None:
        """The run's end, with the document that the user is given."""
        document = result.to_json()
        status: Status = "interrupted" if result.interrupted else "finished"
        self.session.store.finish_run(self.id, status, result=document)

    def facts(self) -> RunFacts:
        """What its result says of the run itself."""
        return {
            "run": self.id,
            "problem": self.problem,
            "target": self.target.name,
            "device": self.session.named,
            "seconds": self.account.spent(),
            "environment": self.environment,
            "notes": (*self.account.notes, *self.session.devices.notes),
            "devices": tuple(self.session.devices.to_json()) if self.session.devices.several else (),
            "interrupted": self.stopped,
            "workspace": self.session.workspace.root,
            "storage": self.options.storage,
            "timing": self.options.timing() if self.timed else None,
        }

    # --- what its steps use ---------------------------------------------------------------------------------------

    @property
    def clock(self) -> Clock:
        return self.account.clock

    @property
    def timed(self) -> bool:
        return self.session.timed

    @property
    def stopped(self) -> bool:
        return self.session.stop.requested

    @property
    def command(self) -> str:
        """As a user types it."""
        return shell_line(("autotune", *self.options.command[1:]))

    @property
    def folder(self) -> Path:
        return self.session.workspace.run_folder(self.id)

    def tell_resumed(self, what: str) -> None:
        """With --resume: how many of its parts have ended before."""
        if self.earlier is not None:
            ended = sum(part.status == "finished" for part in self.session.store.parts(self.id))
            self.account.note(f"going on with run {self.id}: {count(ended, what)} finished")

    def parts(
        self,
        parts: Sequence[P],
        work: Callable[[Turn[P]], R],
        *,
        name: Callable[[P], str],
        share: Callable[[P], float] = lambda _: 1.0,
        before: float | None = None,
        least: float = 0.0,
    ) -> Iterator[tuple[P, R | AutotuneError | None]]:
        """Does the work on one part after the other, each in its share of the time `before` that moment.

        Yields each part with its result or its error. None: its turn did not come, because the run
        was stopped or the time was up.
        """
        numbers = iter(range(1, len(parts) + 1))

        def begun(one: P, seconds: float) -> R:
            prefix = f"{next(numbers)}/{len(parts)} {name(one)}: "
            session = self.session.within(self.id, prefix, self.environment)
            budget = None if math.isinf(seconds) else seconds
            return work(Turn(one, session, replace(self.options, budget=budget, output=None)))

        stop = self.session.stop
        return self.clock.in_turn(parts, begun, share=share, before=before, least=least, stopped=lambda: stop.requested)

    def candidate(self, kind: Kind, route: str, config: Config | None = None) -> int:
        """The row of something that is about to be tried; a resumed run may have it already."""
        config = config or Config(())
        for row in self._rows:
            if (row.kind, row.route, row.config) == (kind, route, config):
                self._rows.remove(row)
                self.session.store.restart_candidate(row.id)
                return row.id
        ordinal = max(self._ordinals, default=-1) + 1
        self._ordinals.append(ordinal)
        return self.session.store.add_candidate(self.id, ordinal=ordinal, config=config, kind=kind, route=route)


def _earlier(question: Question, new: NewRun, session: Session, account: Account) -> RunRow | None:
    """The run that --resume continues; one that cannot be continued is named."""
    store, kind, parent = session.store, new.kind, new.parent
    found = store.unfinished_run(new.key, kind=kind, parent=parent)
    if found is None and question.recalls:
        found = store.finished_run(new.key, kind=kind, parent=parent)
    if found is not None:
        return found
    if (other := store.like_it(new, finished=question.recalls)) is not None:
        account.note(
            f"run {other.id} is not continued: it had other options, or IREE or a file that it read has changed since"
        )
    return None
