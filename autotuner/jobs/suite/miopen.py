"""Lists of commands of MIOpenDriver, BOO's driver and Fusilli's: one convolution or product a line.

`convbfp16 -n 16 -c 64 -H 56 -W 56 -k 64 -y 3 -x 3 -p 1 -q 1 --in_layout NHWC …`,
`gemmfp16 --a_h 64 --a_w 32 --b_w 128`; in Fusilli's words `conv --bf16 -n 16 …`, `matmul -M 64 -N 128 -K 32 …`.
What is no forward convolution or product is reported and left out.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping
from pathlib import PurePath
from typing import BinaryIO

from autotuner.errors import UsageError
from autotuner.jobs.suite.workload import Entry, Skipped, distinct
from autotuner.problems import Conv, Gemm, Problem
from autotuner.system.text import printable, short

_MAX_LINE = 4096
_SHOWN = 100
_DRIVERS = ("MIOpenDriver", "iree-boo-driver", "fusilli_benchmark_driver")
_TYPES = {"": "f32", "fp16": "f16", "bfp16": "bf16", "int8": "i8"}
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
KYXC = "filters of NHWC convolutions are KYXC in MIOpen; they are tuned as YXCK (hwcf), which may differ in speed"


class _OtherError(Exception):
    """A line that says nothing that could be tuned."""


def read_commands(file: BinaryIO) -> tuple[tuple[Entry, ...], tuple[Skipped, ...], tuple[str, ...], str]:
    """The problems with how often each stands there, the lines that are left out, notes, and the file's digest."""
    digest, entries, skipped, notes = hashlib.sha256(), [], [], []
    for number, data in enumerate(iter(lambda: file.readline(_MAX_LINE + 1), b""), start=1):
        digest.update(data)
        line = data.decode("utf-8", errors="replace").strip()
        if not line or line.startswith("#"):
            continue
        try:
            if len(data) > _MAX_LINE:
                raise _OtherError(f"longer than {_MAX_LINE} characters")
            problem = read_command(line)
            entries.append(Entry(problem))
            if isinstance(problem, Conv) and problem.channels_last:
                notes = [KYXC]
        except (_OtherError, UsageError) as why:
            skipped.append(Skipped(printable(line[:_SHOWN]), str(why), number))
    return distinct(entries), tuple(skipped), tuple(notes), digest.hexdigest()


def read_command(line: str) -> Problem:
    """The problem of one line."""
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise _OtherError(f"it cannot be split into words: {error}") from error
    if words and PurePath(words[0]).name in _DRIVERS:
        words = words[1:]
    command = words[0] if words else ""
    if command == "matmul":
        return _matmul(_options(words[1:], _MATMUL))
    if command == "conv" and (flags := [word for word in words if word in _FLAGS]):
        rest = [word for word in words[1:] if word not in _FLAGS]
        return _conv(_options(rest, _CONV), _FLAGS[flags[-1]])
    for op, known in (("conv", _CONV), ("gemm", _GEMM)):
        if command.startswith(op) and (dtype := _TYPES.get(command.removeprefix(op))):
            values = _options(words[1:], known)
            return _conv(values, dtype) if op == "conv" else _gemm(values, dtype)
    raise _OtherError(f"{short(command)} is none of conv, gemm and matmul")


def _options(words: list[str], known: Mapping[str, str]) -> dict[str, str]:
    """What the options say, by their short names where they have one."""
    shorts = {short_name for short_name in known.values() if short_name}
    values: dict[str, str] = {}
    if len(words) % 2:
        raise _OtherError("an option has no value")
    for word, value in zip(words[::2], words[1::2], strict=True):
        name = word.lstrip("-")
        name = known.get(name) or name
        if name in _ASIDE or name in _ASIDE.values():
            continue
        if not word.startswith("-") or (name not in shorts and name not in known):
            raise _OtherError(f"it has an option {short(word)} that is not known")
        values[name] = value
    return values


def _number(values: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = values.get(name, "" if default is None else str(default))
    if not text:
        raise _OtherError(f"it has no {'-' if len(name) == 1 else '--'}{name}")
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise _OtherError(f"{name} {short(text)} is not a whole number")
    return int(text)


def _conv(values: Mapping[str, str], dtype: str) -> Conv:
    if values.get("m", "conv") != "conv":
        raise _OtherError("it is transposed (-m)")
    if _number(values, "_", 2) != 2:
        raise _OtherError("it has not two spatial dimensions")
    direction = _number(values, "F", 1)
    if direction and not direction % 2:
        raise _OtherError(f"it goes backward (-F {direction}), and only forward convolutions are tuned")
    layouts = {values.get(name, "NCHW") for name in ("I", "f", "O")}
    if len(layouts) > 1 or not layouts <= _LAYOUTS.keys():
        raise _OtherError(f"its layouts are {', '.join(sorted(map(short, layouts)))}, not all NHWC or all NCHW")
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
        raise _OtherError("it is column-major")
    m, k, n = (_number(values, name) for name in ("a_h", "a_w", "b_w"))
    letters = ("t" if _number(values, name, 0) else "n" for name in ("transA", "transB"))
    out = dtype if dtype in ("f16", "bf16") else None
    batch = _number(values, "batch_count", 1)
    return Gemm.parse(shape=f"{m}x{n}x{k}", batch=batch, dtype=dtype, layout="".join(letters), out=out)


def _matmul(values: Mapping[str, str]) -> Gemm:
    types = [values.get(name, "f32") for name in ("a_type", "b_type", "out_type")]
    if types[0] != types[1] or types[0] not in ("f32", "f16", "bf16") or types[2] not in ("f32", types[0]):
        raise _OtherError(f"its types are {', '.join(map(short, types))}")
    m, n, k = (_number(values, name) for name in ("M", "N", "K"))
    return Gemm.parse(shape=f"{m}x{n}x{k}", dtype=types[0], out=None if types[2] == "f32" else types[2])
