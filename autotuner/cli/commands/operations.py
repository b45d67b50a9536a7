"""`autotune gemm`, `conv` and `attention`: the words that make a problem; the rest is common to all."""

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from autotuner.cli import completion
from autotuner.cli.lazy import Lazy

if TYPE_CHECKING:
    from autotuner import problems, targets
    from autotuner.jobs import buckets
else:
    buckets, problems = Lazy("autotuner.jobs.buckets"), Lazy("autotuner.problems")
    targets = Lazy("autotuner.targets")


_DTYPE = "[default: f32 on cpu, f16 elsewhere]"
_EPILOGUE = (
    "What is done with the sums: bias, residual, and relu, clip=LOW:HIGH or an activation; such as bias,relu or "
    "bias,residual,gelu. All activations: docs/options.md."
)
_OUT = "Round the result to f16 or bf16. [default: the accumulator's type]"

DtypeOption = Annotated[
    str,
    typer.Option(
        "--dtype",
        help=f"f32, f16, bf16, i8 or f8. {_DTYPE}",
        autocompletion=completion.one_of("f32", "f16", "bf16", "i8", "f8"),
    ),
]
OutOption = Annotated[str | None, typer.Option("--out", help=_OUT, autocompletion=completion.one_of("f16", "bf16"))]
EpilogueOption = Annotated[
    str,
    typer.Option("--epilogue", help=_EPILOGUE, autocompletion=completion.epilogue),
]


def gemm(
    shape: Annotated[str, typer.Option("--shape", help="MxNxK, such as 4096x4096x4096.")],
    batch: Annotated[int, typer.Option("--batch", help="How many products at once.")] = 1,
    dtype: DtypeOption = "",
    acc: Annotated[
        str | None,
        typer.Option(
            "--acc",
            help="Accumulator: f32, i32 or f16. [default: by dtype]",
            autocompletion=completion.one_of("f32", "i32", "f16"),
        ),
    ] = None,
    layout: Annotated[
        str,
        typer.Option(
            "--layout",
            help="nn, nt, tn or tt: is A, is B transposed?",
            autocompletion=completion.one_of("nn", "nt", "tn", "tt"),
        ),
    ] = "nn",
    out: OutOption = None,
    epilogue: EpilogueOption = "",
    bucket_m: Annotated[
        str | None,
        typer.Option("--bucket-m", help="Bounds of M, such as 16,32,64,any: one spec with an entry for each range."),
    ] = None,
) -> "problems.Gemm | buckets.Family":
    """Tune a matrix product: from a shape to a proven spec file."""
    problem = problems.Gemm.parse(
        shape=shape, dtype=dtype, batch=batch, acc=acc, layout=layout, out=out, epilogue=epilogue
    )
    return problem if bucket_m is None else buckets.Family.parse(problem, bucket_m)


def conv(
    shape: Annotated[str, typer.Option("--shape", help="NxHxWxC of the image, whatever its layout.")],
    filter: Annotated[str, typer.Option("--filter", help="KHxKWxF, such as 3x3x64.")],
    stride: Annotated[str, typer.Option("--stride", help="SHxSW.")] = "1x1",
    dilation: Annotated[str, typer.Option("--dilation", help="DHxDW.")] = "1x1",
    pad: Annotated[str, typer.Option("--pad", help="PHxPW: rows and columns of zeros on each side.")] = "0x0",
    groups: Annotated[int, typer.Option("--groups", help="Groups of channels; as many as channels: depthwise.")] = 1,
    dtype: DtypeOption = "",
    layout: Annotated[
        str,
        typer.Option(
            "--layout", help="nhwc-hwcf or nchw-fchw.", autocompletion=completion.one_of("nhwc-hwcf", "nchw-fchw")
        ),
    ] = "nhwc-hwcf",
    out: OutOption = None,
    epilogue: EpilogueOption = "",
) -> "problems.Conv":
    """Tune a convolution. It may run direct, as a matrix product (im2col), or by another route."""
    return problems.Conv.parse(
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


def attention(
    shape: Annotated[str, typer.Option("--shape", help="BxHxSQxSKVxD, such as 1x8x1024x1024x64.")],
    dtype: Annotated[
        str,
        typer.Option(
            "--dtype",
            help=f"f32, f16, bf16 or f8. {_DTYPE}",
            autocompletion=completion.one_of("f32", "f16", "bf16", "f8"),
        ),
    ] = "",
    causal: Annotated[bool, typer.Option("--causal", help="Query i sees keys 0 to i only.")] = False,
) -> "problems.Attention":
    """Tune scaled dot-product attention: softmax(Q·Kᵀ/√D)·V."""
    return problems.Attention.parse(shape=shape, dtype=dtype, causal=causal)


def default_dtype(target: str) -> str:
    """What people multiply there."""
    return targets.Target.parse(target).usual_dtype


COMMANDS: Mapping[str, Callable[..., Any]] = {"gemm": gemm, "conv": conv, "attention": attention}
_NOT_OF_A_PROBLEM = frozenset({"bucket_m"})
"""What makes more than one problem of the words."""


def words_of(op: str) -> dict[str, inspect.Parameter]:
    """The options that say which problem of an operation is meant."""
    parameters = inspect.signature(COMMANDS[op]).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in _NOT_OF_A_PROBLEM}


def any_problem(**notes: str) -> list[inspect.Parameter]:
    """The options of all operations, each once and none required: for a command that takes any problem.

    `notes` are added to the help of the options with these names.
    """
    found: dict[str, dict[str, inspect.Parameter]] = {}
    for op in COMMANDS:
        for name, parameter in words_of(op).items():
            found.setdefault(name, {})[op] = parameter
    return [_merged(name, by_operation, notes.get(name, "")) for name, by_operation in found.items()]


def _merged(name: str, by_operation: Mapping[str, inspect.Parameter], note: str) -> inspect.Parameter:
    """One option for several operations; its help says what each means by it."""
    kinds, options = zip(*(get_args(parameter.annotation) for parameter in by_operation.values()), strict=True)
    texts: dict[str, list[str]] = {}
    for op, option in zip(by_operation, options, strict=True):
        texts.setdefault(option.help, []).append(op)
    spelt = " ".join([*(f"{', '.join(ops)}: {text}" for text, ops in texts.items()), *([note] if note else [])])
    # Within Annotated, typer reads an option's first word as a declaration, though it is called the default.
    words, kind = (options[0].default, *options[0].param_decls), kinds[0] | None
    complete = completion.any_of([option.autocompletion for option in options if option.autocompletion])
    default = typer.Option(None, *words, help=spelt, autocompletion=complete)
    return inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default, annotation=kind)
