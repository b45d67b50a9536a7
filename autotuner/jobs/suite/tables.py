"""Tables of products that others tuned: AITER's CSV files, and what PyTorch's TunableOp records.

AITER's have M, N and K in their header, are row-major, and B is always NxK (some kernels there want it shuffled). What
their numbers are is said by columns of types and biases, where there are some, and otherwise by the file's name, as in
`a8w8_blockscale_tuned_gemm.csv`.
A line of TunableOp is `GemmTunableOp_BFloat16_TN,tn_1280_64_8192_ld_8192_8192_1280,…`, column-major; lines that begin
with Validator say what it was recorded with. Neither says how often a product is called: each counts as one call.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from typing import BinaryIO

from autotuner.errors import UsageError
from autotuner.jobs.suite.lines import Read, read_lines
from autotuner.jobs.suite.logs import Row, dtype_of_two, row_major
from autotuner.jobs.suite.workload import Entry
from autotuner.problems import Gemm
from autotuner.system.text import short

AITER, TUNABLE_OP = "table of AITER's", "TunableOp's file"
_SIZES = ("m", "n", "k")
_TORCH = {
    "float32": "f32",
    "float": "f32",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "int8": "i8",
    **dict.fromkeys(("float8_e4m3fn", "float8_e4m3fnuz"), "f8"),
    **dict.fromkeys(("float8_e5m2", "float8_e5m2fnuz"), "bf8"),
}
"""PyTorch's types, in small letters. Of the two f8 each target has one, and takes that."""
_FAMILIES = (
    ("a8w8", "blockscale", "f8b128"),
    ("a8w8", "mxfp8", "mxfp8"),
    ("a8w8", "", "f8row"),
    ("a4w4", "", "mxfp4"),
)
"""What the numbers of AITER's tables are, by two parts of their names; the first that fits."""
_SIGNATURE = re.compile(
    r"(?P<op>\w*?)TunableOp_(?P<types>\w+)_[NT]{2},(?P<a>[nt])(?P<b>[nt])_(?P<m>\d+)_(?P<n>\d+)_(?P<k>\d+)"
    r"(?:_B_(?P<batch>\d+))?_ld_\d+_\d+_\d+(?:_rw_(?P<rows>[01]))?(?:_bias_(?P<bias>\w+))?",
    re.ASCII,
)
_TYPE = re.compile(r"Float8_e\dm\d(?:fn)?(?:uz)?|[A-Za-z]+\d*", re.ASCII)
_OPERATIONS = ("Gemm", "GemmAndBias", "GemmStridedBatched", "ScaledGemm")


def table_kind(first: str) -> str:
    """Whose table begins with this line; empty: it is none of these."""
    if first.startswith("Validator,") or "TunableOp_" in first.partition(",")[0]:
        return TUNABLE_OP
    names = [cell.strip().lower() for cell in first.split(",")]
    return AITER if set(_SIZES) <= set(names) and "shape" not in names else ""


# --- TunableOp --------------------------------------------------------------------------------------------------------


def read_tunable_op(file: BinaryIO) -> Read:
    """The products of a file of results, or of what was recorded without tuning."""
    return read_lines(file, _signature, skip="Validator,", once=True)


def _signature(text: str) -> Entry:
    found = _SIGNATURE.match(text)
    if found is None:
        raise UsageError("not a product's signature, as TunableOp writes it")
    if found["op"] not in _OPERATIONS:
        raise UsageError(f"{short(found['op'])} is not a product that can be tuned")
    types = [_torch_type(name) for name in _TYPE.findall(found["types"].replace("__", "_"))]
    if len(types) not in (1, 3):
        raise UsageError(f"types {short(found['types'])} cannot be tuned.")
    biased = found["op"] == "GemmAndBias" or (found["bias"] or "None") != "None"
    dtype, out = types[0], types[-1]
    if len(types) == 3:
        # The row-major product has the operands in the other order.
        dtype = dtype_of_two(types[1], types[0])
    row = Row(
        sizes=(int(found["m"]), int(found["n"]), int(found["k"])),
        batch=int(found["batch"] or 1),
        transposed=found["a"] + found["b"],
        dtype=dtype,
        scales="rows" if found["rows"] == "1" else "",
        out=out,
        epilogue="bias" if biased else "",
    )
    return Entry(row_major(row))


# --- AITER ------------------------------------------------------------------------------------------------------------


def read_aiter(file: BinaryIO, *names: str) -> Read:
    """The products of a tuned or untuned table; `names` are the file's and its folder's."""
    header: list[str] = []

    def read(text: str) -> Entry | None:
        cells = next(csv.reader([text], strict=True), [])
        if not header:
            header.extend(cell.strip().lower() for cell in cells)
            return None
        if len(cells) != len(header):
            raise UsageError(f"it has {len(cells)} cells where the header has {len(header)}")
        return Entry(_aiter(dict(zip(header, (cell.strip() for cell in cells), strict=True)), names))

    return read_lines(file, read, once=True)


def _aiter(row: Mapping[str, str], names: Sequence[str]) -> Gemm:
    dtype, out = _numbers(row, names)
    batch = row.get("b", row.get("batch", "1"))
    if batch != "1" and dtype not in ("f16", "bf16", "f32"):
        raise UsageError(f"a batch of {dtype} cannot be tuned")
    biased = row.get("bias", "").lower() == "true"
    return Gemm.parse(
        shape="x".join(row[size] for size in _SIZES),
        batch=_batch(batch),
        dtype=dtype,
        layout="nt",
        out=out,
        epilogue="bias" if biased else "",
    )


def _numbers(row: Mapping[str, str], names: Sequence[str]) -> tuple[str, str]:
    """The type of the operands, and that of the result."""
    if "dtype" in row:
        dtype, out = _torch_type(row["dtype"]), _torch_type(row.get("outdtype") or row["dtype"])
        if row.get("scaleab", "").lower() == "true":
            dtype = _scaled(dtype)
        return dtype, out
    quantized = row.get("q_dtype_w", "")
    whole = [name.lower() for name in names]
    found = (known for name in whole for bits, part, known in _FAMILIES if bits in name and part in name)
    family = next(found, "")
    if not family:
        raise UsageError(
            f"neither a column dtype nor the file's name ({short(names[0])}) says what its numbers are: a8w8 or a4w4"
        )
    if family == "f8row" and quantized:
        family = _scaled(_torch_type(quantized))
    return family, "bf16"


def _scaled(dtype: str) -> str:
    if dtype != "f8":
        raise UsageError(f"{dtype} with scales cannot be tuned")
    return "f8row"


def _batch(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 9:
        raise UsageError(f"B {short(text)} is not a whole number")
    return int(text)


def _torch_type(name: str) -> str:
    found = _TORCH.get(name.strip().removeprefix("torch.").lower())
    if found is None:
        raise UsageError(f"type {short(name)} cannot be tuned.")
    return found
