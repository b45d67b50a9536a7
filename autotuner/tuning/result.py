"""What a run comes to: typed parts, and the JSON document of the contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypedDict

from typing_extensions import TypeVar

from autotuner.carriers.carrier import CarrierName
from autotuner.iree.compile import FAILURE_CLASSES, FailureClass
from autotuner.iree.figures import Isa
from autotuner.measure.blocks import Interval
from autotuner.measure.caches import Caches, Pair
from autotuner.measure.judgement import Audited, Cause
from autotuner.measure.reference import Reference
from autotuner.space import Value
from autotuner.targets import PLAIN

SCHEMA = 1
FinalVerdict = Literal["win", "no-winner", "inconclusive", "compile-only"]
_PLAIN = ("run", "problem", "target", "device", "verdict", "reason", "seconds", "environment")
"""What a result's document has just as the result has it."""


@dataclass(frozen=True)
class Measured:
    """How fast one way to compile the problem is; `us` is None where it was not timed."""

    us: float | None = None
    flags: tuple[str, ...] = ()
    route: str | None = None
    isa: Isa | None = None
    """None: nothing was asked of its machine code."""
    estimate: Mapping[str, float] | None = None
    """Without a device: what its machine code promises."""

    def to_json(self) -> dict[str, Any]:
        return {
            "us": self.us,
            "flags": list(self.flags),
            **({"route": self.route} if self.route is not None else {}),
            **({"isa": self.isa.to_json()} if self.isa is not None else {}),
            **({"estimate": dict(self.estimate)} if self.estimate is not None else {}),
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Measured:
        isa = Isa.from_json(table["isa"]) if "isa" in table else None
        return cls(table["us"], tuple(table["flags"]), table.get("route"), isa, table.get("estimate"))


@dataclass(frozen=True)
class Best:
    """The fastest, with the configuration that makes it so."""

    measured: Measured
    config: Mapping[str, Value]
    kind: Literal["codegen", "microkernel"] = "codegen"
    candidate: str | None = None
    """Its name in the run, where it has one."""

    @property
    def us(self) -> float | None:
        return self.measured.us

    def to_json(self) -> dict[str, Any]:
        return {
            **self.measured.to_json(),
            "config": dict(self.config),
            "kind": self.kind,
            **({"candidate": self.candidate} if self.candidate is not None else {}),
        }

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Best:
        return cls(Measured.from_json(table), table["config"], table["kind"], table.get("candidate"))


@dataclass(frozen=True)
class Files:
    """What was shipped, and how it carries the configuration; all None where nothing was."""

    spec: Path | None = None
    flagfile: Path | None = None
    carrier: CarrierName | None = None


class Details(Protocol):
    """What a job of many parts tells beside the contract's document."""

    @property
    def default_is_wrong(self) -> bool:
        """IREE's default was found to compute wrong results."""

    def to_json(self) -> dict[str, Any]: ...

    def text(self, result: Result[Any]) -> str:
        """What the command line prints."""


class RunFacts(TypedDict):
    """What every result has of its run."""

    run: str
    problem: Mapping[str, Any]
    target: str
    device: str
    seconds: Mapping[str, float]
    environment: Mapping[str, Any]
    notes: tuple[str, ...]
    interrupted: bool
    workspace: Path
    storage: str | None
    timing: Mapping[str, str] | None
    devices: tuple[Mapping[str, Any], ...]


D = TypeVar("D", bound=Details | None, default=None)


@dataclass(frozen=True)
class Result(Generic[D]):
    """One finished run of any command; `details` are the job's own."""

    run: str
    problem: Mapping[str, Any]
    target: str
    device: str
    verdict: FinalVerdict
    reason: str
    baseline: Measured
    stock: Measured
    best: Best | None
    speedup: Interval | None
    speedup_over_stock: Interval | None
    confidence: float
    counts: Counts
    seconds: Mapping[str, float]
    environment: Mapping[str, Any]
    notes: tuple[str, ...]
    interrupted: bool
    workspace: Path
    storage: str | None = field(repr=False)
    details: D
    files: Files = Files()
    timing: Mapping[str, str] | None = None
    """In which states of the device and of its cache candidates were compared; None where none was timed."""
    caches: Caches | None = None
    """The default and the best with a warm and with a cold cache, where both were timed."""
    audited: Audited | None = None
    """What calls on changing inputs said of the winner; None where it was not called so."""
    best_codegen: Best | None = None
    """The fastest without a microkernel; None where none took part."""
    ranking: tuple[Best, ...] = ()
    """Without a device: the most promising candidates, by estimate."""
    cause: Cause | None = None
    """Why it ends so, as far as that does not follow from the rest: `ended` does."""
    reference: Reference | None = None
    """What results were compared with, and whether the default is right; None where nothing was timed."""
    devices: tuple[Mapping[str, Any], ...] = ()
    """Where there are several: each with the seconds that it worked, what IREE's default takes there, and why it was
    retired."""
    bundle: Mapping[str, str] | None = None
    """What was written to be timed elsewhere: the file, and the digest that its result must name."""
    timed_elsewhere: bool = False
    """It is the result of a bundle, brought here by `autotune bundle import`."""

    @property
    def default_is_wrong(self) -> bool:
        """IREE's default was found to compute wrong results."""
        if self.details is not None:
            return self.details.default_is_wrong
        return self.reference is not None and not self.reference.default_is_right

    @property
    def ended(self) -> Cause | None:
        """Why it ends so; None for a plain win."""
        if self.interrupted:
            return "interrupted"
        if self.default_is_wrong:
            return "default-fails"
        known: dict[FinalVerdict, Cause] = {"no-winner": "no-gain", "inconclusive": "out-of-time"}
        if self.verdict == "compile-only":
            return "no-device"
        return None if self.verdict == "win" else self.cause or known[self.verdict]

    @property
    def baseline_words(self) -> str:
        """What a speedup is over: the default, unless that is wrong and faster than what is right."""
        route = self.baseline.route
        return "default" if route in (None, PLAIN.name) else f"route {route}"

    @property
    def spec(self) -> Path | None:
        return self.files.spec

    @property
    def flagfile(self) -> Path | None:
        return self.files.flagfile

    @property
    def carrier(self) -> CarrierName | None:
        return self.files.carrier

    def to_json(self) -> dict[str, Any]:
        """The document that `--json` prints."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "problem": dict(self.problem),
            "target": self.target,
            "device": self.device,
            "verdict": self.verdict,
            "reason": self.reason,
            "cause": self.ended,
            "baseline": self.baseline.to_json(),
            "stock": self.stock.to_json(),
            "best": self.best.to_json() if self.best else None,
            **({"best_codegen": self.best_codegen.to_json()} if self.best_codegen else {}),
            "speedup": _interval(self.speedup, confidence=self.confidence),
            "speedup_over_stock": _interval(self.speedup_over_stock, confidence=self.confidence),
            **({"audit": self.audited.to_json()} if self.audited else {}),
            "timing": dict(self.timing) if self.timing else None,
            "warm": self.caches.warm.to_json() if self.caches else None,
            "cold": self.caches.cold.to_json() if self.caches else None,
            "spec": str(self.spec) if self.spec else None,
            "flagfile": str(self.flagfile) if self.flagfile else None,
            "carrier": self.carrier,
            "counts": self.counts.to_json(),
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "environment": dict(self.environment),
            "notes": list(self.notes),
            **({"devices": [dict(one) for one in self.devices]} if self.devices else {}),
            **({"bundle": dict(self.bundle)} if self.bundle else {}),
            **({"imported": True} if self.timed_elsewhere else {}),
            **({"ranking": [entry.to_json() for entry in self.ranking]} if self.ranking else {}),
            "reference": self.reference.to_json() if self.reference else None,
            **(self.details.to_json() if self.details is not None else {}),
        }

    def __str__(self) -> str:
        """What the command line prints; of a part of a larger run a line."""
        return repr(self) if self.details is None else self.details.text(self)

    def __repr__(self) -> str:
        """A line: at a prompt, `print` tells the rest."""
        ratio = f", {self.speedup.median:.3f}x" if self.speedup else ""
        return f"<Result {self.run}: {self.verdict}{ratio}, {self.problem['name']} on {self.target} ({self.device})>"


def with_details(result: Result[Any], details: D, **changed: Any) -> Result[D]:
    """The result of a part, as the result of the whole."""
    values = {f.name: getattr(result, f.name) for f in fields(result)}
    return Result(**{**values, **changed, "details": details})


def read_result(document: Mapping[str, Any], *, workspace: Path, storage: str | None) -> Result:
    """What `to_json` gave for one problem, read back from a results database."""
    speedup, best = document.get("speedup"), document["best"]
    warm, cold = document.get("warm"), document.get("cold")
    spec, flagfile = (Path(document[name]) if document.get(name) else None for name in ("spec", "flagfile"))
    return Result(
        **{name: document[name] for name in _PLAIN},
        baseline=Measured.from_json(document["baseline"]),
        stock=Measured.from_json(document["stock"]),
        best=Best.from_json(best) if best else None,
        best_codegen=Best.from_json(document["best_codegen"]) if document.get("best_codegen") else None,
        speedup=_read_interval(speedup),
        speedup_over_stock=_read_interval(document.get("speedup_over_stock")),
        confidence=speedup["confidence"] if speedup else 0.0,
        counts=Counts.from_json(document["counts"]),
        notes=tuple(document["notes"]),
        interrupted=False,
        workspace=workspace,
        storage=storage,
        details=None,
        timed_elsewhere="imported" in document,
        files=Files(spec, flagfile, document["carrier"]),
        timing=document.get("timing"),
        caches=Caches(Pair.from_json(warm), Pair.from_json(cold)) if warm and cold else None,
        ranking=tuple(Best.from_json(entry) for entry in document.get("ranking", ())),
        cause=document.get("cause"),
        devices=tuple(document.get("devices", ())),
        reference=Reference.from_json(document["reference"]) if document.get("reference") else None,
    )


def _read_interval(table: Mapping[str, float] | None) -> Interval | None:
    return Interval(table["median"], table["low"], table["high"]) if table else None


def _interval(interval: Interval | None, *, confidence: float) -> dict[str, float] | None:
    return {**interval.to_json(), "confidence": confidence} if interval else None


_STEPS = ("space", "asked", "routes", "built", "cached", "duplicate", "checked", "timed", "rivals")


@dataclass(frozen=True)
class Counts:
    """The candidates of a run in numbers; `failed` has every class of failures."""

    space: int = 0
    asked: int = 0
    """All that was to be built: configurations of the space, IREE's default, and routes."""
    routes: int = 0
    """Of those asked: the default and routes, which are not of the space."""
    built: int = 0
    cached: int = 0
    duplicate: int = 0
    checked: int = 0
    timed: int = 0
    rivals: int = 0
    """Of those timed: all but the default."""
    failed: Mapping[FailureClass, int] = field(default_factory=lambda: dict.fromkeys(FAILURE_CLASSES, 0))

    @classmethod
    def total(cls, counts: Iterable[Counts]) -> Counts:
        """The counts of many runs as one."""
        runs = list(counts)
        failed = {name: sum(run.failed.get(name, 0) for run in runs) for name in FAILURE_CLASSES}
        return cls(**{step: sum(getattr(run, step) for run in runs) for step in _STEPS}, failed=failed)

    def to_json(self) -> dict[str, Any]:
        return {**{step: getattr(self, step) for step in _STEPS}, "failed": dict(self.failed)}

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Counts:
        failed = {name: int(table["failed"].get(name, 0)) for name in FAILURE_CLASSES}
        return cls(**{step: int(table.get(step, 0)) for step in _STEPS}, failed=failed)
