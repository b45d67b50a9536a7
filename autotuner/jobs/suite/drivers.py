"""Commands of MIOpenDriver's, and of BOO's: lists of options, each a convolution or a product.

`convbfp16 -n 16 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 --in_layout NHWC`, `gemmfp16 --a_h 64 --a_w 32 --b_w 128`.
MIOpen keeps the filters of NHWC convolutions as KYXC; they are tuned as YXCK (hwcf).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotuner.errors import UsageError
from autotuner.problems import Gemm, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.convnd import ConvNd
from autotuner.system.text import short

_DTYPES = {"": "f32", "fp16": "f16", "bfp16": "bf16", "int8": "i8"}
_LONG = {
    "in_layout": "I",
    "fil_layout": "f",
    "out_layout": "O",
    "spatial_dim": "_",
    "in_d": "!",
    "fil_d": "@",
    "conv_stride_d": "#",
    "pad_d": "$",
    "dilation_d": "^",
}
_CONV = frozenset("ncHWkyxpquvljgFmb_IfO!@#$^")
_GEMM = frozenset(("a_h", "a_w", "b_w", "transA", "transB", "batch_count", "isColMajor", "alpha", "beta"))
_ASIDE = frozenset(("t", "time", "i", "iter", "V", "verify", "w", "wall", "s", "search", "S", "solution", "P"))
"""How it is timed and checked there: nothing to us."""
_SIZES = ("n", "c", "H", "W", "k", "y", "x")
_LAYOUTS = {"NHWC": "nhwc-hwcf", "NCHW": "nchw-fchw", "NDHWC": "", "NCDHW": ""}
_DIRECTIONS = ("forward", "data", "weight")


def read_command(words: Sequence[str]) -> Problem:
    """The problem of a command: its name, and its options."""
    command = words[0] if words else ""
    op, dtype = command[:4], _DTYPES.get(command[4:])
    if op not in ("conv", "gemm") or dtype is None:
        raise UsageError("neither a convolution nor a product (conv or gemm, and a type)")
    values = _options(words[1:], _CONV if op == "conv" else _GEMM)
    return _conv(values, dtype) if op == "conv" else _gemm(values, dtype)


def _options(words: Sequence[str], known: frozenset[str]) -> dict[str, str]:
    """What the options say, by their short names where they have one."""
    values: dict[str, str] = {}
    if len(words) % 2:
        raise UsageError("an option has no value")
    for word, value in zip(words[::2], words[1::2], strict=True):
        name = word.lstrip("-")
        name = _LONG.get(name, name)
        if name in _ASIDE:
            continue
        if not word.startswith("-") or name not in known:
            raise UsageError(f"it has an option {short(word)} that is not known")
        values[name] = value
    return values


def _number(values: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = values.get(name, "" if default is None else str(default))
    if not text:
        raise UsageError(f"it has no {'-' if len(name) == 1 else '--'}{name}")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise UsageError(f"{name} {short(text)} is not a whole number")
    return int(text)


def _conv(values: Mapping[str, str], dtype: str) -> Conv | ConvNd:
    if values.get("m", "conv") != "conv":
        raise UsageError("it is transposed (-m)")
    spatial = _number(values, "_", 2)
    if spatial not in (2, 3):
        raise UsageError("it has neither two nor three spatial dimensions")
    which = _number(values, "F", 1)
    direction = _DIRECTIONS[(which & -which).bit_length() - 1] if 0 < which < 8 else _DIRECTIONS[0]
    layouts = {values.get(name, "NCHW" if spatial == 2 else "NCDHW") for name in ("I", "f", "O")}
    if len(layouts) > 1 or not layouts <= _LAYOUTS.keys():
        raise UsageError(f"its layouts are {', '.join(sorted(map(short, layouts)))}, not all NHWC or all NCHW")
    if spatial == 3 or direction != "forward":
        return _convnd(values, dtype, layouts.pop(), direction)
    n, c, h, w, k, y, x = (_number(values, name) for name in _SIZES)

    def pair(first: str, second: str, default: int) -> str:
        return f"{_number(values, first, default)}x{_number(values, second, default)}"

    return Conv.parse(
        shape=f"{n}x{h}x{w}x{c}",
        filter=f"{y}x{x}x{k}",
        stride=pair("u", "v", 1),
        dilation=pair("l", "j", 1),
        pad=pair("p", "q", 0),
        groups=_number(values, "g", 1),
        dtype=dtype,
        layout=_LAYOUTS[layouts.pop()],
        epilogue="bias" if _number(values, "b", 0) else "",
    )


def _convnd(values: Mapping[str, str], dtype: str, layout: str, direction: str) -> ConvNd:
    """A convolution of three dimensions, or a gradient."""
    if not layout.endswith("C"):
        raise UsageError(f"its layout is {layout}: in three dimensions, and backward, channels must be last")
    if _number(values, "b", 0):
        raise UsageError("it adds a bias, which is known of two dimensions forward only")
    deep = "D" in layout

    def each(names: str, default: int | None = None) -> str:
        return "x".join(str(_number(values, name, default)) for name in (names if deep else names[1:]))

    return ConvNd.parse(
        shape=f"{_number(values, 'n')}x{each('!HW')}x{_number(values, 'c')}",
        filter=f"{each('@yx')}x{_number(values, 'k')}",
        direction=direction,
        stride=each("#uv", 1),
        dilation=each("^lj", 1),
        pad=each("$pq", 0),
        groups=_number(values, "g", 1),
        dtype=dtype,
    )


def _gemm(values: Mapping[str, str], dtype: str) -> Gemm:
    if _number(values, "isColMajor", 0):
        raise UsageError("it is column-major")
    m, k, n = (_number(values, name) for name in ("a_h", "a_w", "b_w"))
    letters = ("t" if _number(values, name, 0) else "n" for name in ("transA", "transB"))
    out = dtype if dtype in ("f16", "bf16") else None
    batch = _number(values, "batch_count", 1)
    return Gemm.parse(shape=f"{m}x{n}x{k}", batch=batch, dtype=dtype, layout="".join(letters), out=out)
