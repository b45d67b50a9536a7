"""Options that several commands have, each declared once, and the two examples that every command's help ends with."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.models import OptionInfo

HELP: dict[str, Any] = {"help_option_names": ["--help", "-h"], "max_content_width": 100}
"""Settings of --help for all commands."""
_FIRST, EXPERT = "Options", "Expert options"
_PANELS: dict[str, str] = {
    "How long": "--effort --trials --resume/--fresh --jobs",
    "Where": "--workspace --storage --chip --bundle --cluster",
    "Output": "--force --keep --dry-run --json --verbose --quiet --fail-if-no-winner",
    EXPERT: "--flag --seed --sampler --cache --emulated --isolate --allow-precision --iree-tools --insecure-cluster "
    "--function --parameters --tolerance --expected --trust --object --symbol",
}
"""The panels of help behind the first, which has what most users need."""


def option(names: str, text: str) -> OptionInfo:
    """An option: its names, separated by spaces, and its help."""
    panel = next((title for title, own in _PANELS.items() if {*names.split()} & {*own.split()}), None)
    made: OptionInfo = typer.Option(*names.split(), help=text, rich_help_panel=panel)
    return made


class GroupedCommand(TyperCommand):
    """A command whose help has its options in panels; those for experts by name alone: docs/options.md has them."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        panels: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Arguments", _FIRST, *_PANELS)}
        for one in self.get_params(ctx):
            if (record := one.get_help_record(ctx)) is not None:
                argument = one.param_type_name == "argument"
                panels["Arguments" if argument else getattr(one, "rich_help_panel", None) or _FIRST].append(record)
        for title, records in panels.items():
            if title == EXPERT and records:
                names = ", ".join(name.partition(" ")[0] for name, _ in records)
                with formatter.section(f"{title} (docs/options.md)"):
                    formatter.write_text(names)
            elif records:
                with formatter.section(title):
                    formatter.write_dl(records)


Workspace = Annotated[Path, option("--workspace", "For candidates/, results/ and specs/.")]
Storage = Annotated[
    str | None,
    option(
        "--storage",
        "sqlite:///FILE or postgresql://…. [in the workspace]",
    ),
]
Output = Annotated[Path | None, option("-o --output", "The spec. [default: specs/<name>-<target>.mlir]")]
Force = Annotated[bool, option("--force", "Write over a file that autotune did not write, too.")]
Jobs = Annotated[int | None, option("--jobs", "Compiles at once. [default: usable cores]")]
Flags = Annotated[list[str] | None, option("--flag", "Passed on to iree-compile, as --flag=--name=value; repeatable.")]
IreeTools = Annotated[
    Path | None,
    option(
        "--iree-tools",
        "A build or install tree of IREE, or the folder of its tools. [default: AUTOTUNE_IREE_TOOLS, the wheels]",
    ),
]
Insecure = Annotated[
    bool,
    option("--insecure-cluster", "Take tcp:// beyond this machine: whoever reaches it can run code on all workers."),
]
Trust = Annotated[
    bool, option("--trust", "Take specs, flagfiles and models as they are, also with what could do harm.")
]
Json = Annotated[bool, option("--json", "One JSON document on stdout, all else on stderr.")]
Quiet = Annotated[bool, option("--quiet -q", "No progress, only the result.")]
Verbose = Annotated[bool, option("-v --verbose", "All of the result: every row, counts, notes.")]
Fail = Annotated[bool, option("--fail-if-no-winner", "Exit 6 unless the verdict is `win`.")]

EXAMPLES = """\
autotune gemm --shape 512x512x1024 --budget 2m
autotune gemm --shape 4096x4096x4096 --target gfx942 --device none
autotune conv --shape 1x56x56x64 --filter 3x3x64 --pad 1x1 --budget 2m
autotune conv --shape 2x32x32x1280 --filter 3x3x1280 --pad 1x1 --target sm_80
autotune convnd --shape 2x8x16x16x32 --filter 3x3x3x64 --pad 1x1x1 --budget 2m
autotune convnd --shape 2x8x16x16x32 --filter 3x3x3x64 --direction weight --target gfx942
autotune attention --shape 1x8x1024x1024x64 --causal --target sm_80
autotune attention --shape 1x8x256x256x64 --budget 2m
autotune model resnet50.onnx --budget 5m
autotune model encoder.mlir --target sm_80 --top 5
autotune suite --list
autotune suite unet --target gfx942 --device none --sample 3
autotune ab sgemm_c --shape 512x512x1024
autotune ab a.flags b.flags --shape 512x512x1024
autotune retune specs/encoder-cpu.mlir --iree-tools ~/iree-build
autotune retune . --device none
autotune bench --shape 512x512x1024 --backends iree,tuned,numpy
autotune bench unet --target sm_80 --backends iree,tuned,torch
autotune compare golden/ . --markdown --fail-on-regression
autotune compare golden.json 20260301-021500-0a1b2c
autotune report -o report.html
autotune report 20260301-021500-0a1b2c -o run.html
autotune nightly nightly.toml
autotune nightly nightly.toml --dry-run
autotune history --op gemm --since 7d
autotune history --json
autotune export --csv > timings.csv
autotune export --json > timings.json
autotune import timings.json
autotune import machine-*.json --workspace all
autotune cache
autotune cache --clear
autotune doctor
autotune doctor --json
autotune worker --device cuda://0 tls://scheduler:8786
autotune worker --jobs 8 tcp://127.0.0.1:8786
autotune apply resnet50.onnx
autotune apply --shape 512x512x1024 --dtype f32
autotune registry list
autotune registry list registry --json
autotune registry add 20260301-021500-0a1b2c
autotune registry add 20260301-021500-0a1b2c -o team/registry
autotune registry check registry
autotune registry check registry --device none --fail-on-drop
autotune registry merge registry theirs -o registry
autotune registry merge a.jsonl b.jsonl -o merged
autotune registry diff registry merged
autotune registry diff a.jsonl b.jsonl --json
autotune registry export --iree gfx942
autotune registry export registry --iree mi300x -o tuning
autotune bundle run out.zip
autotune bundle run out.zip -o result.zip --device cuda --budget 5m
autotune bundle import out-result.zip
autotune bundle import result.zip --workspace tuned -o specs/gemm.mlir
autotune spec show specs/a.mlir
autotune spec show specs/a.mlir --json
autotune spec merge a.mlir b.mlir -o all.mlir
autotune spec merge specs/*.mlir -o all.mlir
autotune spec check specs/a.mlir
autotune spec check specs/a.mlir model.mlir
""".splitlines()
"""Each runs as written."""


def examples(command: str) -> str:
    """The end of a command's help: a line for each example."""
    own = [line for line in EXAMPLES if f"{line} ".startswith(f"autotune {command} ")]
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in own)
