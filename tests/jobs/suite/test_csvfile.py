"""A CSV of shapes: every option is a column, and what is wrong is said with its line."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.errors import UsageError
from autotuner.jobs.suite.load import COLUMNS, load, read_csv
from autotuner.jobs.suite.workload import Entry
from autotuner.problems import Gemm
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.targets import Target
from tests.support.command_line import in_this_process

EXAMPLES = Path(__file__).parent / "examples"


def test_a_list_of_shapes_gives_each_problem_once_with_its_calls() -> None:
    workload = load(str(EXAMPLES / "shapes.csv"))
    assert workload.name == "shapes"
    assert workload.entries == (
        Entry(Gemm.parse(shape="4096x4096x14336", dtype="bf16", layout="nt", out="bf16"), 42),
        Entry(Gemm.parse(shape="128x4096x4096", batch=16, acc="f16"), 8),
        Entry(Conv.parse(shape="2x32x32x1280", filter="3x3x1280", pad="1x1"), 4),
        Entry(Attention.parse(shape="1x32x4096x4096x128", causal=True), 32),
    )


sizes = st.integers(1, 5000)


@given(
    st.lists(
        st.builds(
            Gemm,
            *(sizes, sizes, sizes, st.integers(1, 9)),
            dtype=st.sampled_from(["f32", "f16", "bf16"]),
            layout=st.sampled_from(["nn", "nt", "tn", "tt"]),
            out=st.sampled_from(["", "f16", "bf16"]),
        ),
        min_size=1,
        max_size=5,
        unique=True,
    ),
    st.permutations(COLUMNS),
)
def test_what_is_written_comes_back_whatever_the_order_of_the_columns(gemms: list[Gemm], columns: list[str]) -> None:
    text = io.StringIO()
    table = csv.DictWriter(text, columns)
    table.writeheader()
    for calls, gemm in enumerate(gemms, start=1):
        table.writerow(
            {
                "op": "gemm",
                "shape": f"{gemm.m}x{gemm.n}x{gemm.k}",
                **{name: getattr(gemm, name) for name in ("batch", "dtype", "acc", "layout", "out")},
                "calls": calls,
            }
        )
    entries = read_csv(text.getvalue(), path="x.csv")
    assert entries == tuple(Entry(gemm, calls) for calls, gemm in enumerate(gemms, start=1))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no column op and no column shape"),
        ("op,shape\n", "a header and no rows"),
        ("gemm,1x2x3\n", "no column op and no column shape"),
        ("op,shape,colour\ngemm,1x2x3,red\n", "unknown column 'colour'"),
        ("op,shape,shape\ngemm,1x2x3,1x2x3\n", "twice"),
        ("op,shape\ngemm,1x2x3\nsoftmax,1x2\n", "line 3: op 'softmax' is unknown"),
        ("op,shape\n\ngemm,1x2\n", "line 3: --shape '1x2' is not MxNxK"),
        ("op,shape,calls\ngemm,1x2x3,0\n", "line 2: calls '0' is not a positive whole number"),
        ("op,shape,calls\ngemm,1x2x3,99999999999999999999\n", "line 2: calls"),
        ("op,shape,filter\ngemm,1x2x3,3x3x4\n", "line 2: gemm has no filter"),
        ("op,shape\nconv,1x8x8x4\n", "line 2: conv needs a filter"),
        ("op,shape,causal\nattention,1x1x8x8x8,maybe\n", "line 2: causal 'maybe'"),
        ("op,shape\ngemm,1x2x3,7\n", "line 2: it has more cells than columns"),
        ("op,shape\ngemm\n", "line 2: gemm needs a shape"),
        ('op,shape\ngemm,"1x2x3\n', "line 2"),
        ("op,shape\n" + "gemm,0x1x1\n" * 9, "and 8 more bad rows"),
        (b"op,shape\ngemm,\xff\xfe\n", "line 2: not UTF-8"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str | bytes, words: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(UsageError) as caught:
        load(str(file))
    assert words in str(caught.value)
    assert "bad.csv" in str(caught.value)


def test_a_row_without_a_dtype_has_the_one_that_the_command_would_take(tmp_path: Path) -> None:
    file = tmp_path / "shapes.csv"
    file.write_text("op,shape,dtype\ngemm,4x4x4,\ngemm,8x8x8,bf16\nattention,1x2x16x16x8,\n")
    for target, dtype in (("cpu", "f32"), ("host", "f32"), ("gfx942", "f16")):
        workload = load(str(file), dtype=Target.parse(target).usual_dtype)
        assert [entry.problem.types[0] for entry in workload.entries] == [dtype, "bf16", dtype]
    listed = in_this_process("suite", str(file), "--list", cwd=tmp_path)
    assert "autotune gemm --shape 4x4x4 --dtype f32" in listed.stdout


def test_a_spreadsheets_byte_order_mark_and_line_ends_do_no_harm(tmp_path: Path) -> None:
    file = tmp_path / "excel.csv"
    file.write_bytes(b"\xef\xbb\xbfop,shape,dtype\r\ngemm,4x4x4,F32\r\n")
    assert load(str(file)).entries == (Entry(Gemm.parse(shape="4x4x4", dtype="f32")),)
