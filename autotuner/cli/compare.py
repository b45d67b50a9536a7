"""`autotune compare`: two sets of results, and the exit code that a build server reads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import completion
from autotuner.cli import options as o
from autotuner.cli.options import option
from autotuner.cli.request import chosen
from autotuner.errors import EXIT_REGRESSION, UsageError

if TYPE_CHECKING:
    from autotuner.report.compare import Comparison

_SET = "A run, a workspace, a database (FILE.db or URL) or an export (.json, .csv, .parquet)."


def compare(
    golden: Annotated[str, typer.Argument(metavar="GOLDEN", help=f"What was good. {_SET}")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What is to be judged by it, in the same forms.")],
    rule: Annotated[
        str,
        option(
            "--rule",
            "interval (both 95 % intervals apart), aiter or ratio (medians alone).",
            completion.one_of("interval", "aiter", "ratio"),
        ),
    ] = "interval",
    threshold: Annotated[
        float | None, option("--threshold", "Per cent that count as a change. [default: interval 1, ratio 5]")
    ] = None,
    kernels: Annotated[
        str,
        option(
            "--kernels",
            "named (default, best, arms) or all (each route and configuration too).",
            completion.one_of("named", "all"),
        ),
    ] = "named",
    across: Annotated[
        str,
        option(
            "--across",
            "Compare although these differ: state, cache, device; comma separated.",
            completion.some_of("state", "cache", "device"),
        ),
    ] = "",
    output: Annotated[Path | None, option("-o --output", "Also write a page: an .html file that stands alone.")] = None,
    force: o.Force = False,
    as_csv: Annotated[bool, option("--csv", "As CSV.")] = False,
    as_markdown: Annotated[bool, option("--markdown", "As markdown, for a pull request.")] = False,
    as_json: o.Json = False,
    fail_on_regression: Annotated[
        bool, option("--fail-on-regression", "Exit 6 where something is slower, or fails now.")
    ] = False,
    workspace: o.Workspace = Path(),
    storage: o.Storage = None,
    no_color: o.NoColor = False,
) -> None:
    """Say which kernels of NEW are slower or faster than in GOLDEN. Each with where it was measured."""
    from autotuner.report import compare as comparing
    from autotuner.report import sets
    from autotuner.report.compared import page
    from autotuner.report.page import OUR_PAGE
    from autotuner.system.files import claim, write_whole

    if output is not None and output.suffix != ".html":
        raise UsageError(f"-o {output} is not an .html file.", remedy="Name a page, such as -o compare.html.")
    if output is not None:
        claim(output, OUR_PAGE, force=force)
    forms = {"csv": as_csv, "markdown": as_markdown, "json": as_json}
    wanted = [name for name, asked in forms.items() if asked]
    if len(wanted) > 1:
        raise UsageError(f"--{wanted[0]} and --{wanted[1]} are two forms of one output.", remedy="Choose one.")
    judged_by = comparing.find_rule(rule, percent=threshold)
    which = chosen(kernels, sets.WHICH, name="kernels")
    first, second = (sets.open_set(one, workspace=workspace, storage=storage, which=which) for one in (golden, new))
    loose = [word.strip() for word in across.split(",") if word.strip()]
    found = comparing.compare(first, second, judged_by, across=loose)
    if not found.rows:
        raise UsageError(f"neither {found.golden} nor {found.new} holds a time.", remedy="Tune something first.")
    if output is not None:
        write_whole(output, page(found), OUR_PAGE, force=force)
    _print(found, wanted[0] if wanted else "", no_color=no_color)
    if fail_on_regression and found.regressed:
        raise typer.Exit(EXIT_REGRESSION)
    if fail_on_regression and not found.compared:
        remedy = "Name sets that share problems and a device; --across compares what was measured differently."
        raise UsageError("nothing could be compared, so nothing is known of regressions.", remedy=remedy)


def _print(found: "Comparison", form: str, *, no_color: bool) -> None:
    from autotuner.cli.console import emit, emit_json, show
    from autotuner.report.compared import document, environment, kernels, markdown, to_csv

    if form == "json":
        emit_json(document(found))
    elif form:
        emit(to_csv(found) if form == "csv" else markdown(found), end="")
    else:
        emit(f"verdict  {found.verdict}")
        emit(f"rule     {found.rule.words}: {found.rule.about}")
        emit(f"golden   {found.golden}")
        emit(f"new      {found.new}")
        for note in found.notes:
            emit(f"note     {note}")
        emit("")
        show(kernels(found).listing(), no_color=no_color)
        emit("")
        show(environment(found).listing(), no_color=no_color)
