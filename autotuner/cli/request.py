"""The options that every tuning command takes, and how they make a run's options."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import typer

from autotuner.cli import options as o
from autotuner.cli.commands.operations import default_dtype
from autotuner.cli.given import Given
from autotuner.cli.lazy import Lazy
from autotuner.errors import UsageError
from autotuner.system.durations import parse_budget, parse_duration
from autotuner.system.words import given_command
from autotuner.tuning.effort import parse_effort

NO_DEVICE = "none"
CLUSTER = ("cluster", "insecure_cluster", "tls_ca_file", "tls_cert", "tls_key")
"""The options of a command whose work may be done elsewhere."""
W = TypeVar("W", bound=str)

if TYPE_CHECKING:
    from autotuner import targets
    from autotuner.cluster import address
    from autotuner.microkernels import variants
    from autotuner.targets import files as target_files
    from autotuner.tuning import options as run_options
else:
    targets, target_files = Lazy("autotuner.targets"), Lazy("autotuner.targets.files")
    run_options, address = Lazy("autotuner.tuning.options"), Lazy("autotuner.cluster.address")
    variants = Lazy("autotuner.microkernels.variants")


@dataclass(frozen=True)
class Request:
    """The options that every tuning command takes, as typed: these fields are their declaration."""

    target: o.TargetOption = "cpu"
    chip: o.ChipOption = None
    device: o.DeviceOption = None
    effort: o.EffortOption = "normal"
    trials: o.TrialsOption = None
    budget: o.BudgetOption = None
    jobs: o.JobsOption = None
    seed: o.SeedOption = 0
    cache: o.CacheOption = "both"
    state: o.StateOption = "sustained"
    isolate: o.IsolateOption = False
    workspace: o.WorkspaceOption = Path()
    output: o.OutputOption = None
    storage: o.StorageOption = None
    flags: o.FlagOption = None
    resume: o.ResumeOption = False
    keep: o.KeepOption = "best,failed"
    microkernels: o.MicrokernelsOption = "none"
    allow_precision: o.PrecisionOption = None
    iree_tools: o.IreeToolsOption = None
    cluster: o.ClusterOption = None
    insecure_cluster: o.InsecureOption = False
    tls_ca_file: o.CaOption = None
    tls_cert: o.CertOption = None
    tls_key: o.KeyOption = None
    dry_run: o.DryRunOption = False
    as_json: o.JsonOption = False
    quiet: o.QuietOption = False
    no_color: o.NoColorOption = False
    fail_if_no_winner: o.FailOption = False
    given: Given = field(default_factory=Given)
    unused: ClassVar[frozenset[str]] = frozenset()
    """Options that a command does not have."""

    @property
    def timed(self) -> bool:
        return self.device != NO_DEVICE

    def refuse_untimed(self, *names: str) -> None:
        """Without a device nothing runs: what is said of running is refused."""
        if not self.timed:
            self.given.refuse(names, "needs a device, and --device none runs nothing")

    def built_for(self) -> "targets.Target":
        """The target, with the chip and the flags that the user names."""
        flags = self.flags or ()
        target_files.refuse_missing(flags)
        for word in target_files.words_that_are_files(flags):
            typer.echo(f"note: --flag: {word} is taken for a word; write ./{word} for the file of that name", err=True)
        return targets.Target.parse(self.target, flags=flags, chip=self.chip)

    def check(self) -> None:
        """Refuses what is wrong with the words themselves."""
        self.built_for()
        self.options()

    def scheduler(self) -> "address.Scheduler | None":
        """Of the cluster that is to work; what belongs to one is refused without it."""
        if self.cluster is None:
            self.given.refuse(CLUSTER[1:], "has no meaning without --cluster")
            return None
        files = {"ca_file": self.tls_ca_file, "cert": self.tls_cert, "key": self.tls_key}
        return address.Scheduler(self.cluster, insecure=self.insecure_cluster, **files)

    def options(self) -> "run_options.Options":
        if self.device is not None and not self.device.strip():
            raise UsageError("--device is empty.", remedy="Name a device, or leave the option out.")
        if self.output is not None and self.output.suffix != ".mlir":
            raise UsageError(f"-o {self.output} is not an .mlir file.", remedy="Name the spec, such as -o spec.mlir.")
        self.refuse_untimed("cache", "state")
        if self.isolate:
            self.given.refuse(["state"], "has no meaning with --isolate, where each timing begins with a process")
        if self.isolate and self.cache != "warm":
            self.given.refuse(["cache"], f"{self.cache} needs a device that stays open, and --isolate closes it")
        return run_options.Options(
            device=self.device,
            effort=parse_effort(self.effort),
            trials=self.trials,
            budget=(parse_budget if self.timed else parse_duration)(self.budget) if self.budget is not None else None,
            jobs=self.jobs,
            seed=self.seed,
            cache=chosen(self.cache, run_options.CACHES, name="cache"),
            state=chosen(self.state, run_options.STATES, name="state"),
            isolate=self.isolate,
            workspace=self.workspace,
            output=self.output,
            storage=self.storage,
            resume=self.resume,
            keep=tuple(word.strip() for word in self.keep.split(",")),
            microkernels=tuple(
                variants.Kernel(word.strip())
                for word in self.microkernels.split(",")
                if word.strip() not in ("", "none")
            ),
            iree_tools=self.iree_tools,
            cluster=self.scheduler(),
            command=given_command(),
            began=self.given.at,
        )


@dataclass(frozen=True)
class ProblemRequest(Request):
    """Those of a command that tunes one problem: it may also be timed on another machine."""

    bundle: o.BundleOption = None

    def refuse_untimed(self, *names: str) -> None:
        """What is said of running goes with a bundle."""
        if self.bundle is None:
            super().refuse_untimed(*names)

    def check(self) -> None:
        """For a bundle the words mean what they mean there."""
        bundled = self.bundle is not None and not self.dry_run
        Request.check(self.untimed() if bundled else self)

    def untimed(self) -> "ProblemRequest":
        """For a bundle: nothing runs here, and what is said of running or shipping is refused."""
        if self.device not in (None, NO_DEVICE):
            self.given.refuse(["device"], "has no meaning with --bundle", remedy="Give it to `autotune bundle run`.")
        self.given.refuse(["output"], "has no meaning with --bundle", remedy="Give it to `autotune bundle import`.")
        kept = "Leave it out: what is built stays in the cache, and the same command goes on from there."
        self.given.refuse(["resume"], "has no meaning with --bundle", remedy=kept)
        names = ("isolate", "iree_tools", "fail_if_no_winner", *CLUSTER)
        self.given.refuse(names, "has no meaning with --bundle")
        return replace(self, device=NO_DEVICE)


def chosen(word: str, known: Sequence[W], *, name: str) -> W:
    """One of these words."""
    for one in known:
        if one == word:
            return one
    raise UsageError(f"unknown --{name} {word!r}.", remedy=f"Choose one of: {', '.join(known)}.")


def tuning_command(
    parse: Callable[..., Any],
    run: Callable[[Any, Request], None],
    *,
    request: type[Request] = Request,
    words: Sequence[inspect.Parameter] = (),
) -> Callable[..., None]:
    """A command that has the options of `parse`, which says what to tune, and those of every tuning command.

    Of the options `words`, `parse` is given those that were typed, as a mapping.
    """
    own = [p for p in inspect.signature(parse).parameters.values() if p.name != "words"]
    common = [p for p in inspect.signature(request).parameters.values() if p.name not in {"given", *request.unused}]

    def command(context: typer.Context, **values: Any) -> None:
        given = Given.of(context)
        chosen = {p.name: values.pop(p.name) for p in own}
        if untyped := chosen.get("dtype") == "":
            chosen["dtype"] = default_dtype(values["target"])
        if words:
            typed = {p.name: values.pop(p.name) for p in words}
            chosen["words"] = {name: value for name, value in typed.items() if name in given}
        wanted, how = parse(**chosen), request(**values, given=given)
        if untyped and not how.quiet:
            how.check()  # an error comes alone
            typer.echo(f"note: --dtype {chosen['dtype']}, the default on {how.target}", err=True)
        run(wanted, how)

    command.__name__, command.__doc__ = parse.__name__, parse.__doc__
    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    parameters = [first, *own, *words, *common]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command
