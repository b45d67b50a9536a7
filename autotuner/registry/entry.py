"""One entry of a registry: what was faster than IREE's default, on which chip, with which IREE; and its line in a
file."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal

from autotuner.carriers.carrier import CarrierName, TextCarrier
from autotuner.carriers.provenance import Provenance
from autotuner.errors import UsageError
from autotuner.problems import Gemm, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.epilogue import NOTHING
from autotuner.problems.operations import problem_named
from autotuner.space.dispatch import CompilationInfo
from autotuner.space.table import Value
from autotuner.specfiles.entries import Entry, read_spec
from autotuner.specfiles.flagfile import objection
from autotuner.system.fields import plain, read
from autotuner.targets import Route

REACH = 2.0
"""How far apart shapes may be, in doublings: one size four times as large, or two twice. What tiles are good for one
says little of the other beyond; a kernel's own estimate then says more."""
MODEL, DISPATCH = "model", "dispatch"
KERNEL = "kernel"
"""The knob that names a microkernel."""
_LONGEST = 1 << 18
"""Characters of a line: a spec of one entry has some three thousand."""


@dataclass(frozen=True, kw_only=True)
class RegistryEntry:
    """Fields that do not apply are empty; a line leaves them out."""

    chip: str
    """The target that it was compiled for: `cpu`, `sm_80`, `mi300x`."""
    sku: str
    """The processor or GPU by its maker's name, on which it was timed."""
    iree: str
    op: str
    """gemm, conv or attention; `dispatch` of a model; or a whole `model`, whose flags these are."""
    problem: str
    """The name has types, layout and sizes."""
    ops: tuple[str, ...] = ()
    """A model's operations."""
    sha256: str = ""
    """A model's file."""
    carrier: CarrierName
    route: str = "plain"
    flags: tuple[str, ...] = ()
    """Beside the target's own."""
    kernel: str = ""
    """The microkernel, and what its knobs were; without any, its defaults."""
    config: Mapping[str, str | int | bool] = field(default_factory=dict)
    spec: tuple[str, ...] = ()
    """The lines of a tuning spec."""
    binary: str = ""
    """The hash of the code that was timed; empty: it was a part of a larger program."""
    verdict: Literal["win"] = "win"
    low: float
    median: float
    high: float
    """How many times as fast as IREE's default, with a confidence of 95 %; of a part of a model, the whole model."""
    us: float | None = None
    baseline_us: float | None = None
    error: float | None = None
    """How far its results are from the reference."""
    within: str = ""
    """The model that it is a part of, and that was timed; empty: it was timed alone."""
    allow: str = ""
    """The accuracy that was accepted."""
    device: str = ""
    driver: str = ""
    date: str
    command: str
    run: str

    def __post_init__(self) -> None:
        if why := objection(self.flags):
            raise ValueError(f"free of what could do harm: {why}")
        if not 0 < self.low <= self.median <= self.high:
            raise ValueError("with an interval in order")

    @classmethod
    def from_line(cls, line: str, where: str) -> RegistryEntry:
        """Reads a line of a file that may be a stranger's."""
        if len(line) > _LONGEST:
            raise UsageError(f"{where} is longer than {_LONGEST} characters.", remedy="Is it a registry?")
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            raise UsageError(f"{where} is not JSON.", remedy="A registry has one JSON object a line.") from None
        return read(cls, document, where)

    def line(self) -> str:
        known = {one.name: plain(getattr(self, one.name)) for one in fields(self)}
        kept = {name: value for name, value in known.items() if value not in (None, "", [], {}, "plain")}
        return json.dumps(kept, ensure_ascii=False, allow_nan=False)

    # --- what it is for -----------------------------------------------------------------------------------------------

    @property
    def key(self) -> tuple[str, ...]:
        """Of entries with the same key one stays."""
        own = (self.sha256, *self.flags) if self.op in (MODEL, DISPATCH) else ()
        return (self.chip, self.sku, self.iree, self.op, self.problem, self.allow, *own)

    @property
    def file(self) -> str:
        """A file for each chip: several hold entries that no other of them has."""
        words = re.findall(r"[a-z0-9.]+", self.sku.lower().replace("(r)", "").replace("(tm)", ""))
        return "-".join(words)[:80] + ".jsonl"

    @property
    def rank(self) -> tuple[bool, float, str]:
        """The better of two has more: timed alone, gains more for certain, newer."""
        return (not self.within, self.low, self.date)

    @property
    def knobs(self) -> Mapping[str, Value]:
        """In the space of a search: with the microkernel's name."""
        return {**self.config, KERNEL: self.kernel} if self.kernel else self.config

    @property
    def own_route(self) -> Route:
        return Route(self.route, self.flags)

    @cached_property
    def of(self) -> Problem | None:
        """The problem of its name; None: it is a model's, or of an operation that this autotune does not know."""
        return problem_named(self.problem)

    @cached_property
    def entry(self) -> Entry:
        """What its spec does. One that could do harm is refused."""
        entries = read_spec("\n".join(self.spec), name=f"the spec of {self.problem}").entries
        if len(entries) != 1:
            raise UsageError(f"the spec of {self.problem} has {len(entries)} entries.", remedy="It must have one.")
        return entries[0]

    def carrier_of_spec(self, flag: str) -> TextCarrier:
        """Its spec, for the target's flag of specs."""
        of = self.entry
        info = CompilationInfo(of.lowering_config, of.translation_info, of.decomposition_config or None)
        return TextCarrier("\n".join(self.spec) + "\n", info, flag)

    def provenance(self, problem: str) -> Provenance:
        """For a file that is made of it for this problem: of another shape it has no figures."""
        said = Provenance(problem=problem, target=self.chip, iree=self.iree, date=self.date, command=self.command)
        if problem != self.problem:
            return replace(said, verdict=f"never timed: as {self.problem}, the nearest shape in the registry")
        return replace(
            said,
            device=self.device,
            machine=self.sku,
            driver=self.driver,
            verdict=f"judged in {self.within}" if self.within else self.verdict,
            us=self.us,
            baseline_us=self.baseline_us,
            low=None if self.within else self.low,
            median=None if self.within else self.median,
            high=None if self.within else self.high,
        )

    def distance(self, problem: Problem) -> float:
        """How far its shape is from this one's, in doublings of sizes, whatever is added to the sums; infinite where
        they cannot be compared."""
        if self.of is None or self.of.op != problem.op or self.of.types != problem.types:
            return math.inf
        mine, yours = _bare(self.of).operands, _bare(problem).operands
        if [len(one.shape) for one in mine] != [len(one.shape) for one in yours]:
            return math.inf
        pairs = (pair for a, b in zip(mine, yours, strict=True) for pair in zip(a.shape, b.shape, strict=True))
        # A size is a dimension of two operands, mostly.
        return math.hypot(*(math.log2(a / b) for a, b in pairs)) / math.sqrt(2)

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.line())
        return found


def _bare(problem: Problem) -> Problem:
    """Without bias, residual and activation, which change nothing of what tiles are good."""
    return replace(problem, epilogue=NOTHING) if isinstance(problem, (Gemm, Conv)) else problem
