"""The result of a comparison: a row for each backend of each problem, as JSON and as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from statistics import geometric_mean, median
from typing import Any

from autotuner.devices.conditions import NO_SAMPLE, Sample
from autotuner.jobs.bench.backends import IREE, TUNED, LeftOut
from autotuner.measure.blocks import ALPHA, Interval, ratio_text
from autotuner.measure.schedule import LEAST_PAIRS
from autotuner.store.rows import LEFT_OUT
from autotuner.system.listing import Column, Listing
from autotuner.system.text import count, counted, microseconds
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import SCHEMA, RunFacts

UNSUPPORTED, UNTUNED, UNTIMED = LEFT_OUT


@dataclass(frozen=True)
class BackendRow:
    """One backend with one problem."""

    name: str
    version: str = ""
    how: str = ""
    blocks_us: tuple[float, ...] = ()
    """The median of each block."""
    cold_us: float | None = None
    result: str = ""
    """The type of what comes out."""
    error: float | None = None
    """Relative, against the reference."""
    failure: str = ""
    reason: str = ""
    spec: str = ""
    applied: int = 0
    """Operations that its spec is proven to reach."""
    sample: Sample = NO_SAMPLE
    """The device after its blocks, in the median."""

    @property
    def us(self) -> float | None:
        return median(self.blocks_us) if self.blocks_us else None

    def over(self, other: BackendRow | None) -> Interval | None:
        """How many times faster than another: by the blocks that both were timed in, one beside the other."""
        if other is None:
            return None
        ratios = [theirs / own for own, theirs in zip(self.blocks_us, other.blocks_us, strict=False)]
        if not ratios:
            return None
        known = Interval.of([math.log(ratio) for ratio in ratios])
        return known or Interval(median(ratios), min(ratios), max(ratios))

    def to_json(self) -> dict[str, Any]:
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("name", "sample")}
        figures = {"us": self.us, "blocks_us": list(self.blocks_us), "device_state": self.sample.to_json()}
        return {"backend": self.name, **own, **figures}


@dataclass(frozen=True)
class ProblemRows:
    """A problem on all backends."""

    problem: Mapping[str, Any]
    """As documents have it, with its arguments."""
    rows: tuple[BackendRow, ...]
    run: str
    calls: int = 1
    notes: tuple[str, ...] = ()

    @property
    def by_name(self) -> dict[str, BackendRow]:
        return {row.name: row for row in self.rows}

    def line(self) -> str:
        """Each backend with its time, or the reason why it has none."""
        return ", ".join(f"{row.name} {microseconds(row.us) if row.us else row.failure}" for row in self.rows)

    def gflops(self, row: BackendRow) -> float | None:
        flops = self.problem.get("flops")
        return flops / row.us / 1e3 if flops and row.us else None

    def to_json(self) -> dict[str, Any]:
        rows = []
        for row in self.rows:
            ratio = row.over(self.by_name.get(IREE))
            known = len(row.blocks_us) >= LEAST_PAIRS
            over = {**ratio.to_json(), "confidence": 1 - ALPHA if known else None} if ratio else None
            rows.append({**row.to_json(), "gflops": self.gflops(row), "over_iree": over})
        return {**self.problem, "run": self.run, "calls": self.calls, "backends": rows, "notes": list(self.notes)}


@dataclass(frozen=True)
class BenchResult:
    """One finished comparison."""

    facts: RunFacts
    problems: tuple[ProblemRows, ...]
    left_out: tuple[LeftOut, ...] = ()
    blocks: int = 0
    not_reached: tuple[str, ...] = ()
    """Problems that were not reached, by name."""
    verdict: str = field(default="measured", init=False)

    @property
    def interrupted(self) -> bool:
        return self.facts["interrupted"]

    @property
    def failed(self) -> bool:
        """Nothing at all could be timed."""
        return not any(row.us for one in self.problems for row in one.rows)

    def summary(self) -> dict[str, dict[str, Any]]:
        """By backend: over how many problems, and by how much in the geometric mean, tuned IREE is faster; where
        nothing was tuned, IREE's default."""
        own = TUNED if any(one.by_name.get(TUNED, BackendRow("")).us for one in self.problems) else IREE
        found: dict[str, dict[str, Any]] = {}
        for name in dict.fromkeys(row.name for one in self.problems for row in one.rows):
            pairs = [(one.by_name.get(own), one.by_name.get(name)) for one in self.problems]
            over = [a.over(b) for a, b in pairs if a is not None]
            ratios = [ratio.median for ratio in over if ratio is not None]
            if name != own and ratios:
                faster = sum(ratio > 1 for ratio in ratios)
                mean = geometric_mean(ratios)
                found[name] = {"by": own, "problems": len(ratios), "faster": faster, "geometric_mean": mean}
        return found

    def to_json(self) -> dict[str, Any]:
        facts = {name: self.facts[name] for name in ("run", "problem", "target", "device", "seconds", "environment")}
        one = self.problems[0].by_name if len(self.problems) == 1 else {}
        times = {name: {"us": one[of].us} for name, of in (("baseline", IREE), ("best", TUNED)) if of in one}
        return {
            "schema": SCHEMA,
            **facts,
            "verdict": self.verdict,
            "timing": self.facts["timing"],
            "blocks": self.blocks,
            **times,
            "problems": [one.to_json() for one in self.problems],
            "summary": self.summary(),
            "left_out": [one.to_json() for one in self.left_out],
            "interrupted": self.interrupted,
            "not_reached": list(self.not_reached),
            "notes": list(self.facts["notes"]),
        }

    def printer(self) -> Printer:
        printer = Printer()
        several = len(self.problems) + len(self.not_reached) > 1
        printer.table(_listing(self.problems, several=several))
        where = f"on {self.facts['target']} ({self.facts['device']})"
        printer.line("problem" if not several else "suite", f"{self.facts['problem']['name']} {where}")
        for name, entry in self.summary().items():
            mean = entry["geometric_mean"]
            ahead = f"{ratio_text(max(mean, 1 / mean))} {'faster' if mean >= 1 else 'slower'} than {name}"
            more = f" in the geometric mean of {count(entry['problems'], 'problem')}, faster in {entry['faster']}"
            printer.line("against", f"{entry['by']} is {ahead}{more if several else ''}")
        for one in self.left_out:
            printer.line("left out", str(one))
        if self.not_reached:
            printer.line("no time", f"{count(len(self.not_reached), 'problem')} (-v names them)")
            printer.more("no time", ", ".join(self.not_reached))
        for note, often in counted(note for note in self.facts["notes"] if note not in map(str, self.left_out)):
            printer.more("note", f"{note} ({often} times)" if often > 1 else note)
        printer.line("run", f"{self.facts['run']}: `autotune export {self.facts['run']} --csv` has every row")
        return printer

    def __str__(self) -> str:
        return self.printer().text()


def _listing(problems: Sequence[ProblemRows], *, several: bool) -> Listing:
    titles = ("time", "GFLOP/s", "over iree", "cold cache", "MHz")
    numbers = [Column(title, right=True) for title in titles]
    rows = []
    for one in problems:
        default = one.by_name.get(IREE)
        for row in one.rows:
            ratio, gflops = row.over(default), one.gflops(row)
            over = str(ratio) if ratio and row.name != IREE else ""
            cells = (
                row.name,
                microseconds(row.us),
                (f"{gflops:.0f}" if gflops >= 10 else f"{gflops:.2g}") if gflops else "",
                over,
                microseconds(row.cold_us) if row.cold_us else "",
                f"{row.sample.mhz:.0f}" if row.sample.mhz else "",
                f"{row.failure}: {row.reason}" if row.failure else row.how,
            )
            rows.append((str(one.problem["name"]), *cells) if several else cells)
    heads = [Column("problem", head=True), Column("backend", head=True)] if several else [Column("backend", head=True)]
    return Listing.of([*heads, *numbers, "how"], rows)
