"""hipBLASLt's workload log (HIPBLASLT_LOG_MASK=64 or 128): one YAML mapping a line, column-major.

A log may hold hundreds of megabytes and end in the middle of a line: it is read line by line, lines as the library
writes them are split without a YAML parser, and what is broken is reported and left out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, NamedTuple

import yaml

from autotuner.errors import UsageError
from autotuner.jobs.suite.workload import Entry, Skipped, distinct
from autotuner.problems import Gemm
from autotuner.problems.operation import MOST
from autotuner.system.text import printable, short

_MAX_LINE = 4096
"""A mapping of the library's takes some 600 bytes."""
_MAX_READ = 1 << 20
# `- {name: value, …}` without anything that YAML would have to interpret but quotes.
_PAIR = r"[A-Za-z_]\w*: (?:[\w.+-]+|\"[A-Za-z_]\w*\")"
_PLAIN = re.compile(rf"(?:- )?\{{{_PAIR}(?:, {_PAIR})*\}}", re.ASCII)
_DEEPEST = 4
"""A list with a mapping is all that the library nests."""
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


class _BrokenError(Exception):
    """A line that says nothing that could be tuned."""


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


@dataclass
class _Seen:
    calls: int = 0
    lines: int = 0
    first: int = 0


@dataclass
class LogReader:
    """Takes lines one by one; `result` gives the problems in row-major terms and what was left out."""

    _seen: dict[Key, _Seen] = field(default_factory=dict)
    _broken: list[Skipped] = field(default_factory=list)

    def take(self, line: str, *, number: int) -> None:
        text = line.strip()
        if not text or text.startswith("#") or text in ("---", "..."):
            return
        try:
            if len(text) > _MAX_LINE:
                raise _BrokenError(f"longer than {_MAX_LINE} characters")
            key, calls = _read(text)
        except _BrokenError as why:
            self._broken.append(Skipped(_shorten(text), str(why), number))
            return
        seen = self._seen.setdefault(key, _Seen(first=number))
        seen.calls += calls
        seen.lines += 1

    def result(self) -> tuple[tuple[Entry, ...], tuple[Skipped, ...]]:
        entries: list[Entry] = []
        refused: list[Skipped] = []
        for key, seen in self._seen.items():
            try:
                entries.append(Entry(row_major(key), seen.calls))
            except UsageError as error:
                refused.append(Skipped(_shorten(str(key), 200), str(error), seen.first, seen.lines))
        return distinct(entries), tuple(sorted([*self._broken, *refused], key=lambda s: s.line or 0))


def read_log(file: BinaryIO) -> tuple[tuple[Entry, ...], tuple[Skipped, ...], str]:
    """The problems, what is left out, and the file's SHA-256. A line without an end costs no memory."""
    reader, digest, number, begins = LogReader(), hashlib.sha256(), 1, True
    while part := file.readline(_MAX_READ):
        digest.update(part)
        if begins:
            reader.take(part.decode("utf-8", errors="replace"), number=number)
        begins = part.endswith(b"\n")
        number += begins
    return *reader.result(), digest.hexdigest()


def row_major(key: Key) -> Gemm:
    """Column-major C = op(A)·op(B) is row-major Cᵀ = op(B)ᵀ·op(A)ᵀ: sizes and operands change places."""
    for name, value in (("M", key.m), ("N", key.n), ("K", key.k), ("batch_count", key.batch)):
        if value == 0:
            raise UsageError(f"{name} is 0: there is nothing to compute.")
    dtype = _type(key.a_type)
    if _type(key.b_type) != dtype:
        raise UsageError(f"operands of two types ({_shorten(key.a_type)}, {_shorten(key.b_type)}) cannot be tuned.")
    if _FAST.get(key.compute_type) == dtype:
        acc = "f32"
    elif key.compute_type in _COMPUTE:
        acc = _COMPUTE[key.compute_type]
    else:
        raise UsageError(f"compute type {_shorten(key.compute_type)} cannot be tuned.")
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
        raise UsageError(f"type {_shorten(name)} cannot be tuned.")
    return _TYPES[name]


def _read(text: str) -> tuple[Key, int]:
    fields = _fields(text)
    function = fields.get("function", "matmul")
    if function != "matmul":
        raise _BrokenError(f"function {short(function)} is no matmul")
    letters = [_word(fields, name).upper() for name in ("transA", "transB")]
    if unknown := [letter for letter in letters if letter not in _LETTERS]:
        raise _BrokenError(f"{short(unknown[0])} is no transposition")
    batch = _whole(fields, "batch_count") if "batch_count" in fields else 1
    m, n, k = (_whole(fields, name) for name in ("M", "N", "K"))
    a_type, b_type, d_type, compute = (_word(fields, name) for name in ("a_type", "b_type", "d_type", "compute_type"))
    c_type = _word(fields, "c_type") if "c_type" in fields else d_type
    calls = _whole(fields, "call_count") if "call_count" in fields else 1
    if not 0 < calls <= MOST:
        raise _BrokenError(f"call_count is {calls}")
    trans_a, trans_b = letters
    return Key(trans_a, trans_b, batch, m, n, k, a_type, b_type, c_type, d_type, compute), calls


def _fields(text: str) -> Mapping[str, object]:
    bare = text.removeprefix("- ")
    if _PLAIN.fullmatch(text):
        return dict(pair.replace('"', "").split(": ", 1) for pair in bare[1:-1].split(", "))
    if bare.startswith("{") and not bare.endswith("}"):
        raise _BrokenError("not a whole mapping (it is cut off)")
    try:
        _check_shape(text)
        document = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problem = getattr(error, "problem", None) or "no YAML"
        raise _BrokenError(f"not a whole mapping ({problem})") from error
    if isinstance(document, list) and len(document) == 1:
        document = document[0]
    if not isinstance(document, dict):
        raise _BrokenError("not a mapping")
    return document


def _check_shape(text: str) -> None:
    """A line of references to references can stand for gigabytes, a deep one takes minutes: the library writes none."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise _BrokenError("not a whole mapping (it has references)")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _DEEPEST:
            raise _BrokenError("not a mapping (it is nested too deeply)")


def _whole(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**16:
        return value
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value)
    raise _BrokenError(f"{name} is missing" if value is None else f"{name} is {short(value)}, no whole number")


def _word(fields: Mapping[str, object], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str):
        raise _BrokenError(f"{name} is missing" if value is None else f"{name} is {short(value)}, no word")
    return value


def _shorten(text: str, most: int = 60) -> str:
    """For a message: printable, and not the whole line."""
    return printable(text) if len(text) <= most else f"{printable(text[: most - 3])}..."
