"""Ships a tuned model: spec, executables and flagfile together, proven by a fresh compile, and a report to read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotuner.carriers.flagfile import flagfile_text
from autotuner.carriers.outputs import MARK, Outputs
from autotuner.errors import EnvironmentFailure
from autotuner.iree.compile import first_error, shell_line
from autotuner.jobs.model.entries import Assembly, Entry, applied
from autotuner.jobs.model.program import ProgramBuild, ProgramBuilder
from autotuner.jobs.model.result import ModelResult

_REMEDY = "Run again; if it stays so, please report it with the report and the candidates folder."


def ship(
    files: Outputs,
    flags: Sequence[str],
    assembly: Assembly,
    entries: Sequence[Entry],
    *,
    spec_flag: str,
    builder: ProgramBuilder,
    expected: ProgramBuild | None,
    folder: Path,
    timeout: float,
) -> int:
    """Writes the files and compiles the model with them, as a user would; gives how many entries applied."""
    files.clear()
    carried = assembly.write(files.spec, files.executables, spec_flag=spec_flag, put=files.write)
    files.write(files.flagfile, flagfile_text([*flags, *carried]))
    try:
        build = builder.build_fresh([f"@{files.flagfile.absolute()}"], folder=folder, timeout=timeout)
        if not build.ok:
            raise EnvironmentFailure(
                f"the model does not compile with {files.flagfile}: {first_error(build.stderr)}", remedy=_REMEDY
            )
        missing = [f"{entry.label} ({why})" for entry in entries for n, why in [applied(build, entry)] if not n]
        if missing:
            raise EnvironmentFailure(f"shipped entries do not apply: {'; '.join(missing)}.", remedy=_REMEDY)
        if expected is not None and build.binary != expected.binary:
            raise EnvironmentFailure("the shipped files give another binary than the one that won.", remedy=_REMEDY)
    except EnvironmentFailure:
        files.clear()
        raise
    return len(entries)


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
        "| route | time of the model | error | |",
        "|---|---|---|---|",
    ]
    for tried in details.routes:
        time = f"{tried.us / 1000:.3f} ms" if tried.us is not None else "–"
        error = f"{tried.error:.1e}" if tried.error is not None else "–"
        what = tried.failure or shell_line(tried.route.flags)
        lines.append(f"| {tried.route.name} | {time} | {error} | {_cell(what)} |")
    lines += ["", f"Dispatches on route {details.ranked_route}, ranked by {details.ranked_by}:", ""]
    lines += ["| dispatch | calls | share | what became of it | speedup alone |", "|---|---|---|---|---|"]
    for row in details.rows:
        speedup = row.result.speedup if row.result else None
        gain = f"{speedup.median:.2f}x ({speedup.low:.2f} to {speedup.high:.2f})" if speedup else "–"
        state = row.state + (f": {row.reason}" if row.reason else "")
        lines.append(f"| {row.label} | {row.group.calls} | {row.share:.1%} | {_cell(state)} | {gain} |")
    if details.others:
        lines.append(f"| all others | | {details.others:.1%} | nothing to tune | – |")
    lines += ["", *(f"- {note}" for note in result.notes), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
