"""`autotune gemm`, `conv` and `attention`: the words that make a problem, and how one is tuned."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from autotuner.cli.options import EXPERT, option
from autotuner.cli.request import ProblemRequest, Request, default_dtype, tuning_command
from autotuner.errors import UsageError

if TYPE_CHECKING:
    from autotuner.jobs.buckets import Family
    from autotuner.problems import Gemm, Problem
    from autotuner.problems.attention import Attention
    from autotuner.problems.conv import Conv
    from autotuner.targets import Target
    from autotuner.tuning.dry_run import Rehearsal
    from autotuner.tuning.options import Options
    from autotuner.tuning.result import Result
    from autotuner.tuning.session import Watched

_ATTENTION_SIZES = 5
"""Sizes of its --shape; a product has three, a convolution a --filter."""
_IMAGE_SIZES = 4
_DTYPE = "[f32 on cpu, else f16]"
Dtype = Annotated[str, option("--dtype", f"f32, f16, bf16, i8 or f8. {_DTYPE}")]
Out = Annotated[str | None, option("--out", "Round the result to f16 or bf16.")]
Epilogue = Annotated[
    str,
    option(
        "--epilogue",
        "bias,residual,relu and more: docs/options.md.",
    ),
]


def gemm(
    shape: Annotated[str, option("--shape", "MxNxK, such as 4096x4096x4096.")],
    batch: Annotated[int, option("--batch", "How many products at once.")] = 1,
    dtype: Annotated[str, option("--dtype", f"f32, f16, bf16, i8, f8, or one of docs/shapes.md's. {_DTYPE}")] = "",
    acc: Annotated[str | None, option("--acc", "Accumulator: f32, i32 or f16. [default: by dtype]")] = None,
    layout: Annotated[str, option("--layout", "nn, nt, tn or tt; t: transposed. [nn, with scales nt]")] = "",
    out: Out = None,
    epilogue: Epilogue = "",
    bucket_m: Annotated[str | None, option("--bucket-m", "Bounds of M, such as 16,32,64,any, in one spec.")] = None,
) -> "Gemm | Family":
    """Tune a matrix product: from a shape to a proven spec file."""
    from autotuner.problems import Gemm

    problem = Gemm.parse(shape=shape, dtype=dtype, batch=batch, acc=acc, layout=layout, out=out, epilogue=epilogue)
    if bucket_m is None:
        return problem
    from autotuner.jobs.buckets import Family

    return Family.parse(problem, bucket_m)


def conv(
    shape: Annotated[str, option("--shape", "NxHxWxC of the image.")],
    filter: Annotated[str, option("--filter", "KHxKWxF, such as 3x3x64.")],
    stride: Annotated[str, option("--stride", "SHxSW.")] = "1x1",
    dilation: Annotated[str, option("--dilation", "DHxDW.")] = "1x1",
    pad: Annotated[str, option("--pad", "PHxPW of zeros on each side.")] = "0x0",
    groups: Annotated[int, option("--groups", "Groups of channels.")] = 1,
    dtype: Dtype = "",
    layout: Annotated[str, option("--layout", "nhwc-hwcf or nchw-fchw.")] = "nhwc-hwcf",
    out: Out = None,
    epilogue: Epilogue = "",
) -> "Conv":
    """Tune a convolution. It may run direct, as a matrix product (im2col), or by another route."""
    from autotuner.problems.conv import Conv

    return Conv.parse(
        shape=shape,
        filter=filter,
        stride=stride,
        dilation=dilation,
        pad=pad,
        groups=groups,
        dtype=dtype,
        layout=layout,
        out=out,
        epilogue=epilogue,
    )


def convnd(
    shape: Annotated[str, option("--shape", "NxDxHxWxC of the image; one to three sizes between N and C.")],
    filter: Annotated[str, option("--filter", "KDxKHxKWxF, such as 3x3x3x64.")],
    direction: Annotated[str, option("--direction", "forward, or a gradient: data or weight.")] = "forward",
    stride: Annotated[str, option("--stride", "SDxSHxSW. [1 each]")] = "",
    dilation: Annotated[str, option("--dilation", "DDxDHxDW. [1 each]")] = "",
    pad: Annotated[str, option("--pad", "PDxPHxPW of zeros on each side. [0 each]")] = "",
    groups: Annotated[int, option("--groups", "Groups of channels.")] = 1,
    dtype: Dtype = "",
    out: Out = None,
) -> "Problem":
    """Tune a convolution in one to three dimensions, or its gradient."""
    from autotuner.problems.convnd import ConvNd

    words = {"direction": direction, "stride": stride, "dilation": dilation, "pad": pad}
    return ConvNd.parse(shape=shape, filter=filter, groups=groups, dtype=dtype, out=out, **words)


def attention(
    shape: Annotated[str, option("--shape", "BxHxSQxSKVxD, such as 1x8x1024x1024x64.")],
    dtype: Annotated[str, option("--dtype", f"f32, f16, bf16 or f8. {_DTYPE}")] = "",
    causal: Annotated[bool, option("--causal", "Query i sees keys 0 to i only.")] = False,
) -> "Attention":
    """Tune scaled dot-product attention: softmax(Q·Kᵀ/√D)·V."""
    from autotuner.problems.attention import Attention

    return Attention.parse(shape=shape, dtype=dtype, causal=causal)


def run_problem(wanted: "Problem | Family", request: ProblemRequest) -> None:
    """Tunes one problem, or a family of them, and ends the process with the contract's exit code."""
    from autotuner.cli.tuning import carry_out
    from autotuner.problems import Problem

    if not isinstance(wanted, Problem):
        run_family(wanted, request)
        return
    problem, target = wanted.allowing(request.allow_precision), request.built_for()
    bundle = None if request.dry_run else request.bundle
    options = request.options() if bundle is None else request.untimed().options()

    def rehearse() -> "Rehearsal":
        from autotuner.tuning.dry_run import rehearse

        return rehearse(problem, target, options=options)

    def run(watch: "Watched") -> "Result":
        if bundle is not None:
            from autotuner.tuning.bundling import make_bundle

            return make_bundle(problem, target, bundle, options=options, **watch)
        from autotuner.tuning.tune import tune

        return tune(problem, target, options=options, **watch)

    carry_out(request, run, rehearse=rehearse, kernels=options.microkernels)


def run_family(wanted: "Family", request: Request) -> None:
    """`--bucket-m`: a family of products, one for each range of M."""
    from autotuner.cli.tuning import carry_out
    from autotuner.jobs.buckets import plain_only, tune_family

    request.given.refuse(["bundle"], "is for one --shape, and --bucket-m asks for many")
    request.given.refuse(["microkernels"], "is for one --shape, and no microkernels join with --bucket-m")
    wanted = replace(wanted, gemm=wanted.gemm.allowing(request.allow_precision))
    target, options = request.built_for(), request.options()
    if request.cache == "cold":
        request.given.refuse(["cache"], "cold is for one --shape: the buckets' entries are compared with a warm cache")
    carry_out(
        request,
        lambda watch: tune_family(wanted, target, options=options, **watch),
        rehearse=lambda: _rehearse_family(wanted, plain_only(target), options),
    )


def _rehearse_family(family: "Family", target: "Target", options: "Options") -> "Rehearsal":
    """The buckets, and what the run of the one would be in which --shape's M falls."""
    from autotuner.tuning.dry_run import Rehearsal, rehearse

    made = rehearse(family.member(family.home.at), target, options=options)
    buckets = [{"bucket": b.name, "low": b.low, "high": b.high, "tuned_at": b.at} for b in family.buckets]
    lines = []
    for bucket in family.buckets:
        members = ", ".join(str(m) for m in bucket.members if m != bucket.at) or "no other size"
        lines.append(f"bucket {bucket.name}: {bucket.text}, tuned at M = {bucket.at}, raced at {members} as well")
    said = "\n".join([*lines, "", f"the run at M = {family.home.at}:", made.said])
    return Rehearsal({**made.document, "buckets": buckets}, said)


COMMANDS: Mapping[str, Callable[..., Any]] = {"gemm": gemm, "conv": conv, "convnd": convnd, "attention": attention}
TUNING = {op: tuning_command(parse, run_problem, request=ProblemRequest) for op, parse in COMMANDS.items()}
"""The commands by name."""
_NOT_OF_A_PROBLEM = frozenset({"bucket_m"})
"""Options that make more than one problem."""


def words_of(op: str) -> dict[str, inspect.Parameter]:
    """The options that name a problem of this operation."""
    parameters = inspect.signature(COMMANDS[op]).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in _NOT_OF_A_PROBLEM}


_ANY = {
    "shape": "MxNxK, NxHxWxC (with --filter) or BxHxSQxSKVxD.",
    "layout": "nn, nt, tn or tt of a product; nhwc-hwcf or nchw-fchw of a convolution.",
}


def any_problem() -> list[inspect.Parameter]:
    """The options of all operations, each once and none required: for a command that takes any problem."""
    found = {name: parameter for op in [*COMMANDS][::-1] for name, parameter in words_of(op).items()}
    return [_optional(parameter) for parameter in found.values()]


def _optional(parameter: inspect.Parameter) -> inspect.Parameter:
    kind, own = get_args(parameter.annotation)
    # Within Annotated, typer reads an option's first word as a declaration, though it is called the default.
    panel = None if parameter.name in ("shape", "dtype") else EXPERT
    words = {"help": _ANY.get(parameter.name, own.help), "rich_help_panel": panel}
    default = typer.Option(None, own.default, *own.param_decls, **words)
    return parameter.replace(default=default, annotation=kind | None)


def named_problem(given: Mapping[str, Any], request: Request, *, kernel: str | None = None) -> "Problem | None":
    """The problem that the words give: of the microkernel's operation, else by their form; None without --shape."""
    from autotuner.microkernels.instance import search_folders
    from autotuner.microkernels.library import find
    from autotuner.problems.base import sizes_in
    from autotuner.problems.operations import OPERATIONS

    words, op = dict(given), "gemm"
    everything = {name for known in COMMANDS for name in words_of(known)}
    if "shape" not in words:
        request.given.refuse(sorted(everything), "says more of a --shape", remedy="Give --shape too.")
        return None
    if kernel is not None:
        manifest = find(kernel, search_folders(request.workspace), OPERATIONS)
        op = manifest.operation
        words.setdefault("dtype", manifest.dtypes[0])
    elif "filter" in words:
        op = "conv" if "direction" not in words and len(sizes_in(words["shape"])) == _IMAGE_SIZES else "convnd"
    elif len(sizes_in(words["shape"])) == _ATTENTION_SIZES:
        op = "attention"
    if op == "conv" and "filter" not in words:
        raise UsageError(f"{kernel} is a convolution.", remedy="Give --filter KHxKWxF too.")
    request.given.refuse(sorted(everything - words_of(op).keys()), f"is not for {op}")
    words.setdefault("dtype", default_dtype(request.target))
    problem: Problem = COMMANDS[op](**words)
    return problem
