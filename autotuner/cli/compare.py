"""`autotune compare`: two sets of results, and the exit code that a build server reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import typer

from autotuner.cli.console import emit, make_console, show
from autotuner.cli.request import chosen
from autotuner.errors import EXIT_REGRESSION, UsageError
from autotuner.report.compare.join import Comparison, compare
from autotuner.report.compare.page import page
from autotuner.report.compare.render import document, environment_table, markdown, table, to_csv
from autotuner.report.compare.rules import find_rule
from autotuner.report.compare.sets import open_set
from autotuner.store.figures import Which
from autotuner.system.workspace import write_whole

_WHICH: tuple[Which, ...] = ("named", "all")


def run_compare(
    words: tuple[str, str],
    *,
    rule: str,
    threshold: float | None,
    kernels: str,
    across: str,
    output: Path | None,
    forms: Mapping[str, bool],
    fail_on_regression: bool,
    workspace: Path,
    storage: str | None,
    no_color: bool,
) -> None:
    """Compares, prints in the form that is asked for, and ends with 6 where --fail-on-regression finds something;
    where that has nothing to look at, it is an error."""
    if output is not None and output.suffix != ".html":
        raise UsageError(f"-o {output} is not an .html file.", remedy="Name a page, such as -o compare.html.")
    wanted = [name for name, asked in forms.items() if asked]
    if len(wanted) > 1:
        raise UsageError(f"--{wanted[0]} and --{wanted[1]} are two forms of one output.", remedy="Choose one.")
    judged_by = find_rule(rule, percent=threshold)
    which = chosen(kernels, _WHICH, name="kernels")
    golden, new = (open_set(word, workspace=workspace, storage=storage, which=which) for word in words)
    found = compare(golden, new, judged_by, across=[word.strip() for word in across.split(",") if word.strip()])
    if not found.rows:
        raise UsageError(f"neither {found.golden} nor {found.new} holds a time.", remedy="Tune something first.")
    if output is not None:
        write_whole(output, page(found))
    if wanted == ["json"]:
        print(json.dumps(document(found), indent=2))
    elif wanted == ["csv"]:
        emit(to_csv(found), end="")
    elif wanted == ["markdown"]:
        emit(markdown(found), end="")
    else:
        _print(found, no_color=no_color)
    if fail_on_regression and found.regressed:
        raise typer.Exit(EXIT_REGRESSION)
    if fail_on_regression and not found.compared:
        remedy = "Name sets that share problems and a device; --across compares what was measured differently."
        raise UsageError("nothing could be compared, so nothing is known of regressions.", remedy=remedy)


def _print(found: Comparison, *, no_color: bool) -> None:
    console = make_console(no_color=no_color)
    console.print(f"verdict  {found.verdict}", soft_wrap=True)
    console.print(f"rule     {found.rule.words}: {found.rule.about}", soft_wrap=True)
    console.print(f"golden   {found.golden}", soft_wrap=True)
    console.print(f"new      {found.new}", soft_wrap=True)
    for note in found.notes:
        console.print(f"note     {note}", soft_wrap=True)
    console.print()
    show(console, table(found))
    console.print()
    show(console, environment_table(found))
