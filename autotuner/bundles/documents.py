"""The manifest of a bundle, and its result: plain data, read field by field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from autotuner.devices.conditions import Conditions
from autotuner.devices.device import MAX_REPEAT, Timing
from autotuner.iree.run import failed_because
from autotuner.measure.check import Check
from autotuner.measure.judgement import Judgement
from autotuner.measure.standing import BASELINE as BASELINE
from autotuner.measure.standing import Kind
from autotuner.system.fields import Limits, plain, read, write, wrong
from autotuner.system.text import printable

BUNDLE = {"schema": 1, "kind": "autotune-bundle"}
RESULT = {"schema": 1, "kind": "autotune-bundle-result"}
SUITE = {"schema": 1, "kind": "autotune-suite-bundle"}
Phase = Literal["screen", "drift", "race", "confirm"]
Failure = Literal["wrong-result", "run-error", "run-timeout"]
Value = str | int | bool
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9-]{1,40}")
_JUDGED = (
    *("verdict", "reason", "stock", "winner", "confirmed_name", "cause"),
    *("speedup", "over_stock", "us"),
)
"""The fields of a judgement in a result."""


@dataclass(frozen=True)
class Entry:
    """A candidate of a bundle, with a module for each number of repeats."""

    id: str
    kind: Kind
    route: str
    label: str
    complexity: Annotated[int, Limits(10**6)]
    config: tuple[tuple[str, Value], ...]
    binary: str
    """The digest of its code, which is the same in all its modules."""
    modules: Mapping[int, str]
    """Digests of modules by number of repeats."""

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.id) is None:
            raise ValueError("a candidate with an id that is its name")
        known = all(1 <= repeat <= MAX_REPEAT and _DIGEST.fullmatch(key) for repeat, key in self.modules.items())
        if not known or not self.modules:
            raise ValueError("a candidate with modules that are digests by repeats")


@dataclass(frozen=True)
class Manifest:
    """What was built, for which chip, by which IREE, and how it is to be timed."""

    run: str
    """The run that built it."""
    problem: str
    allow: str
    """The accepted precision; empty: that of its types."""
    target: str
    flags: tuple[str, ...]
    """The user's compiler flags."""
    chip: str
    """The processor or the architecture that the code is for; a GPU's is the target, or what `--chip` named."""
    iree: str
    """The release of the runtime that must run it."""
    autotune: str
    microkernels: tuple[str, ...]
    """Microkernels that take part, as the user named them."""
    seed: Annotated[int, Limits(2**63 - 1)]
    trials: Annotated[int, Limits(10**6)]
    budget: Annotated[float, Limits(1e7)]
    """Seconds for checks, timings and the race, unless `bundle run` gets a --budget."""
    smallest_gain: Annotated[float, Limits(1.0)]
    race_entrants: Annotated[int, Limits(100, 1)]
    run_timeout: Annotated[float, Limits(3600.0)]
    repetition_seconds: Annotated[float, Limits(10.0)]
    entries: tuple[Entry, ...]
    """The baseline, the stock routes, then the candidates, the most promising first."""

    def __post_init__(self) -> None:
        names, bases = [one.id for one in self.entries], [one.id for one in self.entries if one.kind == BASELINE]
        if len({*names}) != len(names) or bases != [BASELINE]:
            raise ValueError("a manifest with entries of different names and one baseline")

    def to_bytes(self) -> bytes:
        return write(self, **BUNDLE)

    @classmethod
    def read(cls, document: object, where: str) -> Manifest:
        return read(cls, _marked(document, where, BUNDLE), where)

    @property
    def baseline(self) -> Entry:
        return next(one for one in self.entries if one.id == BASELINE)

    @property
    def rivals(self) -> list[Entry]:
        return [one for one in self.entries if one.id != BASELINE]


@dataclass(frozen=True)
class TimingRecord:
    """One timing of a result."""

    phase: Phase
    block: Annotated[int, Limits(10**6)]
    us: tuple[float, ...]
    conditions: Conditions | None = None

    def __post_init__(self) -> None:
        if not self.us or min(self.us) <= 0:
            raise ValueError("a timing with us that is a list of times")

    @classmethod
    def of(cls, phase: Phase, block: int, timing: Timing) -> TimingRecord:
        return cls(phase, block, timing.us, timing.conditions)

    @property
    def timing(self) -> Timing:
        return Timing(self.us, conditions=self.conditions)


@dataclass(frozen=True)
class CandidateRecord:
    """The results of a candidate on the device."""

    id: str
    failure: Failure | None = None
    error: float | None = None
    """None where it is no number."""
    detail: str = ""
    """Why it failed, in a line."""
    taken: list[TimingRecord] = field(default_factory=list)

    @classmethod
    def of(cls, name: str, check: Check, taken: list[TimingRecord]) -> CandidateRecord:
        error, detail = check.error if math.isfinite(check.error) else None, printable(failed_because(check.detail))
        return cls(name, check.failure, error, detail, taken)  # type: ignore[arg-type]

    @property
    def check(self) -> Check:
        return Check(self.failure, math.inf if self.error is None else self.error, self.detail)

    def refuse(self, where: str) -> None:
        """Raises a UsageError where timings contradict the failure."""
        timed = self.failure is None or (self.id == BASELINE and self.failure == "wrong-result")
        if timed != bool(self.taken) or (self.failure is None and self.error is None):
            what = "what its failure says: timings where there is none, or of a wrong default"
            raise wrong(f"{where}: an entry of tried: taken", what)


@dataclass(frozen=True)
class Report:
    """The result of a bundle: all checks and timings, and the verdict."""

    bundle: str
    """The digest of its manifest."""
    device: str
    environment: Mapping[str, str | float | int | None]
    tried: tuple[CandidateRecord, ...]
    judgement: Judgement
    seconds: Annotated[float, Limits(1e7)]
    notes: tuple[str, ...]

    def to_bytes(self) -> bytes:
        return write({**plain(self), "judgement": judgement_to_json(self.judgement)}, **RESULT)

    @classmethod
    def read(cls, document: object, where: str) -> Report:
        report = read(cls, _marked(document, where, RESULT), where)
        for one in report.tried:
            one.refuse(where)
        judgement, won = report.judgement, report.judgement.winner is not None and report.judgement.speedup is not None
        if (judgement.verdict == "win") != won:
            raise wrong(f"{where}: judgement: verdict", "what its winner and its speedup say")
        names, timed = [one.id for one in report.tried], {one.id for one in report.tried if one.taken}
        named = {judgement.stock, judgement.winner, judgement.confirmed_name, *judgement.us}
        if unknown := named - timed - {None}:
            raise wrong(f"{where}: judgement", f"about what was timed: {min(map(str, unknown))[:40]!a} was not")
        if BASELINE not in names or len({*names}) != len(names):
            raise wrong(f"{where}: tried", "candidates of different names with the baseline")
        return report


@dataclass(frozen=True)
class SuiteProblem:
    """A problem of a suite: its name, and how often it is called."""

    problem: str
    calls: Annotated[int, Limits(10**12, 1)]


@dataclass(frozen=True)
class SuiteManifest:
    """The manifest of a suite's bundle. Its parts are bundles of one problem each, in this order."""

    run: str
    name: str
    source: str
    sha256: str
    target: str
    problems: tuple[SuiteProblem, ...]

    def to_bytes(self) -> bytes:
        return write(self, **SUITE)

    @classmethod
    def read(cls, document: object, where: str) -> SuiteManifest:
        return read(cls, _marked(document, where, SUITE), where)


def judgement_to_json(judgement: Judgement) -> dict[str, Any]:
    return {name: plain(getattr(judgement, name)) for name in _JUDGED}


def _marked(document: object, where: str, marks: Mapping[str, object]) -> dict[str, Any]:
    """A document of this kind, in the schema that this version of autotune reads."""
    if not isinstance(document, dict):
        raise wrong(where, "an object")
    for name, mark in marks.items():
        if document.get(name) != mark:
            raise wrong(f"{where}: {name}", f"{mark}, which this version of autotune reads")
    judged = document.get("judgement")
    known = {name: judged[name] for name in _JUDGED if name in judged} if isinstance(judged, dict) else judged
    return {**document, "judgement": known}
