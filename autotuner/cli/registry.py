"""`autotune apply` and `autotune registry`: what others have proven on the same chip."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from autotuner.cli import options as o
from autotuner.cli.operations import any_problem, named_problem
from autotuner.cli.options import examples, option
from autotuner.cli.request import CLUSTER, OF_A_CALL, OF_A_MODEL, ModelWords, Request, tuning_command
from autotuner.errors import UsageError
from autotuner.system.text import count

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from autotuner.registry import RegistryEntry
    from autotuner.tuning.result import Result
    from autotuner.tuning.session import Watched

registry = typer.Typer(
    name="registry",
    help="Keep what was proven on a chip, for all who have one.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
_REGISTRY = "A folder of .jsonl files, or one of them."


@dataclass(frozen=True)
class ApplyWords:
    """Write what the registry knows of a model. Or of a problem; proven here, never timed."""

    words: "Mapping[str, Any]"
    path: Annotated[Path | None, typer.Argument(metavar="MODEL", help="An .mlir, .mlirbc or .onnx file.")] = None
    said: ModelWords = field(default_factory=ModelWords)


def run_apply(wanted: ApplyWords, request: Request) -> None:
    """Applies the registry and ends the process with the contract's exit code."""
    from autotuner.cli.tuning import carry_out
    from autotuner.jobs.model.known import apply_model
    from autotuner.jobs.registry.apply import apply_problem

    problem, target, options = named_problem(wanted.words, request), request.built_for(), request.options()
    if (problem is None) == (wanted.path is None):
        what = "needs a MODEL or a --shape" if problem is None else "takes a MODEL or a --shape, not both"
        raise UsageError(
            f"apply {what}.", remedy="Try: autotune apply --shape 512x512x1024. Its sizes name the operation."
        )
    request.refuse_untimed(*OF_A_CALL)
    if wanted.path is None:
        request.given.refuse(OF_A_MODEL, "is for a model", remedy="Give the model's file.")
    model = wanted.said.there(wanted.path, request) if wanted.path is not None else None

    def run(watch: "Watched") -> "Result[Any]":
        if model is not None:
            return apply_model(model, target, options=options, **watch)
        assert problem is not None
        return apply_problem(problem.allowing(request.allow_precision), target, options=options, **watch)

    carry_out(request, run)


_OF_A_SEARCH = (
    *("effort", "trials", "seed", "sampler", "cache", "emulated", "resume", "keep", "dry_run", "fail_if_no_winner"),
    *("isolate", *CLUSTER),
)
APPLY = tuning_command(ApplyWords, run_apply, words=any_problem(), without=_OF_A_SEARCH)


@registry.command("list", epilog=examples("registry list"))
def show_list(
    registry: Annotated[
        Path | None, typer.Argument(metavar="REGISTRY", help=f"{_REGISTRY} [default: autotune's and the workspace's]")
    ] = None,
    workspace: o.Workspace = Path(),
    as_json: o.Json = False,
) -> None:
    """List the entries. For which chip and problem, by what, and how much faster it was."""
    from autotuner.cli.console import emit_json
    from autotuner.registry import Registry

    found = Registry.read(registry) if registry is not None else Registry.open(workspace)
    if as_json:
        emit_json({"entries": [one.to_json() for one in found.entries]})
    else:
        _print(("", one) for one in found.entries)


@registry.command(epilog=examples("registry add"))
def add(
    runs: Annotated[list[str], typer.Argument(metavar="RUN", help="Runs that won, as `history` names them.")],
    output: Annotated[
        Path | None, option("-o --output", "The folder of the registry. [default: registry/ of the workspace]")
    ] = None,
    workspace: o.Workspace = Path(),
    storage: o.Storage = None,
    as_json: o.Json = False,
) -> None:
    """Take what won in runs into a registry. Each entry keeps its machine and command."""
    from autotuner.cli.console import emit, emit_json
    from autotuner.registry import Registry
    from autotuner.registry.folder import FOLDER
    from autotuner.registry.taken import take
    from autotuner.store.reader import Reader

    folder = output or workspace / FOLDER
    with Reader.open(storage, workspace=workspace, create=False) as store:
        taken = [take(store, run) for run in runs]
    new, left = [one for some, _ in taken for one in some], [one for _, some in taken for one in some]
    before = Registry.read(folder) if folder.is_dir() else Registry()
    after = Registry.of([*before.entries, *new])
    files = after.write(folder) if new else []
    changed = before.changes(after)
    if as_json:
        added = [one.to_json() for _, one, _ in changed]
        emit_json({"added": added, "left_out": [vars(one) for one in left], "files": [str(file) for file in files]})
        return
    _print((what, one) for what, one, _ in changed)
    for one in left:
        emit(f"left out: {one.name}: {one.reason}")
    emit(f"{folder}: {count(len(changed), 'entry')} new, {len(after.entries)} in all")


@registry.command(epilog=examples("registry merge"))
def merge(
    registries: Annotated[list[Path], typer.Argument(metavar="REGISTRY", help=_REGISTRY)],
    output: Annotated[Path, option("-o --output", "The folder of the result.")],
) -> None:
    """Put registries into one. Of two entries for the same the better stays."""
    from autotuner.cli.console import emit
    from autotuner.registry import Registry

    read = [Registry.read(path) for path in registries]
    merged = Registry.of(one for some in read for one in some.entries)
    files = merged.write(output)
    emit(f"{output}: {count(len(merged.entries), 'entry')} in {count(len(files), 'file')}")


@registry.command(epilog=examples("registry diff"))
def diff(
    old: Annotated[Path, typer.Argument(metavar="OLD", help=_REGISTRY)],
    new: Annotated[Path, typer.Argument(metavar="NEW", help=_REGISTRY)],
    as_json: o.Json = False,
) -> None:
    """Say which entries are new, gone or changed."""
    from autotuner.cli.console import emit_json
    from autotuner.registry import Registry

    found = Registry.read(old).changes(Registry.read(new))
    if as_json:
        told = [{"change": what, "entry": one.to_json(), "old": was and was.to_json()} for what, one, was in found]
        emit_json({"changes": told})
    else:
        _print((what, one) for what, one, _ in found)


@dataclass(frozen=True)
class CheckWords:
    """Check entries with a new IREE. Each applies, is right and is faster, or is dropped."""

    path: Annotated[Path, typer.Argument(metavar="REGISTRY", help=_REGISTRY)]
    into: Annotated[Path | None, option("--into", "A folder for the entries that stay, with today's figures.")] = None
    fail: Annotated[bool, option("--fail-on-drop", "Exit 6 where an entry is dropped.")] = False


def run_check(wanted: CheckWords, request: Request) -> None:
    """Checks a registry and ends the process with the contract's exit code."""
    from autotuner.cli.tuning import carry_out
    from autotuner.errors import EXIT_REGRESSION
    from autotuner.jobs.registry.check import check_registry

    target, options = request.built_for(), request.options()
    carry_out(
        request,
        lambda watch: check_registry(wanted.path, target, options=options, into=wanted.into, **watch),
        exit_code=lambda result: EXIT_REGRESSION if wanted.fail and result.details.counted["dropped"] else 0,
    )


registry.command("check", epilog=examples("registry check"))(
    tuning_command(CheckWords, run_check, without=(*_OF_A_SEARCH, "output", "microkernels", "allow_precision"))
)


@registry.command(epilog=examples("registry export"))
def export(
    chip: Annotated[str, option("--iree", "The chip whose default spec is written: gfx942, mi300x, cpu, ….")],
    registry: Annotated[
        Path | None, typer.Argument(metavar="REGISTRY", help=f"{_REGISTRY} [default: autotune's and the workspace's]")
    ] = None,
    output: Annotated[Path, option("-o --output", "The folder of both files.")] = Path(),
    workspace: o.Workspace = Path(),
    iree_tools: o.IreeTools = None,
) -> None:
    """Write a default spec for IREE's tree. With its lit test; iree-opt must take both."""
    from autotuner.cli.console import emit
    from autotuner.cli.tuning import find_tools
    from autotuner.jobs.registry.export import export as write
    from autotuner.registry import Registry
    from autotuner.targets import Target

    found = Registry.read(registry) if registry is not None else Registry.open(workspace)
    done = write(found, Target.parse(chip), output, find_tools(iree_tools))
    emit(f"spec       {done.spec}: {count(len(done.entries), 'entry')}")
    emit(f"test       {done.test}: {count(len(done.tested), 'operation')}")


def _print(rows: "Iterable[tuple[str, RegistryEntry]]") -> None:
    from autotuner.cli.console import emit, show
    from autotuner.measure.blocks import Interval
    from autotuner.system.listing import Listing

    lines = []
    for what, one in rows:
        by = one.kernel or (f"route {one.route}" if one.flags else "") or one.carrier
        gain = f"{Interval(one.median, one.low, one.high)}{f' ({one.within})' if one.within else ''}"
        lines.append((*([what] if what else []), one.problem, one.sku, one.chip, one.iree, by, gain, one.date))
    if not lines:
        emit("no entries")
        return
    titles = ("problem", "machine", "chip", "IREE", "by", "faster than the default", "date")
    show(Listing.of((*([""] if len(lines[0]) > len(titles) else []), *titles), lines))
