"""The tables of a results database, and one frozen class for each kind of row that it gives back.

Times are ISO 8601 text in UTC: they sort alike everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Integer,
    MetaData,
    Row,
    Table,
    Text,
    UniqueConstraint,
)

from autotuner.devices.conditions import Conditions
from autotuner.iree.figures import NO_FIGURES, Isa

if TYPE_CHECKING:
    from autotuner.space.table import Config

VERSION = 4

METADATA = MetaData()

IMPORTED = "imported"
"""The key of imported runs, which no run resumes."""

# The name says whose it is: a study database, or a team's, may hold other programs' tables beside these.
SCHEMA = Table("autotune_schema", METADATA, Column("version", Integer, primary_key=True, autoincrement=False))

RUNS = Table(
    "runs",
    METADATA,
    Column("id", Text, primary_key=True),
    Column("kind", Text),
    Column("parent", Text, index=True),
    Column("key", Text, nullable=False, index=True),
    Column("workspace", Text, nullable=False),
    Column("command", JSON, nullable=False),
    Column("problem", JSON, nullable=False),
    Column("target", Text, nullable=False),
    Column("device", Text, nullable=False),
    Column("seed", Integer, nullable=False),
    Column("status", Text, nullable=False),
    Column("started", Text, nullable=False),
    Column("ended", Text),
    Column("space_size", Integer),
    Column("result", JSON(none_as_null=True)),
)

ENVIRONMENT = Table(
    "environment",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False, index=True),
    Column("document", JSON, nullable=False),
)

CANDIDATES = Table(
    "candidates",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("config_key", Text, nullable=False),
    Column("config", JSON, nullable=False),
    Column("kind", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("duplicate_of", ForeignKey("candidates.id")),
    Column("failure", Text, nullable=False),
    Column("stderr", Text, nullable=False),
    Column("error", Float),
    Column("us", Float),
    Column("spec", Text, nullable=False, default=""),  # of an earlier version: nothing writes or reads it
    UniqueConstraint("run", "ordinal"),
)

BUILDS = Table(
    "builds",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("candidate", ForeignKey("candidates.id"), nullable=False, index=True),
    Column("seconds", Float, nullable=False),
    Column("cached", Boolean, nullable=False),
    Column("binary", Text, nullable=False),
    Column("applied", Integer, nullable=False),
    Column("command", JSON, nullable=False),
    Column("vmfb", Text, nullable=False),
    Column("isa", JSON(none_as_null=True)),
)

TIMINGS = Table(
    "timings",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("candidate", ForeignKey("candidates.id"), nullable=False, index=True),
    Column("phase", Text, nullable=False),
    Column("block", Integer, nullable=False),
    Column("repetitions_us", JSON, nullable=False),
    Column("time", Text, nullable=False),
    Column("conditions", JSON(none_as_null=True)),
)

Status = Literal["running", "finished", "interrupted", "failed"]
LEFT_OUT = ("not-supported", "not-tuned", "not-timed")
"""States of a `bench` backend that did not run a problem, and did not fail."""
RunKind = Literal["single", "model", "suite", "ab", "buckets", "bench", "retune"]
Kind = Literal["codegen", "microkernel", "stock", "baseline", "default", "library"]
"""`default`: IREE's default of one problem of a suite; a run's own is its `baseline`. `library`: another library, which
the route names."""
State = Literal["asked", "built", "failed", "duplicate", "checked", "timed"]
Phase = Literal["screen", "drift", "race", "confirm", "cold", "bench", "call"]
"""`cold`: what a call takes whose buffers are not in the last level cache; `call`: single calls of a model, which an
earlier version timed beside those in flight."""
Json = Mapping[str, Any]


@dataclass(frozen=True)
class NewRun:
    """A run as it begins. `key` is what it has in common with the runs that --resume may go on with."""

    kind: RunKind
    key: str
    command: Sequence[str]
    problem: Json
    target: str
    device: str
    seed: int
    parent: str | None = None
    """The run that it is part of."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of a command, or a part of one."""

    id: str
    kind: RunKind
    parent: str | None
    key: str
    command: tuple[str, ...]
    problem: Json
    target: str
    device: str
    seed: int
    status: Status
    started: datetime
    ended: datetime | None
    space_size: int | None
    result: Json | None


@dataclass(frozen=True, slots=True)
class CandidateRow:
    """One candidate of a run, with its state."""

    id: int
    run: str
    ordinal: int
    config: Config
    kind: Kind
    route: str
    state: State
    duplicate_of: int | None
    failure: str
    stderr: str
    error: float | None
    us: float | None


@dataclass(frozen=True, slots=True)
class BuildRow:
    """How a candidate was compiled; `binary` is the hash of its executable."""

    candidate: int
    seconds: float
    cached: bool
    binary: str
    applied: int
    command: tuple[str, ...]
    vmfb: str
    isa: Isa = NO_FIGURES


@dataclass(frozen=True, slots=True)
class TimingRow:
    """The raw repetitions of one measurement."""

    candidate: int
    phase: Phase
    block: int
    repetitions_us: tuple[float, ...]
    time: datetime
    conditions: Conditions | None
    """None in rows of older versions."""


@dataclass(frozen=True, slots=True)
class Tally:
    """A run's candidates in numbers."""

    asked: int
    timed: int
    failed: int
    baseline_us: float | None
    best_us: float | None


NO_CANDIDATES = Tally(0, 0, 0, None, None)


def read_run(row: Row[Any]) -> RunRow:
    """A run from its row."""
    values = {name: value for name, value in row._mapping.items() if name != "workspace"}
    values["command"] = tuple(row.command)
    values["started"] = datetime.fromisoformat(row.started)
    values["ended"] = datetime.fromisoformat(row.ended) if row.ended else None
    return RunRow(**values)


def read_candidate(row: Row[Any]) -> CandidateRow:
    """A candidate from its row."""
    from autotuner.space.table import Config  # imported where it is used: lists of runs need not wait for numpy

    # By place: an export has a hundred thousand rows, and a table of names for each takes as long as reading them.
    identity, run, ordinal, _, config, *rest, _ = tuple(row)
    return CandidateRow(identity, run, ordinal, Config.of(config), *rest)


def read_build(row: Row[Any]) -> BuildRow:
    """A build from its row."""
    values = {name: value for name, value in row._mapping.items() if name != "id"}
    return BuildRow(**values | {"command": tuple(row.command), "isa": Isa.from_json(row.isa)})


def read_timing(row: Row[Any]) -> TimingRow:
    """A measurement from its row."""
    _, candidate, phase, block, raw, time, conditions = tuple(row)
    known = Conditions.from_json(conditions) if conditions else None
    return TimingRow(candidate, phase, block, tuple(raw), datetime.fromisoformat(time), known)
