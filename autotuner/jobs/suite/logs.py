"""Workloads that others write down, one product or convolution a line: hipBLASLt's log, and MIOpenDriver's commands.

A log (HIPBLASLT_LOG_MASK=64 or 128) has one mapping a line, column-major; it may hold hundreds of megabytes and end in
the middle of a line. MIOpenDriver's commands, and BOO's, are lists of options:
`convbfp16 -n 16 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 --in_layout NHWC …`,
`gemmfp16 --a_h 64 --a_w 32 --b_w 128`.
What is broken, or is neither a product nor a convolution, is reported and left out.
"""

from __future__ import annotations

import csv
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import PurePath
from typing import BinaryIO

from autotuner.errors import UsageError
from autotuner.jobs.suite.workload import Entry, Skipped
from autotuner.problems import Gemm, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.convnd import ConvNd
from autotuner.problems.operation import MOST
from autotuner.system.text import short

_MAX_LINE = 4096
"""A mapping of the library's takes some 600 bytes."""
_MOST_PROBLEMS, _MOST_REASONS = 100_000, 1000
"""Of one file, so that one of gigabytes does not fill the memory."""
_KEPT = 1 << 14
"""Lines that are known when they come again, as in a log they mostly do: some 20 MB."""

Read = tuple[tuple[Entry, ...], tuple[Skipped, ...]]
"""The problems with their calls, and the lines that are left out."""


def read_lines(file: BinaryIO, read: Callable[[str], Entry | None], *, skip: str = "#", once: bool = False) -> Read:
    """Lines with the same reason are reported once, by the first. Where calls are not counted a problem is `once`."""
    calls: dict[Problem, list[int]] = {}
    skipped: dict[str, Skipped] = {}

    @lru_cache(_KEPT)
    def told(text: str) -> tuple[list[int], int] | str | None:
        """Where a line's calls are counted, and how many they are; a text: why it is left out."""
        try:
            if len(text) > _MAX_LINE:
                raise UsageError(f"longer than {_MAX_LINE} characters")
            entry = read(text)
        except (UsageError, csv.Error) as why:
            return str(why)
        return None if entry is None else (calls.setdefault(entry.problem, [0]), entry.calls)

    for number, text in _lines(file):
        if text.startswith(skip):
            continue
        found = told(text)
        if isinstance(found, str):
            reason = found if len(skipped) < _MOST_REASONS or found in skipped else "other reasons"
            before = skipped.get(reason, Skipped(short(text), reason, number, 0))
            skipped[reason] = replace(before, lines=before.lines + 1)
        elif found is not None:
            counted, more = found
            counted[0] = more + (0 if once else counted[0])
            if len(calls) > _MOST_PROBLEMS:
                raise UsageError(f"it has more than {_MOST_PROBLEMS} different problems.", remedy="Divide it.")
    return tuple(Entry(problem, count) for problem, (count,) in calls.items()), tuple(skipped.values())


def _lines(file: BinaryIO) -> Iterator[tuple[int, str]]:
    """With their numbers, without comments; of a line without an end a part."""
    number, begins = 1, True
    while part := file.readline(1 << 20):
        text = part.decode("utf-8", errors="replace").strip() if begins else ""
        if text and not text.startswith("#") and text not in ("---", "..."):
            yield number, text
        begins = part.endswith(b"\n")
        number += begins


# --- hipBLASLt --------------------------------------------------------------------------------------------------------

_PAIR = r"[A-Za-z_]\w*: *(?:[\w.+-]+|\"\w*\")"
_MAPPING = re.compile(rf"(?:- *)?\{{({_PAIR}(?:, *{_PAIR})*)\}}", re.ASCII)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_TYPES = {
    "f32_r": "f32",
    "f16_r": "f16",
    "bf16_r": "bf16",
    "i8_r": "i8",
    "i32_r": "i32",
    **dict.fromkeys(("f8_r", "f8_fnuz_r"), "f8"),
    **dict.fromkeys(("bf8_r", "bf8_fnuz_r"), "bf8"),
}
"""Of the two 8-bit floats each target has one, and takes that."""
_COMPUTE = {"c_f32_r": "f32", "c_f16_r": "f16", "c_i32_r": "i32", "f32_r": "f32", "f16_r": "f16", "i32_r": "i32"}
_ACTIVATIONS: Mapping[str, tuple[str, ...]] = {
    "none": (),
    "relu": ("relu",),
    "gelu": ("tanhgelu",),
    **dict.fromkeys(("swish", "silu"), ("silu",)),
    "sigmoid": ("sigmoid",),
}
"""hipBLASLt's activations in words of `--epilogue`; its gelu is that by tanh."""
_LETTERS = {"N": "n", "T": "t", "C": "t"}
"""The conjugate of a real matrix is itself."""


def read_log(file: BinaryIO) -> Read:
    """The products of a log, in row-major terms."""
    return read_lines(file, read_mapping)


def read_mapping(text: str) -> Entry:
    """A line as the library writes it: names and plain values."""
    match = _MAPPING.fullmatch(text)
    if match is None:
        raise UsageError("not a whole mapping of names and values, as hipBLASLt writes it")
    fields = {"batch_count": "1", "call_count": "1", "function": "matmul"}
    for pair in match[1].split(","):
        name, _, value = pair.partition(":")
        fields[name.strip()] = value.strip().strip('"')
    if fields["function"] != "matmul":
        raise UsageError(f"function {short(fields['function'])} is no matmul")
    m, n, k, batch, calls = (_whole(fields, name) for name in ("M", "N", "K", "batch_count", "call_count"))
    if calls > MOST:
        raise UsageError(f"call_count is {calls}")
    compute, a, b = (_word(fields, name) for name in ("compute_type", "transA", "transB"))
    if compute not in _COMPUTE:
        raise UsageError(f"compute type {short(compute)} cannot be tuned.")
    lhs, rhs, out = (_type(_word(fields, name)) for name in ("b_type", "a_type", "d_type"))
    row = Row(
        sizes=(m, n, k),
        batch=batch,
        transposed=a + b,
        dtype=dtype_of_two(lhs, rhs),
        rows=_by_rows(fields),
        acc=_COMPUTE[compute],
        out=out,
        epilogue=_epilogue(fields),
    )
    return Entry(row_major(row), calls)


@dataclass(frozen=True, slots=True)
class Row:
    """A column-major product D = op(A)·op(B), as libraries describe it."""

    sizes: tuple[int, int, int]
    """M, N and K."""
    transposed: str
    """Of A, then of B: N, T or C."""
    dtype: str
    """That of the row-major product."""
    out: str
    batch: int = 1
    rows: bool = False
    """Whether each row of A and each column of B has a scale."""
    acc: str | None = None
    epilogue: str = ""


@lru_cache(maxsize=1 << 12)
def row_major(row: Row) -> Gemm:
    """Column-major C = op(A)·op(B) is row-major Cᵀ = op(B)ᵀ·op(A)ᵀ: sizes and operands change places.

    So does the bias: one number for each of the library's rows is one for each of our columns.
    """
    m, n, k = row.sizes
    if unknown := [letter for letter in row.transposed if letter.upper() not in _LETTERS]:
        raise UsageError(f"{short(unknown[0])} is no transposition")
    dtype = row.dtype
    if row.rows:
        if dtype != "f8":
            raise UsageError(f"{dtype} with a scale for each row cannot be tuned")
        dtype = "f8row"
    a, b = row.transposed[0].upper(), row.transposed[1].upper()
    return Gemm.parse(
        shape=f"{n}x{m}x{k}",
        batch=row.batch,
        dtype=dtype,
        acc=row.acc,
        layout=_LETTERS[b] + _LETTERS[a],
        out=row.out,
        epilogue=row.epilogue,
    )


def dtype_of_two(lhs: str, rhs: str) -> str:
    """The command line's word for operands of these types."""
    if lhs != rhs and {lhs, rhs} != {"f8", "bf8"}:
        raise UsageError(f"operands of two types ({lhs}, {rhs}) cannot be tuned.")
    return lhs if lhs == rhs else f"{lhs}x{rhs}"


def _by_rows(fields: Mapping[str, str]) -> bool:
    """Whether it is scaled row by row. One scale for all of an operand changes no speed, and is left aside."""
    scales = {fields.get(name, "0").lower() for name in ("scaleA", "scaleB")}
    if scales <= {"0", "1", "none", "scalar"}:
        return False
    if scales not in ({"2"}, {"vector"}):
        raise UsageError(f"scales of kind {', '.join(sorted(map(short, scales)))} cannot be tuned")
    return True


def _epilogue(fields: Mapping[str, str]) -> str:
    """The words of what is done with the sums: bias, C, activation."""
    for name in ("scaleAlpha_vector", "use_e", "gradient"):
        if _truth(fields, name):
            raise UsageError(f"{name} cannot be tuned")
    activation = fields.get("activation_type", "none").lower()
    if activation not in _ACTIVATIONS:
        raise UsageError(f"activation {short(activation)} cannot be tuned")
    words = ["bias"] if _truth(fields, "bias_vector") else []
    if _float(fields, "beta"):
        if fields.get("c_type", fields["d_type"]) != fields["d_type"]:
            raise UsageError("its C and D have two types")
        words.append("residual")
    return ",".join([*words, *_ACTIVATIONS[activation]])


def _truth(fields: Mapping[str, str], name: str) -> bool:
    return fields.get(name, "false").lower() in ("true", "1")


def _float(fields: Mapping[str, str], name: str) -> float:
    try:
        return float(fields.get(name, "0"))
    except ValueError:
        raise UsageError(f"{name} is {short(fields[name])}, no number") from None


def _type(name: str) -> str:
    if name not in _TYPES:
        raise UsageError(f"type {short(name)} cannot be tuned.")
    return _TYPES[name]


def _whole(fields: Mapping[str, str], name: str) -> int:
    value = _word(fields, name)
    if not _NUMBER.fullmatch(value):
        raise UsageError(f"{name} is {short(value)}, no whole number")
    if value == "0":
        raise UsageError(f"{name} is 0: there is nothing to compute.")
    return int(value)


def _word(fields: Mapping[str, str], name: str) -> str:
    if not (value := fields.get(name)):
        raise UsageError(f"{name} is missing")
    return value


# --- commands of drivers ----------------------------------------------------------------------------------------------

_DRIVERS = ("MIOpenDriver", "iree-boo-driver")
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


def read_commands(file: BinaryIO) -> Read:
    """The problems of a list of commands, each called as often as it stands there.

    MIOpen keeps the filters of NHWC convolutions as KYXC; they are tuned as YXCK (hwcf).
    """
    return read_lines(file, lambda line: Entry(read_command(line)))


def read_command(line: str) -> Problem:
    """The problem of one line."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise UsageError(f"it cannot be split into words: {error}") from error
    if words and PurePath(words[0]).name in _DRIVERS:
        words = words[1:]
    command = words[0] if words else ""
    op, dtype = command[:4], _DTYPES.get(command[4:])
    if op not in ("conv", "gemm") or dtype is None:
        raise UsageError(f"{short(command)} is neither a convolution nor a product (conv or gemm, and a type)")
    values = _options(words[1:], _CONV if op == "conv" else _GEMM)
    return _conv(values, dtype) if op == "conv" else _gemm(values, dtype)


def _options(words: list[str], known: frozenset[str]) -> dict[str, str]:
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
