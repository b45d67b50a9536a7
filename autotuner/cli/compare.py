"""`autotune compare`: two sets of results, and the exit code that a build server reads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.options import option
from autotuner.errors import EXIT_REGRESSION, UsageError

if TYPE_CHECKING:
    from autotuner.report.compare import Comparison

_SET = "A run, a workspace, a database (FILE.db or URL) or an export (.json)."


def compare(
    golden: Annotated[str, typer.Argument(metavar="GOLDEN", help=f"What was good. {_SET}")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="What is to be judged by it, in the same forms.")],
    rule: Annotated[
        str, option("--rule", "interval (both 95 % intervals apart) or aiter (medians, with its slack).")
    ] = "interval",
    threshold: Annotated[float | None, option("--threshold", "Per cent that count as a change. [default: 1]")] = None,
    output: Annotated[Path | None, option("-o --output", "Also write a page: an .html file that stands alone.")] = None,
    force: o.Force = False,
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
    from autotuner.cli.console import emit, emit_json
    from autotuner.report import compare as comparing
    from autotuner.report import sets
    from autotuner.report.compared import document, markdown, page
    from autotuner.report.page import OUR_PAGE
    from autotuner.system.files import claim, write_whole

    if output is not None and output.suffix != ".html":
        raise UsageError(f"-o {output} is not an .html file.", remedy="Name a page, such as -o compare.html.")
    if output is not None:
        claim(output, OUR_PAGE, force=force)
    if as_markdown and as_json:
        raise UsageError("--markdown and --json are two forms of one output.", remedy="Choose one.")
    judged_by = comparing.find_rule(rule, percent=threshold)
    first, second = (sets.open_set(one, workspace=workspace, storage=storage) for one in (golden, new))
    found = comparing.compare(first, second, judged_by)
    if not found.rows:
        raise UsageError(f"neither {found.golden} nor {found.new} holds a time.", remedy="Tune something first.")
    if output is not None:
        write_whole(output, page(found), OUR_PAGE, force=force)
    if as_json:
        emit_json(document(found))
    elif as_markdown:
        emit(markdown(found), end="")
    else:
        _print(found, no_color=no_color)
    if fail_on_regression and found.regressed:
        raise typer.Exit(EXIT_REGRESSION)
    if fail_on_regression and not found.compared:
        remedy = "Name sets that share problems and a device."
        raise UsageError("nothing could be compared, so nothing is known of regressions.", remedy=remedy)


def _print(found: "Comparison", *, no_color: bool) -> None:
    from autotuner.cli.console import emit, show
    from autotuner.report.compared import environment, kernels

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
