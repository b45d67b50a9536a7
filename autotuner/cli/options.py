"""The options that every tuning command takes, declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotuner.bundles import words as w
from autotuner.cli import completion

TargetOption = Annotated[
    str,
    typer.Option(
        "--target",
        help="cpu, a chip (gfx942, sm_80, …) or a product (mi300x, a100, …).",
        autocompletion=completion.target,
    ),
]
ChipOption = Annotated[
    str | None,
    typer.Option("--chip", help="What will time, where it is not at hand: microkernels are made for it. [the target]"),
]
DeviceOption = Annotated[
    str | None,
    typer.Option(
        "--device",
        help="IREE device URIs, comma separated; `none` compiles and proves but does not time.",
        autocompletion=completion.device,
    ),
]
EffortOption = Annotated[
    str,
    typer.Option(
        "--effort",
        help="quick, normal or full: how long to search.",
        autocompletion=completion.one_of("quick", "normal", "full"),
    ),
]
TrialsOption = Annotated[int | None, typer.Option("--trials", help="At most this many candidates.")]
BudgetOption = Annotated[
    str | None, typer.Option("--budget", help="At most this long, race included: 90s, 10m, 1h30m.")
]
JobsOption = Annotated[int | None, typer.Option("--jobs", help="Compiles at once. [default: usable cores]")]
SeedOption = Annotated[int, typer.Option("--seed", help="The same seed asks the same first batch.")]
WorkspaceOption = Annotated[
    Path, typer.Option("--workspace", help="Where candidates/, results/ and specs/ are written.")
]
CacheOption = Annotated[
    str,
    typer.Option(
        "--cache",
        help="The last level cache: search warm or cold; both: search warm, tell cold times too.",
        autocompletion=completion.one_of("warm", "cold", "both"),
    ),
]
StateOption = Annotated[
    str,
    typer.Option(
        "--state",
        help="The device while timing: sustained (under load between timings) or burst (pauses).",
        autocompletion=completion.one_of("sustained", "burst"),
    ),
]
IsolateOption = Annotated[
    bool,
    typer.Option("--isolate", help="A process for every check and timing, in place of one that keeps the device open."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="Where the spec goes. [default: specs/<problem>-<target>.mlir]"),
]
StorageOption = Annotated[
    str | None,
    typer.Option(
        "--storage",
        help="sqlite:///FILE or postgresql://USER@HOST/DATABASE. [default: an SQLite file in the workspace]",
    ),
]
FlagOption = Annotated[
    list[str] | None, typer.Option("--flag", help="Passed on to iree-compile, as --flag=--name=value; repeatable.")
]
ResumeOption = Annotated[
    bool,
    typer.Option("--resume/--fresh", help="Go on with this problem's unfinished run (or start one) / start anew."),
]
KeepOption = Annotated[
    str,
    typer.Option(
        "--keep",
        help="Which candidates' folders stay: all, failed, best, none; comma separated.",
        autocompletion=completion.some_of("all", "failed", "best", "none"),
    ),
]
MicrokernelsOption = Annotated[
    str,
    typer.Option(
        "--microkernels",
        help="Which microkernels join the search: names, comma separated, auto or none.",
        autocompletion=completion.microkernels,
    ),
]
PrecisionOption = Annotated[
    str | None,
    typer.Option(
        "--allow-precision",
        help="Accept results of tf32 or f16 accuracy. [default: the types' own]",
        autocompletion=completion.one_of("tf32", "f16"),
    ),
]
IreeToolsOption = Annotated[
    Path | None,
    typer.Option(
        "--iree-tools",
        help="A build or install tree of IREE, or the folder of its tools. [default: AUTOTUNE_IREE_TOOLS, the wheels]",
    ),
]
ClusterOption = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        help="Dask scheduler (tls://HOST:PORT) whose workers build and time. [default: this machine's processes]",
    ),
]
InsecureOption = Annotated[
    bool,
    typer.Option(
        "--insecure-cluster", help="Take tcp:// beyond this machine: whoever reaches it can run code on all workers."
    ),
]
CaOption = Annotated[
    Path | None,
    typer.Option("--tls-ca-file", help="Certificate authority of a tls:// cluster. [default: Dask's configuration]"),
]
CertOption = Annotated[
    Path | None, typer.Option("--tls-cert", help="This machine's certificate. [default: Dask's configuration]")
]
KeyOption = Annotated[Path | None, typer.Option("--tls-key", help="Its key. [default: Dask's configuration]")]
BundleOption = Annotated[
    Path | None,
    typer.Option(
        "--bundle",
        help="FILE.zip: build and prove here, for `autotune bundle run` on a machine that no network joins to this.",
    ),
]
DryRunOption = Annotated[
    bool, typer.Option("--dry-run", help="Print the space's size, a sample candidate and the commands; build nothing.")
]
FunctionOption = Annotated[
    str | None, typer.Option("--function", help="Which function of the model. [default: the only one]")
]
InputOption = Annotated[
    list[str] | None,
    typer.Option("--input", help="SHAPExTYPE, SHAPExTYPE=VALUES or @FILE.npy, once for each input, in order."),
]
ParametersOption = Annotated[
    list[str] | None,
    typer.Option("--parameters", help="SCOPE=FILE of a model's weights, as IREE's tools take it."),
]
ToleranceOption = Annotated[
    float | None,
    typer.Option("--tolerance", help="Relative error of a model's outputs that is allowed. [by type]"),
]
ExpectedOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--expected",
        help="FILE.npy with what a model must give on these inputs, once for each result. [IREE's default gives it]",
    ),
]
TrustOption = Annotated[
    bool,
    typer.Option("--trust", help="Take specs, flagfiles and models as they are, also with what could do harm."),
]
JsonOption = Annotated[bool, typer.Option(*w.JSON.names, help=w.JSON.help)]
QuietOption = Annotated[bool, typer.Option(*w.QUIET.names, help=w.QUIET.help)]
NoColorOption = Annotated[bool, typer.Option("--no-color", help="No colour, as with NO_COLOR set.")]
FailOption = Annotated[bool, typer.Option("--fail-if-no-winner", help="Exit 6 unless the verdict is `win`.")]
