"""The options that every tuning command takes, how they make a run's options, and the command made of them."""

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from autotuner.cli import options as o
from autotuner.cli.options import option
from autotuner.errors import UsageError
from autotuner.system.progress import parse_budget, parse_duration
from autotuner.system.settings import given_command

if TYPE_CHECKING:
    from autotuner.cluster.address import Scheduler
    from autotuner.programs.model import Model
    from autotuner.targets import Target
    from autotuner.tuning.options import Options

NO_DEVICE = "none"
CLUSTER = ("cluster", "insecure_cluster")
"""Options of a cluster."""
OF_A_CALL = ("tolerance", "expected", "parameters")
"""Options of a model's calls."""
OF_A_MODEL = ("function", "inputs", *OF_A_CALL)
_AS_TYPED = (
    *("device", "trials", "jobs", "seed", "sampler", "emulated", "isolate"),
    *("workspace", "output", "force", "storage", "resume", "iree_tools"),
)
"""Options that a run takes as they are."""
_EVERYWHERE = frozenset({"verbose", "quiet"})
"""Options of output, taken everywhere."""
W = TypeVar("W", bound=str)


@dataclass(frozen=True)
class Given:
    """The options and arguments on the command line: the names of their parameters, and how each is spelt."""

    spelt: Mapping[str, str] = field(default_factory=dict)
    at: float = field(default_factory=time.monotonic, compare=False)
    """When the command began, or when they were read; imports count from then on."""

    @classmethod
    def of(cls, context: typer.Context) -> "Given":
        found = {}
        for parameter in context.command.params:
            source = context.get_parameter_source(parameter.name or "")
            if parameter.name and source is not None and source.name == "COMMANDLINE":
                long = [word for word in parameter.opts if word.startswith("--")]
                found[parameter.name] = (long or [(parameter.metavar or parameter.name).upper()])[0]
        began = context.find_root().obj
        return cls(found, began) if isinstance(began, float) else cls(found)

    def __contains__(self, name: str) -> bool:
        return name in self.spelt

    def refuse(self, names: Iterable[str], why: str, *, remedy: str = "Leave it out.") -> None:
        """Refuses these options; `why` follows the option's name in the message."""
        for name in names:
            if name in self.spelt:
                raise UsageError(f"{self.spelt[name]} {why}.", remedy=remedy)

    def only(self, *names: str, where: str) -> None:
        """Refuses all other options."""
        self.refuse(sorted(set(self.spelt) - {*names} - _EVERYWHERE), f"has no meaning with {where}")


@dataclass(frozen=True)
class Request:
    """The options that every tuning command takes, as typed: these fields are their declaration."""

    target: Annotated[str, option("--target", "cpu, a chip (sm_80) or a product (mi300x).")] = "cpu"
    chip: Annotated[
        str | None,
        option("--chip", "The chip that will time. [default: the target]"),
    ] = None
    device: Annotated[
        str | None,
        option("--device", "IREE device URIs; `none` builds and proves only."),
    ] = None
    effort: Annotated[str, option("--effort", "quick, normal or full.")] = "normal"
    trials: Annotated[int | None, option("--trials", "At most this many candidates of a problem.")] = None
    budget: Annotated[str | None, option("--budget", "At most this long: 90s, 10m, 1h30m.")] = None
    jobs: o.Jobs = None
    seed: Annotated[int, option("--seed", "The same seed asks the same first batch.")] = 0
    sampler: Annotated[
        str, option("--sampler", "What searches: guided, tpe, gp, random, or MODULE:CLASS of a sampler for Optuna.")
    ] = "guided"
    cache: Annotated[
        str, option("--cache", "The last level cache: search warm or cold; both: search warm, tell cold times too.")
    ] = "both"
    emulated: Annotated[bool, option("--emulated", "An emulated device: check, never time.")] = False
    isolate: Annotated[
        bool, option("--isolate", "A process for every check and timing, in place of one that keeps the device open.")
    ] = False
    workspace: o.Workspace = Path()
    output: o.Output = None
    force: o.Force = False
    storage: o.Storage = None
    flags: o.Flags = None
    resume: Annotated[bool, option("--resume/--fresh", "Continue the unfinished run.")] = False
    keep: Annotated[str, option("--keep", "Folders kept: all, failed, best or none.")] = "best,failed"
    microkernels: Annotated[str, option("--microkernels", "Those to try: names, auto or none.")] = "auto"
    allow_precision: Annotated[
        str | None, option("--allow-precision", "Accept results of tf32 or f16 accuracy. [default: the types' own]")
    ] = None
    iree_tools: o.IreeTools = None
    cluster: Annotated[
        str | None,
        option(
            "--cluster",
            "Dask scheduler to build and time: tls://HOST:PORT.",
        ),
    ] = None
    insecure_cluster: o.Insecure = False
    dry_run: Annotated[bool, option("--dry-run", "Print what would be done; build nothing.")] = False
    as_json: o.Json = False
    verbose: o.Verbose = False
    quiet: o.Quiet = False
    fail_if_no_winner: o.Fail = False
    given: Given = field(default_factory=Given)

    @property
    def timed(self) -> bool:
        return self.device != NO_DEVICE

    def refuse_untimed(self, *names: str) -> None:
        """Refuses options that need a device where there is none."""
        if not self.timed:
            self.given.refuse(names, "needs a device, and --device none runs nothing")

    def built_for(self) -> "Target":
        """The target, with the chip and the flags that the user names."""
        from autotuner.targets import Target

        flags = self.flags or ()
        return Target.parse(self.target, flags=flags, chip=self.chip)

    def scheduler(self) -> "Scheduler | None":
        """The cluster's scheduler; options of one are refused without it."""
        from autotuner.cluster.address import Scheduler

        if self.cluster is None:
            self.given.refuse(CLUSTER[1:], "has no meaning without --cluster")
            return None
        return Scheduler(self.cluster, insecure=self.insecure_cluster)

    def options(self) -> "Options":
        from autotuner.microkernels.variants import Kernel
        from autotuner.registry.folder import LazyRegistry
        from autotuner.tuning.options import CACHES, Options, parse_effort

        if self.device is not None and not self.device.strip():
            raise UsageError("--device is empty.", remedy="Name a device, or leave the option out.")
        if self.output is not None and self.output.suffix != ".mlir":
            raise UsageError(f"-o {self.output} is not an .mlir file.", remedy="Name the spec, such as -o spec.mlir.")
        self.refuse_untimed("cache")
        if self.isolate and self.cache != "warm":
            self.given.refuse(["cache"], f"{self.cache} needs a device that stays open, and --isolate closes it")
        kernels = (word.strip() for word in self.microkernels.split(","))
        return Options(
            **{name: getattr(self, name) for name in _AS_TYPED},
            effort=parse_effort(self.effort),
            budget=(parse_budget if self.timed else parse_duration)(self.budget) if self.budget is not None else None,
            cache=chosen(self.cache, CACHES, name="cache"),
            keep=tuple(word.strip() for word in self.keep.split(",")),
            microkernels=tuple(Kernel(word) for word in kernels if word not in ("", "none")),
            cluster=self.scheduler(),
            registry=LazyRegistry(self.workspace),
            command=given_command(),
            began=self.given.at,
        )


@dataclass(frozen=True)
class ProblemRequest(Request):
    """Those of a command that tunes one problem: it may also be timed on another machine."""

    bundle: Annotated[
        Path | None,
        option(
            "--bundle",
            "FILE.zip: build here, `bundle run` it elsewhere.",
        ),
    ] = None

    def refuse_untimed(self, *names: str) -> None:
        """With --bundle they are for the other machine."""
        if self.bundle is None:
            super().refuse_untimed(*names)

    def untimed(self) -> "ProblemRequest":
        """For a bundle: nothing runs here, so options of running and shipping are refused."""
        device = ["device"] if self.timed else []
        elsewhere = ("output", "resume", "isolate", "cache", "iree_tools", "fail_if_no_winner", *CLUSTER)
        remedy = "Leave it out: `autotune bundle run` and `import` have their own."
        self.given.refuse([*device, *elsewhere], "has no meaning with --bundle", remedy=remedy)
        return replace(self, device=NO_DEVICE)


@dataclass(frozen=True)
class ModelWords:
    """A model's options, the same in every command that takes a model."""

    function: Annotated[str | None, option("--function", "Which function of the model. [default: the only one]")] = None
    inputs: Annotated[
        list[str] | None,
        option("--input", "SHAPExTYPE[=VALUES] or @FILE.npy, for each input."),
    ] = None
    parameters: Annotated[
        list[str] | None, option("--parameters", "SCOPE=FILE of a model's weights, as IREE's tools take it.")
    ] = None
    tolerance: Annotated[
        float | None, option("--tolerance", "Relative error of a model's outputs that is allowed. [by type]")
    ] = None
    expected: Annotated[
        list[Path] | None,
        option(
            "--expected",
            "FILE.npy with what a model must give on these inputs, once for each result. [IREE's default gives it]",
        ),
    ] = None
    trust: o.Trust = False

    def model(self, path: Path, **more: Any) -> "Model":
        """The model in a file; `more` says which of it to tune."""
        from autotuner.programs.model import Model

        return Model(
            path,
            function=self.function,
            inputs=tuple(self.inputs or ()),
            parameters=tuple(self.parameters or ()),
            tolerance=self.tolerance,
            expected=tuple(self.expected or ()),
            trust=self.trust,
            **more,
        )

    def there(self, path: Path, request: Request) -> "Model":
        """The same, after a check that the file exists."""
        from autotuner.problems.accuracy import known_precision
        from autotuner.programs.model import refuse_no_model

        refuse_no_model(path)
        return self.model(path, allow=known_precision(request.allow_precision))


def chosen(word: str, known: Sequence[W], *, name: str) -> W:
    """The word, if it is a known one."""
    for one in known:
        if one == word:
            return one
    raise UsageError(f"unknown --{name} {word!r}.", remedy=f"Choose one of: {', '.join(known)}.")


def default_dtype(target: str) -> str:
    """The usual type of this target."""
    from autotuner.targets import Target

    return Target.parse(target).usual_dtype


def tuning_command(
    parse: Callable[..., Any],
    run: Callable[[Any, Any], None],
    *,
    request: type[Request] = Request,
    words: Sequence[inspect.Parameter] = (),
    without: Sequence[str] = (),
) -> Callable[..., None]:
    """A command that has the options of `parse`, which says what to tune, and those of every tuning command.

    Of the options `words`, `parse` is given those that were typed, as a mapping. The command has none of the options
    `without`.
    """
    own, model = _parameters(parse, without=["words"]), _parameters(ModelWords)
    common = _parameters(request, without=["given", *without])

    def command(context: typer.Context, **values: Any) -> None:
        given = Given.of(context)

        def take(parameters: Sequence[inspect.Parameter]) -> dict[str, Any]:
            return {p.name: values.pop(p.name) for p in parameters}

        chosen: dict[str, Any] = {p.name: ModelWords(**take(model)) for p in own if p.annotation is ModelWords}
        chosen |= take([p for p in own if p.annotation is not ModelWords])
        if chosen.get("dtype") == "":
            chosen["dtype"] = default_dtype(values["target"])
        if words:
            chosen["words"] = {name: value for name, value in take(words).items() if name in given}
        run(parse(**chosen), request(**values, given=given))

    command.__name__, command.__doc__ = parse.__name__, parse.__doc__
    first = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    named = [one for p in own for one in (model if p.annotation is ModelWords else [p])]
    parameters = [first, *named, *words, *common]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _parameters(of: Callable[..., Any], *, without: Sequence[str] = ()) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(of).parameters.values() if p.name not in without]
