"""What a suite comes to: winners as few files, rows, uplift, and the JSON document over all of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.text import Text

from autotuner.build import BuildJob
from autotuner.build.ship import ship_together
from autotuner.carriers.carrier import FLAGS, CarrierName, Parts, SpecCarrier, carrier_named
from autotuner.carriers.flagfile import Flagfile, use_line
from autotuner.carriers.outputs import Outputs
from autotuner.errors import AutotuneError
from autotuner.iree.compile import Compiled
from autotuner.jobs.suite import LEAST_SECONDS
from autotuner.jobs.suite.rows import FINAL, RAW, TUNED, Row, Uplift
from autotuner.jobs.suite.workload import Workload
from autotuner.measure.blocks import ALPHA, Interval
from autotuner.measure.schedule import longer
from autotuner.problems import Problem
from autotuner.problems.render import problem_mlir
from autotuner.specfiles.merge import merge
from autotuner.system.listing import Column, Listing
from autotuner.system.text import count, microseconds
from autotuner.tuning.printer import VERDICTS, Printer
from autotuner.tuning.result import Best, Counts, Files, FinalVerdict, Measured, Result, RunFacts
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


# --- the document -----------------------------------------------------------------------------------------------------


_UNTRIED = ("below-threshold", "left-out", "skipped", "waiting")
_REASONS = {
    "compile-only": "no device: built and proven, not timed; shares are an estimate by flops",
    "inconclusive": "no problem gained 3 %, and not all came to a verdict",
    "no-winner": "no problem gained 3 %",
}


@dataclass(frozen=True)
class SuiteDetails:
    """What a suite's run tells beside the contract's document."""

    workload: Workload
    rows: tuple[Row, ...]
    uplift: Uplift
    groups: tuple[Group, ...]
    """The one that saves most first."""
    estimate: bool
    """Shares are by flops, for nothing was timed."""
    folder: Path

    @property
    def exit_code(self) -> int:
        """0, unless problems failed and none came to an end: then what they failed with."""
        failed = [row.exit_code for row in self.rows if row.verdict == "failed"]
        return failed[0] if failed and not any(row.verdict in TUNED for row in self.rows) else 0

    default_is_wrong = False

    @property
    def all_failed(self) -> bool:
        """Of those that were begun."""
        begun = [row.verdict for row in self.rows if row.verdict in TUNED or row.verdict == "failed"]
        return bool(begun) and set(begun) == {"failed"}

    @property
    def tried(self) -> int:
        return 0

    @property
    def together(self) -> tuple[Row, ...]:
        """The kept problems that one compile makes faster: those of the group that saves most."""
        main = self.groups[0] if self.groups else None
        names = set(main.problems) - set(main.lost) if main else set()
        return tuple(row for row in self.rows if row.kept and row.problem in names)

    @property
    def us_saved(self) -> float | None:
        """By one compile; what is not in it is counted at its default's time."""
        return None if self.uplift.us_total is None else self.groups[0].us_saved if self.groups else 0.0

    @property
    def saved(self) -> float:
        """The same in per cent of the workload's time."""
        return 100 * (self.us_saved or 0.0) / self.uplift.us_total if self.uplift.us_total else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "problems": [row.listed() for row in self.rows],
            "uplift": {**self.uplift.to_json(), "estimate": self.estimate},
            "one_compile": {"problems": len(self.together), "us_saved": self.us_saved, "saved": self.saved},
            "groups": [group.to_json() for group in self.groups],
            "results": str(self.folder),
            "skipped": [one.to_json() for one in self.workload.skipped],
            "skipped_count": sum(one.lines for one in self.workload.skipped),
        }

    def tell(self, result: SuiteResult, printer: Printer) -> None:
        tell_suite(result, printer)


SuiteResult = Result[SuiteDetails]


def suite_result(run: Run, details: SuiteDetails, *, environment: Mapping[str, Any]) -> SuiteResult:
    """The totals over all problems."""
    verdict, main = _verdict(details, interrupted=run.stopped), details.groups[0] if details.groups else None
    for row in details.rows:
        run.account.add(row.seconds)
    facts: RunFacts = {**run.facts(), "environment": environment}
    return Result(
        **facts,
        verdict=verdict,
        reason=_reason(details, verdict, budget=run.clock.budget),
        baseline=Measured(details.uplift.us_total),
        stock=Measured(),
        best=_best(details, main),
        speedup=_speedup(details),
        speedup_over_stock=None,
        # The ends of the interval are those of all problems at once.
        confidence=max(0.0, 1 - ALPHA * len(details.together)),
        counts=Counts.total(row.counts for row in details.rows if row.counts is not None),
        files=Files(main.spec, main.flagfile, main.carrier) if main else Files(),
        cause="failed" if verdict == "inconclusive" and details.all_failed else None,
        details=details,
    )


def _verdict(details: SuiteDetails, *, interrupted: bool) -> FinalVerdict:
    if details.uplift.kept:
        return "win"
    if details.estimate:
        return "compile-only"
    open_ends = ("inconclusive", "failed", "left-out", "waiting")
    if interrupted or any(row.verdict in open_ends for row in details.rows):
        return "inconclusive"
    return "no-winner"


def _reason(details: SuiteDetails, verdict: FinalVerdict, *, budget: float) -> str:
    tried = [row for row in details.rows if row.verdict in TUNED or row.verdict == "failed"]
    if verdict == "inconclusive" and not tried and math.isfinite(budget):
        return f"nothing was tried, the time was up: {longer(max(2 * budget, 2 * LEAST_SECONDS))}"
    if verdict == "inconclusive" and details.all_failed:
        return f"{count(len(tried), 'problem')} failed and none was tuned; the first: {tried[0].reason}"
    if verdict != "win":
        return _REASONS[verdict]
    tuned = sum(row.verdict in TUNED for row in details.rows)
    gain = f"one compile saves {details.saved:.2f} % of the workload's time"
    if len(details.groups) > 1:
        gain += f" ({details.uplift.weighted:.2f} % if each had flags of its own)"
    verb = "gains" if details.uplift.kept == 1 else "gain"
    return f"{details.uplift.kept} of {count(tuned, 'tuned problem')} {verb} 3 % or more; {gain}"


def _best(details: SuiteDetails, main: Group | None) -> Best | None:
    total, saved = details.uplift.us_total, details.us_saved
    if total is None or saved is None:
        return None
    kinds = {row.kind for row in details.rows if main and row.problem in main.problems}
    measured = Measured(total - saved, main.flags if main else ())
    return Best(measured, {}, "microkernel" if kinds == {"microkernel"} else "codegen")


def _speedup(details: SuiteDetails) -> Interval | None:
    """Of the totals, by one compile. The ends are those of all its problems at once, which holds at least with
    `confidence`."""
    total = details.uplift.us_total
    kept = details.together
    if not total or not kept:
        return None

    def over(ratios: Iterable[float | None]) -> float:
        pairs = zip(kept, ratios, strict=True)
        saved = sum(row.calls * (row.default_us or 0.0) * (1 - 1 / ratio) for row, ratio in pairs if ratio)
        return total / (total - saved)

    return Interval(over(row.ratio for row in kept), over(row.low for row in kept), over(row.high for row in kept))


def tell_suite(result: SuiteResult, printer: Printer) -> None:
    """The problems that were tried, what they gain together, and what to do with it."""
    line = printer.line
    details = result.details
    uplift = details.uplift
    printer.verdict(result, what="suite", more=f", {count(uplift.problems, 'problem')}")
    tried = [row for row in details.rows if row.verdict not in _UNTRIED]
    if tried:
        printer.table(_table(tried, estimate=details.estimate))
    for verdict in _UNTRIED:
        if rows := [row for row in details.rows if row.verdict == verdict]:
            known = [row.share for row in rows if row.share is not None]
            share = f"{sum(known):.3g} % of the time" if known else "whose share is not known"
            line("", f"{verdict}: {count(len(rows), 'problem')}, {share}")
    if uplift.us_total is not None:
        total, several = uplift.us_total, len(details.groups) > 1
        one = f"{microseconds(total - (details.us_saved or 0.0))} {'by one compile' if several else 'tuned'}"
        line("time", f"{microseconds(total)} by default, {one}")
        if several:
            each = microseconds(total - (uplift.us_saved or 0.0))
            line("", f"{each} if each problem had flags of its own: {len(details.groups)} compiles")
    if uplift.kept and uplift.average is not None:
        line("uplift", f"weighted {uplift.weighted:.2f} %, average {uplift.average:.2f} %")
        line(
            "", f"{uplift.kept} kept: {uplift.coverage:.2f} % of the time, geometric mean {uplift.geometric_mean:.3f}x"
        )
        line("", f"median {uplift.median:.3f}x, {microseconds(uplift.us_saved)} saved")
    line("results", f"{details.folder / RAW}, {FINAL}")
    for group in details.groups:
        flags = " ".join(group.flags) or "no flags of its own"
        winners = count(len(group.problems), "winner")
        line("group", f"{winners}, {microseconds(group.us_saved)} saved, {group.carrier}: {flags}")
        if group.spec is not None:
            line("spec", str(group.spec))
        if group.flagfile is not None:
            line("use", use_line(group.flagfile))
    if result.interrupted or result.verdict != "win":
        printer.next(result)


def _table(rows: Sequence[Row], *, estimate: bool) -> Listing:
    share = "share % (estimate)" if estimate else "share %"
    numbers = [Column(title, right=True) for title in ("calls", share, "default", "tuned", "ratio")]
    found = []
    for row in rows:
        ratio = ""
        if row.ratio is not None:
            ratio = f"{row.ratio:.3f}x ({row.low:.3f} to {row.high:.3f})"
        words = f"{row.verdict}{', kept' if row.kept else ''}{f': {row.reason}' if row.verdict == 'failed' else ''}"
        found.append(
            (
                row.problem,
                str(row.calls),
                "" if row.share is None else f"{row.share:.2f}",
                microseconds(row.reference_us or row.default_us),
                microseconds(row.tuned_us),
                ratio,
                Text(words, VERDICTS.get(row.verdict, "")),
            )
        )
    return Listing.of(["problem", *numbers, "verdict"], found)
