"""hipBLASLt's logs and lists of drivers' commands: what can be tuned is kept, and broken lines cost only themselves."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.errors import UsageError
from autotuner.jobs.suite import lines
from autotuner.jobs.suite.load import load
from autotuner.jobs.suite.logs import Row, read_line, read_log, row_major
from autotuner.jobs.suite.workload import Entry
from autotuner.problems import Gemm
from autotuner.problems.conv import Conv
from tests.support.logs import line

EXAMPLES = Path(__file__).parent / "examples"


def read(*lines: str) -> tuple[tuple[Entry, ...], list[str]]:
    entries, skipped = read_log(io.BytesIO("\n".join(lines).encode()))
    return entries, [str(one) for one in skipped]


def test_a_real_log_keeps_what_can_be_tuned_and_names_the_rest_by_line() -> None:
    workload = load(str(EXAMPLES / "decode.yaml"))
    assert workload.entries == (
        Entry(Gemm.parse(shape="109x16032x16384", dtype="bf16", layout="nt", out="bf16"), 4),
        Entry(Gemm.parse(shape="109x1280x8192", dtype="bf16", layout="nt", out="bf16"), 100),
        Entry(Gemm.parse(shape="512x128x64", batch=32, dtype="f16", layout="nn", out="f16"), 80),
        Entry(Gemm.parse(shape="1x8192x8192", dtype="bf8xf8", layout="nt", out="bf16"), 7),
        Entry(Gemm.parse(shape="64x4096x4096", dtype="i8", layout="tn"), 16),
    )
    assert [(one.line, one.lines) for one in workload.skipped] == [(6, 1), (8, 1), (10, 1)]
    reasons = [one.reason for one in workload.skipped]
    assert "N is 0" in reasons[0]
    assert "neither a convolution nor a product" in reasons[1]
    assert "not a whole mapping" in reasons[2]


@pytest.mark.parametrize(("ta", "tb"), [*itertools.product("NTC", repeat=2)])
def test_the_row_major_problem_computes_what_the_library_computes(ta: str, tb: str) -> None:
    """The same memory, read as the library reads it (columns) and as the problem does (rows)."""
    m, n, k = 5, 3, 4
    rng = np.random.default_rng(0)
    memory_a, memory_b = rng.random(m * k), rng.random(k * n)
    a = memory_a.reshape((m, k) if ta == "N" else (k, m), order="F")
    b = memory_b.reshape((k, n) if tb == "N" else (n, k), order="F")
    library = (a if ta == "N" else a.T) @ (b if tb == "N" else b.T)
    problem = row_major(Row((m, n, k), ta + tb, "f32", "f32"))
    lhs, rhs = (o.shape for o in problem.operands[:2])
    ours = problem.reference((memory_b.reshape(lhs), memory_a.reshape(rhs)))
    np.testing.assert_allclose(ours.ravel(), library.ravel(order="F"))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"a": "f32_r", "b": "f32_r", "d": "f32_r"}, Gemm(32, 64, 16, dtype="f32")),
        ({"d": "f32_r"}, Gemm(32, 64, 16, dtype="f16")),
        ({"compute": "c_f16_r"}, Gemm(32, 64, 16, dtype="f16", acc="f16")),
        ({"a": "i8_r", "b": "i8_r", "d": "i32_r", "compute": "c_i32_r"}, Gemm(32, 64, 16, dtype="i8", acc="i32")),
        ({"a": "f8_r", "b": "f8_r", "d": "bf16_r"}, Gemm(32, 64, 16, dtype="f8", out="bf16")),
        ({"a": "bf8_r", "b": "f8_r", "d": "f32_r"}, Gemm(32, 64, 16, dtype="f8xbf8")),
        ({"batch": 7}, Gemm(32, 64, 16, batch=7, dtype="f16", out="f16")),
    ],
)
def test_types_become_those_of_the_command_line(changes: dict[str, object], problem: Gemm) -> None:
    assert read(line(**changes)) == ((Entry(problem),), [])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("bias_vector: true", "--out f16 --epilogue bias "),
        ("activation_type: relu", "--epilogue relu "),
        ("bias_vector: true, activation_type: gelu", "--epilogue bias,tanhgelu "),
        ("beta: 1.0, activation_type: swish", "--epilogue residual,silu "),
        ("scaleA: 1, scaleB: 1", "--dtype f16 --out f16 --acc"),
        ("transA: T, a_type: f8_r, b_type: f8_r, scaleA: 2, scaleB: 2, d_type: bf16_r", "--dtype f8row --out bf16 "),
        ("transA: T, K: 128, a_type: f8_r, b_type: f8_r, scaleA: 3, scaleB: 3", "--dtype mxfp8 --out f16 "),
        ("transA: T, K: 128, a_type: f4_r, b_type: f4_r, scaleA: 3, scaleB: 3", "--dtype mxfp4 --out f16 "),
    ],
)
def test_bias_activation_c_and_scales_are_part_of_the_problem(more: str, words: str) -> None:
    """The last of two fields of a name is the one that counts, as in the library's own reader."""
    ((entry,), skipped) = read(line().replace("}", f", {more}}}"))
    assert not skipped
    assert words in " ".join(entry.problem.arguments())


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("activation_type: clamp", "activation 'clamp' cannot be tuned"),
        ("use_e: true", "use_e cannot be tuned"),
        ("beta: 0.5, c_type: f32_r", "its C and D have two types"),
        ("beta: x", "beta is 'x', no number"),
        ("scaleA: 2, scaleB: 2", "f16 with scales for rows cannot be tuned"),
        ("scaleA: 3, scaleB: 3", "f16 with scales for blocks of 32 cannot be tuned"),
        ("scaleA: 2, scaleB: 1", "scales of kind '1', '2' cannot be tuned"),
    ],
)
def test_what_follows_a_product_and_is_not_known_is_named(more: str, reason: str) -> None:
    entries, (skipped,) = read(line().replace("}", f", {more}}}"))
    assert not entries
    assert reason in skipped


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"a": "f64_r", "b": "f64_r"}, "type 'f64_r' cannot be tuned"),
        ({"b": "bf16_r"}, "operands of two types (bf16, f16)"),
        ({"compute": "c_f32_fast_f16_r"}, "compute type 'c_f32_fast_f16_r' cannot be tuned"),
        ({"d": "i8_r"}, "is not stored as 'i8'"),
        ({"m": 0}, "M is 0"),
        ({"batch": 0}, "batch_count is 0"),
        ({"m": 2**21}, "is larger than"),
        ({"m": -4}, "M is '-4', no whole number"),
        ({"m": "1.5"}, "M is '1.5', no whole number"),
        ({"calls": 0}, "call_count is 0"),
        ({"ta": "X"}, "'X' is no transposition"),
    ],
)
def test_what_cannot_be_tuned_is_named_and_the_rest_is_kept(changes: dict[str, object], reason: str) -> None:
    entries, skipped = read(line(), line(**changes), line(calls=2))
    assert entries == (Entry(Gemm(32, 64, 16, dtype="f16", out="f16"), 3),)
    assert len(skipped) == 1
    assert skipped[0].startswith("line 2: ")
    assert reason in skipped[0]


@pytest.mark.parametrize(
    "broken",
    [
        line()[:100],
        "- {function: matmul}",
        "x" * 100_000,
        "- {a: " + "9" * 4000 + "}",
        "!!python/object/apply:os.system ['true']",
        "\x00\x01",
        line().replace("function: matmul", "function: rotate"),
        line().replace("call_count: 1", "call_count: true"),
        line(compute="c" * 3000),
    ],
)
def test_a_broken_line_is_reported_and_costs_only_itself(broken: str) -> None:
    entries, skipped = read(line(), broken, line())
    assert entries[0].calls == 2
    assert len(skipped) == 1
    assert skipped[0].startswith("line 2: ")
    assert len(skipped[0]) < 300
    assert skipped[0].isprintable()


def test_comments_and_blank_lines_are_no_errors_and_quotes_and_blanks_change_nothing() -> None:
    quoted = line().replace("transA: N", 'transA: "N"').replace("M: 64", "M:  64").removeprefix("- ")
    entries, skipped = read("---", "# hipBLASLt", "", line(), quoted, "...")
    assert [entry.calls for entry in entries] == [2]
    assert skipped == []


def test_a_file_of_millions_of_lines_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "_MOST_REASONS", 2)
    _, skipped = read(*(line(m=f"x{n}") for n in range(5)))
    assert [one.rpartition(": ")[2] for one in skipped[2:]] == ["other reasons (and 2 more of the same)"]
    monkeypatch.setattr(lines, "_MOST_PROBLEMS", 2)
    with pytest.raises(UsageError, match="more than 2 different problems"):
        read(*(line(m=n) for n in range(1, 4)))


def test_a_line_of_megabytes_keeps_the_numbers_of_those_after_it() -> None:
    _, skipped = read("y" * (3 << 20), line(), "broken {")
    assert [one.split(":")[0] for one in skipped] == ["line 1", "line 3"]


@given(
    st.lists(
        st.tuples(st.integers(1, 4), st.integers(1, 4), st.sampled_from("NT"), st.integers(1, 9), st.booleans()),
        max_size=30,
    )
)
def test_calls_add_up_by_key_however_lines_are_repeated(rows: list[tuple[int, int, str, int, bool]]) -> None:
    lines, wanted = [], dict[Gemm, int]()
    for m, n, letter, calls, whole in rows:
        text = line(m=m, n=n, ta=letter, calls=calls)
        lines.append(text if whole else text[:-20])
        if whole:
            gemm = Gemm(n, m, 16, dtype="f16", out="f16", layout=f"n{letter.lower()}")
            wanted[gemm] = wanted.get(gemm, 0) + calls
    entries, skipped = read(*lines)
    assert {entry.problem: entry.calls for entry in entries} == wanted
    assert len(skipped) == any(not whole for *_, whole in rows), "told once, by the first of them"


LIST = """\
# a comment
convbfp16 -n 16 -c 96 -H 48 -W 32 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 -m conv -g 1 -F 1 -t 1 --iter 100 \
--in_layout NHWC --out_layout NHWC --fil_layout NHWC
./bin/MIOpenDriver conv -n 2 -c 8 -H 14 -W 14 -k 8 -y 1 -x 1

gemmfp16 --a_w 32 --a_h 64 --b_w 128 --transB 1
gemmfp16 --a_w 32 --a_h 64 --b_w 128 --transB 1
convfp16 -n 16 -c 96 -H 48 -W 32 -k 64 -y 3 -x 3 -p 1 -q 1 -F 4
layernormbfp16 -n 16 -c 96
conv -n 16 -c 96 -H 48 -W 32 -k 64 -y 3 -x 3 --tensor_vect 1
conv -n 16 -c 96 -H 48 -W 32 -k 64 -y 3
conv -n 1e3 -c 96 -H 48 -W 32 -k 64 -y 3 -x 3
conv -n 1 -c 8 -H 8 -W 8 -k 8 -y 3 -x 3 --in_layout NHWC
gemm --a_w 32 --a_h 64 --b_w 128 --isColMajor 1
conv -n
"""


def test_a_list_of_commands_is_a_workload(tmp_path: Path) -> None:
    (tmp_path / "boo.txt").write_text(LIST)
    workload = load(str(tmp_path / "boo.txt"))
    strided = Conv.parse(shape="16x48x32x96", filter="3x3x64", stride="2x2", pad="1x1", dtype="bf16")
    pointwise = Conv.parse(shape="2x14x14x8", filter="1x1x8", dtype="f32", layout="nchw-fchw")
    product = Gemm.parse(shape="64x128x32", dtype="f16", layout="nt", out="f16")
    assert workload.entries == (Entry(strided), Entry(pointwise), Entry(product, 2))
    assert [one.line for one in workload.skipped] == [7, 8, 9, 10, 11, 12, 13, 14]
    reasons = [
        "its layout is NCHW: in three dimensions, and backward, channels must be last",
        "neither a convolution nor a product",
        "an option '--tensor_vect' that is not known",
        "it has no -x",
        "n '1e3' is not a whole number",
        "its layouts are 'NCHW', 'NHWC'",
        "it is column-major",
        "an option has no value",
    ]
    for one, reason in zip(workload.skipped, reasons, strict=True):
        assert reason in one.reason


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("-g 3 -c 96", "--groups 3"),
        ("-p 2 -q 1 -l 2 -j 1", "--dilation 2x1 --pad 2x1"),
        ("-b 1", "--epilogue bias"),
    ],
)
def test_groups_padding_and_bias_are_read(word: str, meant: str) -> None:
    problem = read_line(f"convfp16 -n 1 -c 96 -H 16 -W 16 -k 96 -y 3 -x 3 {word} -f NHWC -I NHWC -O NHWC").problem
    assert meant in " ".join(problem.arguments())


def test_commands_that_libraries_print_are_read() -> None:
    workload = load(str(EXAMPLES / "calls.log"))
    assert not workload.skipped
    assert [entry.problem.name for entry in workload.entries] == [
        "gemm_512x1024x768_bf16_f32_bf16_nt_bias_tanhgelu",
        "gemm_96x128x64x32_f16_f32_f16_tn",
        "conv_2x8x8x16_3x3x32_p1x1_f16_nhwc",
    ]


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("hipblaslt-bench -m 64 -n 32 -k 16 -r f16_r --beta=1", "gemm_32x64x16_f16_f32_f16_nn_residual"),
        ("rocblas-bench -f gemm --transposeA T -m 8 -n 4 -k 16 --beta -0", "gemm_4x8x16_f32_f32_nt"),
    ],
)
def test_types_that_a_command_does_not_name_are_the_benchmarks_own(command: str, name: str) -> None:
    assert read_line(command).problem.name == name


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("rocblas-bench -f gemv -r f32_r -m 8 -n 4", "function 'gemv' is no matmul"),
        ("hipblaslt-bench -m 8 -n 4 -k 4 --grouped_gemm", "grouped_gemm cannot be tuned"),
        ("hipblaslt-bench -m 8 -n 4", "K is missing"),
        ("hipblaslt-bench -m 8 -n -k 4", "N is 'true', no whole number"),
        ("loading the model", "neither a convolution nor a product"),
    ],
)
def test_commands_that_are_no_products_are_named(command: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read_line(command)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("-F 2 -g 2", "convnd_data_1x16x16x96_3x3x64_g2_p1x1_f16"),
        ("-F 4 -u 2 -v 2", "convnd_weight_1x16x16x96_3x3x64_s2x2_p1x1_f16"),
        ("--spatial_dim 3 --in_d 6 --fil_d 2 --pad_d 0", "convnd_forward_1x6x16x16x96_2x3x3x64_p0x1x1_f16"),
        ("-_ 3 -! 6 -@ 2 -# 2 -^ 1 -$ 1 -F 4", "convnd_weight_1x6x16x16x96_2x3x3x64_s2x1x1_p1x1x1_f16"),
    ],
)
def test_gradients_and_three_dimensions_are_read(words: str, name: str) -> None:
    layout = "NDHWC" if "_" in words.split()[0] else "NHWC"
    line = f"convfp16 -n 1 -c 96 -H 16 -W 16 -k 64 -y 3 -x 3 -p 1 -q 1 {words} -f {layout} -I {layout} -O {layout}"
    assert read_line(line).problem.name == name
