"""Ships a tuned model: spec, executables and flagfile together, proven by a fresh compile, and a report to read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from autotuner.build.ship import Shipped
from autotuner.build.ship import ship as ship_parts
from autotuner.carriers.calls import kernel_calls, prove
from autotuner.carriers.flagfile import use_line
from autotuner.carriers.outputs import MARK, Outputs
from autotuner.iree.compile import PREPROCESSED, Compiled, shell_line
from autotuner.jobs.model.entries import applied
from autotuner.jobs.model.result import ModelDetails, ModelResult
from autotuner.jobs.model.whole import Tuned
from autotuner.measure.judgement import Judgement
from autotuner.programs.builder import ModelBuilder
from autotuner.system.text import printable
from autotuner.tuning.result import FinalVerdict

_LISTED_SHARE = 0.01
"""Of the time: from here on a dispatch that has nothing to tune has a line of its own."""


def claimed(verdict: FinalVerdict, reason: str, judgement: Judgement | None) -> str:
    """For the head of a spec."""
    gain = judgement.speedup if judgement else None
    if gain is None:
        return f"{verdict}, {reason}"
    return f"{verdict}, {gain.median:.3f}x, 95 % interval {gain.bounds}"


def ship(
    files: Outputs,
    made: Tuned,
    flags: Sequence[str],
    *,
    builder: ModelBuilder,
    folder: Path,
    timeout: float,
    verdict: str,
    again: bool = True,
) -> Shipped:
    """Writes the files and compiles the model with them, as a user would: every entry must apply.

    What is by flags alone may do without that (not `again`): its module is the one that was timed, and the flagfile is
    proven to be what made it.
    """
    program = builder.program.path
    header = [
        f"model:      {program}",
        f"verdict:    {verdict}",
        f"use:        {use_line(files.flagfile, program=program)}",
    ]
    spec, kernels = (_headed(text, header) for text in (made.parts.spec, made.parts.kernels))

    def check(flagfile: Path) -> Compiled:
        if made.by_flags and not again:
            return builder.made_before(flagfile, made.build, timeout=timeout)
        build = builder.build_shipped(flagfile, folder=folder, timeout=timeout)
        missing = [f"{entry.label} ({why})" for entry in made.entries for n, why in [applied(build, entry)] if not n]
        if made.kernels and build.ok:
            calls = kernel_calls([entry.call() for entry in made.kernels])
            reason = prove(build.dumped[PREPROCESSED][0], calls).reason(calls)
            missing += [reason] if reason else []
        return replace(build, failure="not-applied", stderr="; ".join(missing)) if build.ok and missing else build

    parts = replace(made.parts, spec=spec, kernels=kernels)
    return ship_parts(files, parts, flags, check=check, binary=made.build.binary)


def _headed(text: str | None, lines: Sequence[str]) -> str | None:
    """A spec with more lines behind the first of its leading comment."""
    if text is None:
        return None
    first, _, rest = text.partition("\n")
    return "\n".join([first, *(f"// {printable(line)}" for line in lines), rest])


def report_text(result: ModelResult) -> str:
    """The run as a page of Markdown."""
    details = result.details
    lines = [
        MARK,
        f"# {result.problem['name']} on {result.target} ({result.device})",
        "",
        f"**{result.verdict}**: {result.reason}",
        "",
        f"made by: `{shell_line(details.commands)}`",
        "",
        *_right(details),
        "| route | time of the model | error | |",
        "|---|---|---|---|",
    ]
    for tried in details.routes:
        time = f"{tried.us / 1000:.3f} ms" if tried.us is not None else "–"
        error = f"{tried.error:.1e}" if tried.error is not None else "–"
        what = tried.failure or shell_line(tried.route.flags)
        lines.append(f"| {tried.route.name} | {time} | {error} | {_cell(what)} |")
    lines += ["", f"Dispatches on route {details.ranked_route}, ranked by {details.ranked_by}:", ""]
    lines += ["| dispatch | calls | share | what became of it | speedup alone | code |", "|---|---|---|---|---|---|"]
    for row in details.rows:
        speedup = row.result.speedup if row.result else None
        gain = f"{speedup.median:.2f}x ({speedup.low:.2f} to {speedup.high:.2f})" if speedup else "–"
        state = row.state + (f": {row.reason}" if row.reason else "")
        lines.append(
            f"| {row.label} | {row.group.calls} | {row.share:.1%} | {_cell(state)} | {gain} | {details.code(row)} |"
        )
    listed = [one for one in details.untunable if one.share >= _LISTED_SHARE]
    lines += [f"| {o.name} | {o.calls} | {o.share:.1%} | nothing to tune: {o.reason} | – | default |" for o in listed]
    rest = details.others - sum(one.share for one in listed)
    if rest > 0:
        lines.append(f"| all others | | {rest:.1%} | nothing to tune | – | default |")
    if details.time:
        lines += ["", "Where the time of one call goes:", "", *details.time.lines()]
    if details.kernels:
        lines += ["", "Operations that microkernels compute, each with what is fused to it:", ""]
        lines += ["| operation | calls | share | kernel | alone | compiler's best alone | what became of it |"]
        lines += ["|---|---|---|---|---|---|---|"]
    for place in details.kernels:
        us = [f"{time:.1f} µs" if time is not None else "–" for time in (place.us, place.codegen_us)]
        state = place.state + (f": {place.reason}" if place.reason else "")
        lines.append(
            f"| {place.place.problem.name} | {place.place.calls} | {place.place.share:.1%} | {place.kernel or '–'} | "
            f"{us[0]} | {us[1]} | {_cell(state)} |"
        )
    lines += ["", *(f"- {note}" for note in result.notes), ""]
    return "\n".join(lines)


def _right(details: ModelDetails) -> list[str]:
    """What outputs were compared with; nothing without a device."""
    arbiter = details.arbiter
    if arbiter is None:
        return []
    wrong = f" {arbiter.words[0].upper()}{arbiter.words[1:]}." if arbiter.words else ""
    undecided = f" The same program on llvm-cpu did not decide: {arbiter.why_none}." if arbiter.why_none else ""
    return [f"Outputs are compared with those of {arbiter.against}.{wrong}{undecided}", ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
