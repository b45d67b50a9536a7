"""`autotune spec`: merge, check and show spec files."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.options import examples, option
from autotuner.errors import NoCandidateError, UsageError
from autotuner.system.text import count, printable, times

if TYPE_CHECKING:
    from rich.console import Console

    from autotuner.specfiles.check import Report
    from autotuner.specfiles.merge import MergedFiles

app = typer.Typer(name="spec", help="Merge, check and show spec files.", no_args_is_help=True, rich_markup_mode=None)
Spec = Annotated[Path, typer.Argument(metavar="SPEC", help="A tuning spec, microkernel spec or configured executable.")]


@app.command(epilog=examples("spec merge"))
def merge(
    specs: Annotated[list[Path], typer.Argument(metavar="SPEC", help="Tuning specs, ours or others'.")],
    output: Annotated[Path, option("-o --output", "Where the merged spec goes, an .mlir file.")],
    force: Annotated[
        bool,
        option(
            "--force",
            "Where no figures tell which entry is faster, the later file's wins. "
            "Write over a file that autotune did not write, too.",
        ),
    ] = False,
    trust: o.Trust = False,
    iree_tools: o.IreeTools = None,
    as_json: o.Json = False,
) -> None:
    """Put tuning specs into one. Of entries that match the same, the faster is kept."""
    from autotuner.cli.console import emit_json, make_console
    from autotuner.cli.tuning import find_tools
    from autotuner.specfiles.merge import merge_files

    tools = find_tools(iree_tools)
    done = merge_files(specs, output=output, tools=tools, force=force, trust=trust)
    if as_json:
        emit_json(done.to_json())
    else:
        _print_merged(done, make_console())


@app.command(epilog=examples("spec check"))
def check(
    spec: Spec,
    model: Annotated[
        Path | None,
        typer.Argument(metavar="MODEL", help="A program (.mlir, .mlirbc): which entries apply to it, how often?"),
    ] = None,
    target: Annotated[
        str | None, option("--target", "Chip or product. [default: the flagfile's, or what the spec records]")
    ] = None,
    flags: o.Flags = None,
    trust: o.Trust = False,
    iree_tools: o.IreeTools = None,
    as_json: o.Json = False,
) -> None:
    """Verify a spec with its flagfile and objects. With MODEL, show which entries apply there."""
    from autotuner.cli.console import emit_json, make_console
    from autotuner.cli.tuning import find_tools
    from autotuner.specfiles.check import check as check_spec
    from autotuner.targets import Target

    if flags and target is None:
        raise UsageError("--flag needs --target.", remedy="Without them the flagfile's flags are used.")
    chosen = Target.parse(target, flags=flags or ()) if target is not None else None
    tools = find_tools(iree_tools)
    report = check_spec(spec, tools=tools, model=model, target=chosen, trust=trust)
    if as_json:
        emit_json(report.to_json())
    else:
        _print_report(report, make_console())
    if not report.sound:
        raise typer.Exit(UsageError.exit_code)
    if not report.matches:
        raise typer.Exit(NoCandidateError.exit_code)


@app.command(epilog=examples("spec show"))
def show(spec: Spec, as_json: o.Json = False) -> None:
    """List the entries of a spec. What each matches, what it was measured to gain, and where it comes from."""
    from autotuner.carriers.provenance import Provenance
    from autotuner.cli import console
    from autotuner.specfiles.entries import read
    from autotuner.specfiles.provenance import figures_of
    from autotuner.system.listing import Listing

    file = read(spec)
    if as_json:
        entries = [entry.to_json() for entry in file.entries]
        console.emit_json({"spec": str(spec), "kind": file.kind, "entries": entries})
        return
    stdout = console.make_console()
    _line(stdout, "kind", file.what)
    rows = []
    for entry in file.entries:
        source = entry.provenance or Provenance()
        figures = figures_of(source) if entry.provenance else "no provenance"
        if not file.carrier.brings_objects and not entry.compilation_info:
            figures = "sets no configuration"
        rows.append((entry.name, entry.text, source.target, source.verdict, figures, source.date))
    console.show(Listing.of(("entry", "matches", "target", "verdict", "figures", "date"), rows))
    sources = [entry.provenance for entry in file.entries if entry.provenance]
    for title, said in (("made by", [one.command for one in sources]), ("earlier", [one.earlier for one in sources])):
        for text in dict.fromkeys(filter(None, said)):
            _line(stdout, title, text)


def _print_report(report: "Report", console: "Console") -> None:
    styles = {"ok": "", "note": "yellow", "error": "red"}
    for finding in report.findings:
        _line(console, finding.level, finding.text, style=styles[finding.level])
        for text in finding.lines:
            _line(console, "", f"  {text}")
    for use in report.uses or ():
        what = f"{printable(use.entry.name)}: {use.entry.text}"
        if use.dispatches:
            calls = f" ({count(use.calls, 'call')})" if use.calls != use.dispatches else ""
            _line(console, "applies", f"{times(use.dispatches)}{calls}: {what}")
        elif not use.matched:
            _line(console, "unused", f"it never matches: {what}", style="yellow")
        if use.lost:
            ops = ", ".join(use.ops)
            lost = f"{times(use.lost)} it matches {ops}, and a later pass drops its lowering_config: {what}"
            _line(console, "lost", lost, style="yellow")
    if report.uses is not None and not any(use.matched for use in report.uses):
        said = "its operations differ from these in sizes, types or layout: `autotune model MODEL --dry-run` lists them"
        _line(console, "model", said)


def _print_merged(done: "MergedFiles", console: "Console") -> None:
    from autotuner.carriers.flagfile import use_line

    for kept in done.merged.kept:
        _line(console, "entry", f"{kept.entry.name}: {kept.entry.text}  ({kept.source})")
    for dropped in done.merged.dropped:
        _line(console, "dropped", f"{dropped.entry.name} of {dropped.source}: {dropped.reason}")
    for note in done.notes:
        _line(console, "note", note)
    _line(console, "spec", str(done.spec))
    if done.flagfile is not None:
        _line(console, "flags", str(done.flagfile))
        _line(console, "use", use_line(done.flagfile))


def _line(console: "Console", name: str, text: str, *, style: str = "") -> None:
    console.print(f"{name:<11}{printable(text)}", style=style, soft_wrap=True)
