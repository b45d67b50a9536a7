"""Logs of what a program called, and lists of such calls: one product or convolution a line.

A line is hipBLASLt's mapping (HIPBLASLT_LOG_MASK=64 or 128), column-major; or a command: of `hipblaslt-bench`
(HIPBLASLT_LOG_MASK=32) and `rocblas-bench` (ROCBLAS_LAYER=2), which say the same in options; of MIOpenDriver
(MIOPEN_ENABLE_LOGGING_CMD=1) and BOO. A log may hold hundreds of megabytes and end in the middle of a line.
What is broken, or is neither a product nor a convolution, is reported and left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import PurePath
from typing import BinaryIO

from autotuner.errors import UsageError
from autotuner.jobs.suite.drivers import read_command
from autotuner.jobs.suite.lines import Read, read_lines
from autotuner.jobs.suite.workload import Entry
from autotuner.problems import Gemm
from autotuner.problems.operation import MOST
from autotuner.system.text import short

_PAIR = r"[A-Za-z_]\w*: *(?:[\w.+-]+|\"\w*\")"
_MAPPING = re.compile(rf"(?:- *)?\{{({_PAIR}(?:, *{_PAIR})*)\}}", re.ASCII)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,15}", re.ASCII)
_TYPES = {
    "f32_r": "f32",
    "f16_r": "f16",
    "bf16_r": "bf16",
    "i8_r": "i8",
    "i32_r": "i32",
    "f4_r": "f4",
    **dict.fromkeys(("f8_r", "f8_fnuz_r"), "f8"),
    **dict.fromkeys(("bf8_r", "bf8_fnuz_r"), "bf8"),
}
"""Of the two 8-bit floats each target has one, and takes that."""
_KINDS = {("0", "1", "none", "scalar", "s"): "", ("2", "vector", "v"): "rows", ("3", "block"): "blocks of 32"}
"""Of scales, in the library's numbers and words, old and new."""
_SCALED = {("f8", "rows"): "f8row", ("f8", "blocks of 32"): "mxfp8", ("f4", "blocks of 32"): "mxfp4"}
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
_BENCHMARKS = ("hipblaslt-bench", "rocblas-bench")
_DRIVERS = ("MIOpenDriver", "iree-boo-driver")
_OPTION = re.compile(r"--?[A-Za-z]")
_NAMES = {
    "m": "M",
    "n": "N",
    "k": "K",
    "sizem": "M",
    "sizen": "N",
    "sizek": "K",
    "r": "precision",
    "f": "function",
    "transposeA": "transA",
    "transposeB": "transB",
}
"""Options by the mapping's names."""
_FUNCTIONS = ("matmul", "gemm", "gemm_ex", "gemm_strided_batched", "gemm_strided_batched_ex")


def read_log(file: BinaryIO) -> Read:
    """The problems of a log, products in row-major terms."""
    return read_lines(file, read_line)


def read_line(text: str) -> Entry:
    """A mapping, or a command, which a log may put its own words before."""
    if "{" in text:
        return _product(_mapping(text))
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"it cannot be split into words: {error}") from error
    names = [PurePath(word).name for word in words]
    for at, name in enumerate(names):
        if name in _BENCHMARKS:
            return _product(_options(words[at + 1 :]))
        if name in _DRIVERS:
            return Entry(read_command(words[at + 1 :]))
    return Entry(read_command(words))


def _mapping(text: str) -> dict[str, str]:
    """What a line as the library writes it says: names and plain values."""
    match = _MAPPING.fullmatch(text)
    if match is None:
        raise UsageError("not a whole mapping of names and values, as hipBLASLt writes it")
    pairs = (pair.partition(":") for pair in match[1].split(","))
    return {name.strip(): value.strip().strip('"') for name, _, value in pairs}


def _options(words: Sequence[str]) -> dict[str, str]:
    """What the options of a benchmark say, by the mapping's names; one without a value is true."""
    fields: dict[str, str] = {}
    name = ""
    for word in words:
        if _OPTION.match(word):
            name, _, value = word.lstrip("-").partition("=")
            name = _NAMES.get(name, name)
            fields[name] = value or "true"
        else:
            fields[name] = word
    all_types = fields.get("precision", "f32_r")
    c_type = fields.get("c_type", all_types)
    types = {"a_type": all_types, "b_type": all_types, "d_type": c_type, "compute_type": "f32_r"}
    return {"transA": "N", "transB": "N", **types, **fields}


def _product(fields: Mapping[str, str]) -> Entry:
    fields = {"batch_count": "1", "call_count": "1", "function": "matmul", **fields}
    if fields["function"] not in _FUNCTIONS:
        raise UsageError(f"function {short(fields['function'])} is no matmul")
    if _truth(fields, "grouped_gemm"):
        raise UsageError("grouped_gemm cannot be tuned")
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
        scales=_scales(fields),
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
    scales: str = ""
    """What has a scale: each row of A and each column of B, or 32 of the depth."""
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
    dtype = _SCALED.get((row.dtype, row.scales)) if row.scales else row.dtype
    if dtype is None:
        raise UsageError(f"{row.dtype} with scales for {row.scales} cannot be tuned")
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


def _scales(fields: Mapping[str, str]) -> str:
    """What has a scale. One for all of an operand changes no speed, and is left aside."""
    kinds = {fields.get(name, "0").lower() for name in ("scaleA", "scaleB")}
    for words, what in _KINDS.items():
        if kinds <= {*words}:
            return what
    raise UsageError(f"scales of kind {', '.join(sorted(map(short, kinds)))} cannot be tuned")


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
