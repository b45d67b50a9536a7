"""Workloads that others write down, one product or convolution a line: hipBLASLt's log, and commands of drivers.

A log (HIPBLASLT_LOG_MASK=64 or 128) has one mapping a line, column-major; it may hold hundreds of megabytes and end in
the middle of a line. MIOpenDriver's commands, BOO's and Fusilli's are lists of options:
`convbfp16 -n 16 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 --in_layout NHWC …`,
`gemmfp16 --a_h 64 --a_w 32 --b_w 128`; in Fusilli's words `conv --bf16 -n 16 …`, `matmul -M 64 -N 128 -K 32 …`.
What is broken, or is neither a product nor a forward convolution, is reported and left out.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO, NamedTuple, TypeVar

from autotuner.errors import UsageError
from autotuner.jobs.suite.workload import Entry, Skipped, distinct
from autotuner.problems import Conv, Gemm, Problem
from autotuner.problems.operation import MOST
from autotuner.system.text import printable, short

_MAX_LINE = 4096
"""A mapping of the library's takes some 600 bytes."""
_SHOWN = 100
KYXC = "filters of NHWC convolutions are KYXC in MIOpen; they are tuned as YXCK (hwcf), which may differ in speed"

Read = tuple[tuple[Entry, ...], tuple[Skipped, ...], tuple[str, ...], str]
"""The problems with their calls, the lines that are left out, notes, and the file's SHA-256."""
Form = TypeVar("Form", bound=Hashable)


class _BrokenError(Exception):
    """A line that says nothing that could be tuned."""


@dataclass
class _Seen:
    first: int
    calls: int = 0
    lines: int = 0


def _read_lines(file: BinaryIO, read: Callable[[str], tuple[Form, int]], make: Callable[[Form], Problem]) -> Read:
    """`read` gives what a line asks and how often it is called; `make` makes a problem of it, once of all alike."""
    digest = hashlib.sha256()
    seen: dict[Form, _Seen] = {}
    entries, skipped = [], []
    for number, text in _lines(file, digest.update):
        try:
            if len(text) > _MAX_LINE:
                raise _BrokenError(f"longer than {_MAX_LINE} characters")
            form, calls = read(text)
        except (_BrokenError, UsageError) as why:
            skipped.append(Skipped(_shown(text), str(why), number))
            continue
        one = seen.setdefault(form, _Seen(number))
        one.calls, one.lines = one.calls + calls, one.lines + 1
    for form, one in seen.items():
        try:
            entries.append(Entry(make(form), one.calls))
        except UsageError as error:
            skipped.append(Skipped(_shown(str(form), 200), str(error), one.first, one.lines))
    return distinct(entries), tuple(sorted(skipped, key=lambda s: s.line or 0)), (), digest.hexdigest()


def _lines(file: BinaryIO, watch: Callable[[bytes], None]) -> Iterator[tuple[int, str]]:
    """With their numbers, without comments; of a line without an end a part."""
    number, begins = 1, True
    while part := file.readline(1 << 20):
        watch(part)
        text = part.decode("utf-8", errors="replace").strip() if begins else ""
        if text and not text.startswith("#") and text not in ("---", "..."):
            yield number, text
        begins = part.endswith(b"\n")
        number += begins


def _shown(text: str, most: int = _SHOWN) -> str:
    """For a message: printable, and not the whole line."""
    return printable(text) if len(text) <= most else f"{printable(text[: most - 3])}..."


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
    "f8_r": "f8",
    "f8_fnuz_r": "f8",
}
"""Of the two 8-bit floats each target has one, and takes that."""
_COMPUTE = {"c_f32_r": "f32", "c_f16_r": "f16", "c_i32_r": "i32", "f32_r": "f32", "f16_r": "f16", "i32_r": "i32"}
_FAST = {"c_f32_fast_f16_r": "f16", "c_f32_fast_bf16_r": "bf16"}
"""Compute types that round their inputs first: nothing changes where the inputs have that type already."""
_LETTERS = {"N": "n", "T": "t", "C": "t"}
"""The conjugate of a real matrix is itself."""


class Key(NamedTuple):
    """What makes two lines the same GEMM; everything else (strides, scales, epilogue) is left aside."""

    trans_a: str
    trans_b: str
    batch: int
    m: int
    n: int
    k: int
    a_type: str
    b_type: str
    c_type: str
    d_type: str
    compute_type: str

    def __str__(self) -> str:
        batch = f"{self.batch}x" if self.batch != 1 else ""
        types = f"{self.a_type} {self.b_type} {self.c_type} {self.d_type} {self.compute_type}"
        return f"{self.trans_a}{self.trans_b} {batch}{self.m}x{self.n}x{self.k} {types}"


def read_log(file: BinaryIO) -> Read:
    """The products of a log, in row-major terms."""
    return _read_lines(file, _read_mapping, row_major)


def row_major(key: Key) -> Gemm:
    """Column-major C = op(A)·op(B) is row-major Cᵀ = op(B)ᵀ·op(A)ᵀ: sizes and operands change places."""
    for name, value in (("M", key.m), ("N", key.n), ("K", key.k), ("batch_count", key.batch)):
        if value == 0:
            raise UsageError(f"{name} is 0: there is nothing to compute.")
    dtype = _type(key.a_type)
    if _type(key.b_type) != dtype:
        raise UsageError(f"operands of two types ({_shown(key.a_type)}, {_shown(key.b_type)}) cannot be tuned.")
    acc = "f32" if _FAST.get(key.compute_type) == dtype else _COMPUTE.get(key.compute_type)
    if acc is None:
        raise UsageError(f"compute type {_shown(key.compute_type)} cannot be tuned.")
    return Gemm.parse(
        shape=f"{key.n}x{key.m}x{key.k}",
        batch=key.batch,
        dtype=dtype,
        acc=acc,
        layout=_LETTERS[key.trans_b] + _LETTERS[key.trans_a],
        out=_type(key.d_type),
    )


def _type(name: str) -> str:
    if name not in _TYPES:
        raise UsageError(f"type {_shown(name)} cannot be tuned.")
    return _TYPES[name]


def _read_mapping(text: str) -> tuple[Key, int]:
    """A line as the library writes it: names and plain values."""
    match = _MAPPING.fullmatch(text)
    if match is None:
        raise _BrokenError("not a whole mapping of names and values, as hipBLASLt writes it")
    fields = {"batch_count": "1", "call_count": "1", "function": "matmul"}
    for pair in match[1].split(","):
        name, _, value = pair.partition(":")
        fields[name.strip()] = value.strip().strip('"')
    if fields["function"] != "matmul":
        raise _BrokenError(f"function {short(fields['function'])} is no matmul")
    left, right = (_word(fields, name).upper() for name in ("transA", "transB"))
    if unknown := [letter for letter in (left, right) if letter not in _LETTERS]:
        raise _BrokenError(f"{short(unknown[0])} is no transposition")
    batch, m, n, k, calls = (_whole(fields, name) for name in ("batch_count", "M", "N", "K", "call_count"))
    if not 0 < calls <= MOST:
        raise _BrokenError(f"call_count is {calls}")
    fields.setdefault("c_type", fields.get("d_type", ""))
    a, b, c, d, compute = (_word(fields, f"{name}_type") for name in ("a", "b", "c", "d", "compute"))
    return Key(left, right, batch, m, n, k, a, b, c, d, compute), calls


def _whole(fields: Mapping[str, str], name: str) -> int:
    value = _word(fields, name)
    if not _NUMBER.fullmatch(value):
        raise _BrokenError(f"{name} is {short(value)}, no whole number")
    return int(value)


def _word(fields: Mapping[str, str], name: str) -> str:
    if not (value := fields.get(name)):
        raise _BrokenError(f"{name} is missing")
    return value


# --- commands of drivers ----------------------------------------------------------------------------------------------

_DRIVERS = ("MIOpenDriver", "iree-boo-driver", "fusilli_benchmark_driver")
_DTYPES = {"": "f32", "fp16": "f16", "bfp16": "bf16", "int8": "i8"}
_CONV = {
    "batchsize": "n",
    "in_channels": "c",
    "in_h": "H",
    "in_w": "W",
    "out_channels": "k",
    "fil_h": "y",
    "fil_w": "x",
    "pad_h": "p",
    "pad_w": "q",
    "conv_stride_h": "u",
    "conv_stride_w": "v",
    "dilation_h": "l",
    "dilation_w": "j",
    "group_count": "g",
    "forw": "F",
    "mode": "m",
    "bias": "b",
    "spatial_dim": "_",
    "in_layout": "I",
    "fil_layout": "f",
    "out_layout": "O",
}
"""The long names of what says which convolution it is."""
_GEMM = dict.fromkeys(("a_h", "a_w", "b_w", "transA", "transB", "batch_count", "isColMajor", "alpha", "beta"), "")
_MATMUL = dict.fromkeys(("M", "N", "K", "a_type", "b_type", "out_type"), "")
_FLAGS = {"--fp16": "f16", "--bf16": "bf16"}
"""Fusilli's convolutions have their type in an option without a value."""
_ASIDE = {"t": "time", "i": "iter", "V": "verify", "w": "wall", "s": "search", "S": "solution", "P": "printconv"}
"""How it is timed and checked there: nothing to us."""
_SIZES = ("n", "c", "H", "W", "k", "y", "x")
_LAYOUTS = {"NHWC": "nhwc-hwcf", "NCHW": "nchw-fchw"}


def read_commands(file: BinaryIO) -> Read:
    """The problems of a list of commands, each called as often as it stands there."""
    entries, skipped, _, digest = _read_lines(file, lambda line: (read_command(line), 1), lambda problem: problem)
    last = any(isinstance(entry.problem, Conv) and entry.problem.channels_last for entry in entries)
    return entries, skipped, (KYXC,) if last else (), digest


def read_command(line: str) -> Problem:
    """The problem of one line."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise _BrokenError(f"it cannot be split into words: {error}") from error
    if words and PurePath(words[0]).name in _DRIVERS:
        words = words[1:]
    command = words[0] if words else ""
    if command == "matmul":
        return _matmul(_options(words[1:], _MATMUL))
    if command == "conv" and (flags := [word for word in words if word in _FLAGS]):
        rest = [word for word in words[1:] if word not in _FLAGS]
        return _conv(_options(rest, _CONV), _FLAGS[flags[-1]])
    for op, known in (("conv", _CONV), ("gemm", _GEMM)):
        if command.startswith(op) and (dtype := _DTYPES.get(command.removeprefix(op))):
            values = _options(words[1:], known)
            return _conv(values, dtype) if op == "conv" else _gemm(values, dtype)
    raise _BrokenError(f"{short(command)} is none of conv, gemm and matmul")


def _options(words: list[str], known: Mapping[str, str]) -> dict[str, str]:
    """What the options say, by their short names where they have one."""
    values: dict[str, str] = {}
    if len(words) % 2:
        raise _BrokenError("an option has no value")
    for word, value in zip(words[::2], words[1::2], strict=True):
        name = word.lstrip("-")
        name = known.get(name) or name
        if name in _ASIDE or name in _ASIDE.values():
            continue
        if not word.startswith("-") or (name not in known.values() and name not in known):
            raise _BrokenError(f"it has an option {short(word)} that is not known")
        values[name] = value
    return values


def _number(values: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = values.get(name, "" if default is None else str(default))
    if not text:
        raise _BrokenError(f"it has no {'-' if len(name) == 1 else '--'}{name}")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise _BrokenError(f"{name} {short(text)} is not a whole number")
    return int(text)


def _conv(values: Mapping[str, str], dtype: str) -> Conv:
    if values.get("m", "conv") != "conv":
        raise _BrokenError("it is transposed (-m)")
    if _number(values, "_", 2) != 2:
        raise _BrokenError("it has not two spatial dimensions")
    direction = _number(values, "F", 1)
    if direction and not direction % 2:
        raise _BrokenError(f"it goes backward (-F {direction}), and only forward convolutions are tuned")
    layouts = {values.get(name, "NCHW") for name in ("I", "f", "O")}
    if len(layouts) > 1 or not layouts <= _LAYOUTS.keys():
        raise _BrokenError(f"its layouts are {', '.join(sorted(map(short, layouts)))}, not all NHWC or all NCHW")
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


def _gemm(values: Mapping[str, str], dtype: str) -> Gemm:
    if _number(values, "isColMajor", 0):
        raise _BrokenError("it is column-major")
    m, k, n = (_number(values, name) for name in ("a_h", "a_w", "b_w"))
    letters = ("t" if _number(values, name, 0) else "n" for name in ("transA", "transB"))
    out = dtype if dtype in ("f16", "bf16") else None
    batch = _number(values, "batch_count", 1)
    return Gemm.parse(shape=f"{m}x{n}x{k}", batch=batch, dtype=dtype, layout="".join(letters), out=out)


def _matmul(values: Mapping[str, str]) -> Gemm:
    types = [values.get(name, "f32") for name in ("a_type", "b_type", "out_type")]
    if types[0] != types[1] or types[0] not in ("f32", "f16", "bf16") or types[2] not in ("f32", types[0]):
        raise _BrokenError(f"its types are {', '.join(map(short, types))}")
    m, n, k = (_number(values, name) for name in ("M", "N", "K"))
    return Gemm.parse(shape=f"{m}x{n}x{k}", dtype=types[0], out=None if types[2] == "f32" else types[2])
