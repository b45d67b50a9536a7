"""What travels: the manifest of a bundle, and the result that comes back. Plain data, read field by field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from autotuner.bundles.fields import Fields
from autotuner.devices.conditions import Conditions, DeviceState, Sample, State
from autotuner.devices.device import MAX_REPEAT, Timing
from autotuner.iree.benchmark import CacheState
from autotuner.measure.blocks import Interval, Verdict
from autotuner.measure.caches import Cache, Caches, Pair
from autotuner.measure.check import Check
from autotuner.measure.contestant import BASELINE as BASELINE
from autotuner.measure.contestant import Kind
from autotuner.measure.judgement import Cause, Judgement

SCHEMA = 1
BUNDLE_KIND, RESULT_KIND = "autotune-bundle", "autotune-bundle-result"
Phase = Literal["screen", "drift", "race", "confirm", "cold"]
Failure = Literal["wrong-result", "run-error", "run-timeout"]
Value = str | int | bool
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[a-z0-9-]{1,40}")


@dataclass(frozen=True)
class Entry:
    """A candidate that travels: what it is, and its modules, each with another number of repeats."""

    id: str
    kind: Kind
    route: str
    label: str
    complexity: int
    config: tuple[tuple[str, Value], ...]
    binary: str
    """The digest of its code, which is the same in all its modules."""
    modules: Mapping[int, str]
    """Digests of modules by their repeats."""

    def to_json(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in ("id", "kind", "route", "label", "complexity", "binary")}
        modules = {str(repeat): key for repeat, key in self.modules.items()}
        return {**plain, "config": [list(item) for item in self.config], "modules": modules}

    @classmethod
    def read(cls, fields: Fields) -> Entry:
        name = fields.text("id")
        if _NAME.fullmatch(name) is None:
            raise fields.wrong("id", "a candidate's name")
        modules = fields.object("modules")
        for repeat in modules.table:
            digits = repeat.isascii() and repeat.isdigit() and len(repeat) < 6
            if not digits or not 1 <= int(repeat) <= MAX_REPEAT or _DIGEST.fullmatch(modules.text(repeat)) is None:
                raise fields.wrong("modules", "digests by repeats")
        if not modules.table:
            raise fields.wrong("modules", "filled")
        return cls(
            id=name,
            kind=fields.word("kind", get_args(Kind)),
            route=fields.text("route"),
            label=fields.text("label"),
            complexity=fields.whole("complexity", most=10**6),
            config=tuple(_knob(item, fields) for item in fields.entries("config")),
            binary=fields.text("binary"),
            modules={int(repeat): modules.text(repeat) for repeat in sorted(modules.table, key=int)},
        )


def _knob(item: object, fields: Fields) -> tuple[str, Value]:
    if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], str | int):
        return item[0], item[1]
    raise fields.wrong("config", "knobs with their values")


@dataclass(frozen=True)
class Manifest:
    """What was built, for which chip, by which IREE, and how it is to be timed."""

    run: str
    """The run that built it."""
    problem: str
    allow: str
    """A precision that its user accepts; empty: that of its types."""
    target: str
    flags: tuple[str, ...]
    """The user's own, for the compiler."""
    chip: str
    """The processor or the architecture that the code is for; a GPU's is the target, or what `--chip` named."""
    iree: str
    """The release of the runtime that must run it."""
    autotune: str
    microkernels: tuple[str, ...]
    """Those that take part, as the user named them."""
    cache: Cache
    state: State
    seed: int
    trials: int
    budget: float
    """Seconds for checks, timings and the race, unless who runs it says otherwise."""
    smallest_gain: float
    race_entrants: int
    run_timeout: float
    repetition_seconds: float
    entries: tuple[Entry, ...]
    """The baseline, the stock routes, then the candidates, the most promising first."""

    def to_bytes(self) -> bytes:
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in vars(self).items()}
        entries = [one.to_json() for one in self.entries]
        return json.dumps({"schema": SCHEMA, "kind": BUNDLE_KIND, **plain, "entries": entries}, indent=1).encode()

    @classmethod
    def read(cls, document: object, where: str) -> Manifest:
        fields = _known(document, where, BUNDLE_KIND)
        entries = tuple(Entry.read(one) for one in fields.objects("entries"))
        if len({one.id for one in entries}) != len(entries) or [e.id for e in entries if e.kind == BASELINE] != [
            BASELINE
        ]:
            raise fields.wrong("entries", "candidates of different names with one baseline")
        return cls(
            **{name: fields.text(name) for name in ("run", "problem", "allow", "target", "chip", "iree", "autotune")},
            flags=fields.texts("flags"),
            microkernels=fields.texts("microkernels"),
            cache=fields.word("cache", get_args(Cache)),
            state=fields.word("state", get_args(State)),
            seed=fields.whole("seed"),
            trials=fields.whole("trials", most=10**6),
            budget=fields.number("budget", most=1e7),
            smallest_gain=fields.number("smallest_gain", most=1.0),
            race_entrants=fields.whole("race_entrants", least=1, most=100),
            run_timeout=fields.number("run_timeout", most=3600.0),
            repetition_seconds=fields.number("repetition_seconds", most=10.0),
            entries=entries,
        )

    @property
    def baseline(self) -> Entry:
        return next(one for one in self.entries if one.id == BASELINE)


@dataclass(frozen=True)
class Taken:
    """One timing, as it is written down at home."""

    phase: Phase
    block: int
    timing: Timing

    def to_json(self) -> dict[str, Any]:
        conditions = self.timing.conditions.to_json() if self.timing.conditions else None
        return {"phase": self.phase, "block": self.block, "us": list(self.timing.us), "conditions": conditions}

    @classmethod
    def read(cls, fields: Fields) -> Taken:
        us = fields.numbers("us")
        if not us or min(us) <= 0:
            raise fields.wrong("us", "a list of times")
        conditions = _conditions(fields.object("conditions")) if fields.maybe("conditions") else None
        return cls(
            fields.word("phase", get_args(Phase)), fields.whole("block", most=10**6), Timing(us, conditions=conditions)
        )


def _conditions(fields: Fields) -> Conditions:
    samples = {name: fields.object(name) for name in ("before", "after") if fields.maybe(name)}
    for sample in samples.values():
        for name in sample.table:
            sample.number(name)
    before, after = (Sample.from_json(samples[name].table if name in samples else {}) for name in ("before", "after"))
    state, cache = fields.word("state", get_args(DeviceState)), fields.word("cache", get_args(CacheState))
    return Conditions(state, cache, before, after)


@dataclass
class Tried:
    """What became of a candidate on the device."""

    id: str
    check: Check
    taken: list[Taken] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        error = self.check.error if math.isfinite(self.check.error) else None  # it may not be a number at all
        check = {"failure": self.check.failure, "error": error, "detail": self.check.detail}
        return {"id": self.id, **check, "taken": [one.to_json() for one in self.taken]}

    @classmethod
    def read(cls, fields: Fields) -> Tried:
        failure = fields.word("failure", get_args(Failure)) if fields.maybe("failure") else None
        error = fields.number("error") if failure is None or fields.maybe("error") else math.inf
        check = Check(failure, error, fields.long_text("detail"))
        taken, name = [Taken.read(one) for one in fields.objects("taken")], fields.text("id")
        wrong_default = name == BASELINE and failure == "wrong-result"
        if (failure is None or wrong_default) != bool(taken):
            raise fields.wrong("taken", "what its failure says: timings where there is none, or of a wrong default")
        return cls(name, check, taken)


@dataclass(frozen=True)
class Report:
    """What a bundle came to: all checks and timings, and the verdict of the judge who sat there."""

    bundle: str
    """The digest of its manifest."""
    device: str
    environment: Mapping[str, str | float | int | None]
    tried: tuple[Tried, ...]
    judgement: Judgement
    seconds: float
    notes: tuple[str, ...]
    caches: Caches | None = None
    """The default and the best with a warm and with a cold cache, where both were timed."""
    interrupted: bool = False
    """It is not at its end: `--resume` goes on with it."""

    def to_bytes(self) -> bytes:
        plain = {name: getattr(self, name) for name in ("bundle", "device", "seconds")}
        document = {
            "schema": SCHEMA,
            "kind": RESULT_KIND,
            **plain,
            "environment": dict(self.environment),
            "notes": list(self.notes),
            "judgement": judgement_to_json(self.judgement),
            "warm": self.caches.warm.to_json() if self.caches else None,
            "cold": self.caches.cold.to_json() if self.caches else None,
            "interrupted": self.interrupted,
            "tried": [one.to_json() for one in self.tried],
        }
        return json.dumps(document, indent=1).encode()

    @classmethod
    def read(cls, document: object, where: str) -> Report:
        fields = _known(document, where, RESULT_KIND)
        environment = fields.object("environment")
        for name, value in environment.table.items():
            if value is not None and not isinstance(value, int | float):
                environment.text(name)
        tried = tuple(Tried.read(one) for one in fields.objects("tried"))
        judgement = _judgement(fields.object("judgement"))
        named = {judgement.stock, judgement.winner, judgement.confirmed_name, *judgement.us, *judgement.race_us}
        timed = {one.id for one in tried if one.taken}
        if unknown := named - timed - {None}:
            raise fields.wrong("judgement", f"about what was timed: {min(map(str, unknown))[:40]!a} was not")
        if BASELINE not in {one.id for one in tried} or len({one.id for one in tried}) != len(tried):
            raise fields.wrong("tried", "candidates of different names with the baseline")
        return cls(
            bundle=fields.text("bundle"),
            device=fields.text("device"),
            environment=environment.table,
            tried=tried,
            judgement=judgement,
            seconds=fields.number("seconds", most=1e7),
            notes=fields.texts("notes"),
            caches=_caches(fields),
            interrupted=fields.truth("interrupted"),
        )


def _caches(fields: Fields) -> Caches | None:
    if not fields.maybe("warm") or not fields.maybe("cold"):
        return None
    warm, cold = (
        Pair(one.number("baseline_us"), one.number("best_us") if one.maybe("best_us") else None)
        for one in (fields.object("warm"), fields.object("cold"))
    )
    return Caches(warm, cold)


def judgement_to_json(judgement: Judgement) -> dict[str, Any]:
    intervals = {"speedup": judgement.speedup, "over_stock": judgement.over_stock}
    plain = ("verdict", "reason", "stock", "winner", "confirmed_name", "cause")
    return {
        **{name: getattr(judgement, name) for name in plain},
        **{name: one.to_json() if one else None for name, one in intervals.items()},
        "us": dict(judgement.us),
        "race_us": dict(judgement.race_us),
    }


def _judgement(fields: Fields) -> Judgement:
    def interval(name: str) -> Interval | None:
        if not fields.maybe(name):
            return None
        one = fields.object(name)
        return Interval(one.number("median"), one.number("low"), one.number("high"))

    def times(name: str) -> dict[str, float]:
        one = fields.object(name)
        return {key: one.number(key) for key in one.table}

    judgement = Judgement(
        verdict=fields.word("verdict", get_args(Verdict)),
        reason=fields.text("reason"),
        stock=fields.text("stock"),
        winner=fields.text("winner") if fields.maybe("winner") else None,
        us=times("us"),
        race_us=times("race_us"),
        speedup=interval("speedup"),
        confirmed_name=fields.text("confirmed_name") if fields.maybe("confirmed_name") else None,
        over_stock=interval("over_stock"),
        cause=fields.word("cause", get_args(Cause)) if fields.maybe("cause") else None,
    )
    won = judgement.winner is not None and judgement.speedup is not None
    if (judgement.verdict == "win") != won:
        raise fields.wrong("verdict", "what its winner and its speedup say")
    return judgement


def _known(document: object, where: str, kind: str) -> Fields:
    fields = Fields.of(document, where)
    if fields.table.get("kind") != kind:
        raise fields.wrong("kind", kind)
    if fields.table.get("schema") != SCHEMA:
        raise fields.wrong("schema", f"{SCHEMA}, the one that this version of autotune reads")
    return fields
