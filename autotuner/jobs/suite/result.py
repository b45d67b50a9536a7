"""A suite's result: winners as few files, rows, uplift, and the JSON document over all of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.text import Text

from autotuner.build import BuildJob
from autotuner.build.ship import ship_together
from autotuner.carriers.carrier import FLAGS, CarrierName, MicrokernelCarrier, Parts, SpecCarrier, carrier_named
from autotuner.carriers.flagfile import use_line
from autotuner.carriers.outputs import Outputs
from autotuner.errors import AutotuneError
from autotuner.iree.compile import Compiled
from autotuner.jobs.suite.rows import FINAL, RAW, TUNED, Row, Uplift
from autotuner.jobs.suite.workload import Workload
from autotuner.measure.blocks import ALPHA, Interval, ratio_text
from autotuner.problems.render import problem_mlir
from autotuner.specfiles.flagfile import Flagfile
from autotuner.specfiles.merge import merge
from autotuner.system.listing import Column, Listing
from autotuner.system.text import count, microseconds
from autotuner.tuning.printer import VERDICTS, Printer, Told, shown
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
        files = {name: str(path) if path else None for name, path in (("spec", self.spec), ("flagfile", self.flagfile))}
        return {**asdict(self), "flags": list(self.flags), "problems": list(self.problems), **files}


@dataclass(frozen=True)
class Shipper:
    """Merges, writes, and compiles every winner once more with what it has written."""

    run: Run
    files: Outputs
    made_by: Sequence[str] = ()

    def ship(self, kept: Sequence[Row]) -> list[Group]:
        """The group that saves most is merged; the others have the files of their own runs.

        What belongs to one program (a substituted executable, a microkernel) is a group of its own.
        """
        sets: dict[tuple[bool, object], list[Row]] = {}
        for row in kept:
            merges = row.result is not None and carrier_named(row.result.carrier).merges
            sets.setdefault((merges, row.flags if merges else row.name), []).append(row)
        ((merges, _), first), *others = sorted(sets.items(), key=lambda one: _saving(one[1]), reverse=True)
        return [self._merged(first) if merges else _apart(first), *(_apart(rows) for _, rows in others)]

    def _merged(self, rows: Sequence[Row]) -> Group:
        flags, target = rows[0].flags, self.run.target
        specs = [row.result.spec for row in rows if row.result and row.result.spec]
        plain = Group(flags, SpecCarrier.name if specs else FLAGS.name, tuple(row.name for row in rows))
        parts = Parts()
        try:
            if specs:
                use = f"use:        {use_line(self.files.flagfile)}"
                merged = merge(specs, tools=self.run.session.tools, made_by=[*self.made_by, use])
                parts = Parts(plain.carrier, merged.text, target.spec_flag)
            shipped, lost = ship_together(
                self.files,
                parts,
                [*target.compile_flags, *flags],
                compiles=lambda flagfile: {row.name: self._compile(row, flagfile) for row in rows},
                binaries={row.name: row.binary for row in rows},
            )
        except AutotuneError as error:
            return replace(plain, lost=dict.fromkeys(plain.problems, str(error)))
        if shipped is None:
            return replace(plain, lost=lost)
        gain = _saving([row for row in rows if row.name not in lost])
        return replace(plain, us_saved=gain, spec=shipped.spec, flagfile=shipped.flagfile, lost=lost)

    def _compile(self, row: Row, flagfile: Path) -> Future[Compiled]:
        """A problem, compiled with a flagfile's flags."""
        target, session = self.run.target, self.run.session
        flags = Flagfile.read(flagfile, known=target.user_flags).flags
        source = problem_mlir(target.prepare(row.entry.problem))
        return session.executor.start(BuildJob(source, flags, self.run.options.effort.compile_timeout))


def _saving(rows: Sequence[Row]) -> float:
    return sum(row.us_saved for row in rows)


def _apart(rows: Sequence[Row]) -> Group:
    """As their own runs have shipped them."""
    files = rows[0].result.files if len(rows) == 1 and rows[0].result else Files()
    names = tuple(row.name for row in rows)
    return Group(rows[0].flags, files.carrier or FLAGS.name, names, _saving(rows), files.spec, files.flagfile)


# --- the document -----------------------------------------------------------------------------------------------------


_UNTRIED = ("below-threshold", "left-out", "skipped", "waiting")
_REASONS = {
    "compile-only": "no device: built and proven, not timed; shares are an estimate by flops",
    "inconclusive": "no problem gained 3 %, and not all have a verdict",
    "no-winner": "no problem gained 3 %",
}


@dataclass(frozen=True)
class SuiteDetails(Told):
    """What a suite's document has beside the contract's."""

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
        """0, unless problems failed and none finished: then the code of the first."""
        failed = [row.exit_code for row in self.rows if row.verdict == "failed"]
        return failed[0] if failed and not any(row.verdict in TUNED for row in self.rows) else 0

    @property
    def together(self) -> tuple[Row, ...]:
        """The kept problems that one compile makes faster: those of the group that saves most."""
        main = self.groups[0] if self.groups else None
        names = set(main.problems) - set(main.lost) if main else set()
        return tuple(row for row in self.rows if row.kept and row.name in names)

    @property
    def us_saved(self) -> float | None:
        """By one compile; other problems count at their default's time."""
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
        """The problems that were tried, what they gain together, and what to do with it."""
        line = printer.line
        uplift = self.uplift
        printer.verdict(result, what="suite", more=f", {count(uplift.problems, 'problem')}")
        if uplift.us_total is not None:
            total, several = uplift.us_total, len(self.groups) > 1
            one = f"{microseconds(total - (self.us_saved or 0.0))} {'by one compile' if several else 'tuned'}"
            line("time", f"{microseconds(total)} by default, {one}")
            if several:
                each = microseconds(total - (uplift.us_saved or 0.0))
                printer.more("time", f"{each} if each problem had flags of its own: {len(self.groups)} compiles")
        tried = [row for row in self.rows if row.verdict not in _UNTRIED]
        tried.sort(key=lambda row: row.share or 0.0, reverse=True)
        if tried:
            printer.table(_short(tried), whole=_table(tried, estimate=self.estimate))
        for verdict in _UNTRIED:
            if rows := [row for row in self.rows if row.verdict == verdict]:
                printer.more("", f"{verdict}: {count(len(rows), 'problem')}, {shared(rows)}")
        if uplift.kept and uplift.average is not None:
            printer.more("uplift", f"weighted {uplift.weighted:.2f} %, average {uplift.average:.2f} %")
            kept = (
                f"{uplift.kept} kept: {uplift.coverage:.2f} % of the time, geometric mean {uplift.geometric_mean:.3f}x"
            )
            printer.more("", f"{kept}, {microseconds(uplift.us_saved)} saved")
        for number, group in enumerate(self.groups):
            flags = " ".join(group.flags) or "no flags of its own"
            tell = printer.more if number else line
            printer.more(
                "group", f"{count(len(group.problems), 'winner')}, {microseconds(group.us_saved)} saved, {flags}"
            )
            if group.spec is not None:
                tell("spec", shown(group.spec))
            if group.flagfile is not None:
                tell("use", use_line(Path(shown(group.flagfile))))
        line("results", f"{shown(self.folder / RAW)}, {FINAL}")
        if result.interrupted or result.verdict != "win":
            printer.next(result)
        printer.end(result)


SuiteResult = Result[SuiteDetails]


def suite_result(run: Run, details: SuiteDetails, *, environment: Mapping[str, Any]) -> SuiteResult:
    """The totals over all problems."""
    verdict, main = _verdict(details, interrupted=run.stopped), details.groups[0] if details.groups else None
    results = [row.result for row in details.rows if row.result is not None]
    for one in results:
        run.account.add(one.seconds)
    facts: RunFacts = {**run.facts(), "environment": environment}
    return Result(
        **facts,
        verdict=verdict,
        reason=_executed(results) if verdict == "compile-only" and run.session.emulated else _reason(details, verdict),
        baseline=Measured(details.uplift.us_total),
        stock=Measured(),
        best=_best(details, main),
        speedup=_speedup(details),
        speedup_over_stock=None,
        # The ends of the interval are those of all problems at once.
        confidence=max(0.0, 1 - ALPHA * len(details.together)),
        counts=Counts.total(one.counts for one in results),
        files=Files(main.spec, main.flagfile, main.carrier) if main else Files(),
        cause="failed" if details.exit_code else None,
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


def _reason(details: SuiteDetails, verdict: FinalVerdict) -> str:
    failed = [row.reason for row in details.rows if row.verdict == "failed"]
    if details.exit_code:
        return f"{count(len(failed), 'problem')} failed and none was tuned; the first: {failed[0]}"
    if verdict != "win":
        return _REASONS[verdict]
    tuned = sum(row.verdict in TUNED for row in details.rows)
    gain = f"one compile saves {details.saved:.2f} % of the workload's time"
    if len(details.groups) > 1:
        gain += f" ({details.uplift.weighted:.2f} % if each had flags of its own)"
    verb = "gains" if details.uplift.kept == 1 else "gain"
    return f"{details.uplift.kept} of {count(tuned, 'tuned problem')} {verb} 3 % or more; {gain}"


def _executed(results: Sequence[Result]) -> str:
    """What an emulated device says of all binaries."""
    counts = Counts.total(one.counts for one in results)
    right = counts.checked - counts.failed.get("wrong-result", 0)
    return f"executed on an emulated device: {right} of {counts.checked} right; nothing is timed, shares are by flops"


def _best(details: SuiteDetails, main: Group | None) -> Best | None:
    total, saved = details.uplift.us_total, details.us_saved
    if total is None or saved is None:
        return None
    measured = Measured(total - saved, main.flags if main else ())
    return Best(measured, {}, "microkernel" if main and main.carrier == MicrokernelCarrier.name else "codegen")


def _speedup(details: SuiteDetails) -> Interval | None:
    """Of the totals, by one compile. The ends are those of all its problems at once, which holds at least with
    `confidence`."""
    total = details.uplift.us_total
    kept = [(row.us, row.speedup) for row in details.together if row.speedup is not None]
    if not total or not kept:
        return None

    def over(ratios: Iterable[float]) -> float:
        return total / (total - sum(us * (1 - 1 / ratio) for (us, _), ratio in zip(kept, ratios, strict=True)))

    return Interval(over(s.median for _, s in kept), over(s.low for _, s in kept), over(s.high for _, s in kept))


def shared(rows: Sequence[Row]) -> str:
    """Their share of the workload's time, in words."""
    known = [row.share for row in rows if row.share is not None]
    return f"{sum(known):.3g} % of the time" if known else "their share is not known"


def _short(rows: Sequence[Row]) -> Listing:
    """A row for the screen: the name, both times, and the gain or the verdict."""
    heads = [Column("default", right=True), Column("tuned", right=True)]
    found = []
    for row in rows:
        gain = ratio_text(row.speedup.median) if row.speedup and row.verdict == "win" else ""
        words = Text(f"{row.verdict} {gain}".strip(), VERDICTS.get(row.verdict, ""))
        found.append((row.name, microseconds(row.reference_us), microseconds(row.tuned_us), words))
    return Listing.of(["problem", *heads, "verdict"], found)


def _table(rows: Sequence[Row], *, estimate: bool) -> Listing:
    share = "share % (estimate)" if estimate else "share %"
    numbers = [Column(title, right=True) for title in ("calls", share, "default", "tuned", "ratio")]
    found = []
    for row in rows:
        words = f"{row.verdict}{', kept' if row.kept else ''}{f': {row.reason}' if row.verdict == 'failed' else ''}"
        found.append(
            (
                row.name,
                str(row.entry.calls),
                "" if row.share is None else f"{row.share:.2f}",
                microseconds(row.reference_us),
                microseconds(row.tuned_us),
                str(row.speedup or ""),
                Text(words, VERDICTS.get(row.verdict, "")),
            )
        )
    return Listing.of(["problem", *numbers, "verdict"], found)
