"""Lists of MIOpenDriver's commands: forward convolutions and products are problems, the rest is named by its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.jobs.suite.load import load
from autotuner.jobs.suite.miopen import KYXC, read_command
from autotuner.jobs.suite.workload import Entry
from autotuner.problems import Conv, Gemm

LIST = """\
# a comment
convbfp16 -n 16 -c 96 -H 48 -W 32 -k 64 -y 3 -x 3 -p 1 -q 1 -u 2 -v 2 -l 1 -j 1 -m conv -g 1 -F 1 -t 1 --iter 100 \
--in_layout NHWC --out_layout NHWC --fil_layout NHWC
./bin/MIOpenDriver conv --batchsize 2 --in_channels 8 --in_h 14 --in_w 14 --out_channels 8 --fil_h 1 --fil_w 1

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
    assert workload.notes == (KYXC,)
    assert [one.line for one in workload.skipped] == [7, 8, 9, 10, 11, 12, 13, 14]
    reasons = [
        "it goes backward (-F 4)",
        "'layernormbfp16' is none of conv, gemm and matmul",
        "an option '--tensor_vect' that is not known",
        "it has no -x",
        "n '1e3' is not a whole number",
        "its layouts are 'NCHW', 'NHWC'",
        "it is column-major",
        "an option has no value",
    ]
    for one, reason in zip(workload.skipped, reasons, strict=True):
        assert reason in one.reason


@pytest.mark.parametrize("word", ["-g 3 -c 96", "-p 2 -q 1 -l 2 -j 1", "-b 1"])
def test_groups_padding_and_bias_are_read(word: str) -> None:
    problem = read_command(f"convfp16 -n 1 -c 96 -H 16 -W 16 -k 96 -y 3 -x 3 {word} -f NHWC -I NHWC -O NHWC")
    text = " ".join(problem.arguments())
    expected = {"-g": "--groups 3", "-p": "--dilation 2x1 --pad 2x1", "-b": "--epilogue bias"}[word.split()[0]]
    assert expected in text or all(part in text for part in expected.split(" --")[0:1])


def test_fusillis_words_are_read() -> None:
    layouts = "--in_layout NHWC --out_layout NHWC --fil_layout NHWC --spatial_dim 2"
    conv = read_command(f"conv -F 1 --bf16 -n 1 -c 32 -H 14 -W 14 -k 64 -y 3 -x 3 -p 1 -q 1 {layouts}")
    assert conv == Conv.parse(shape="1x14x14x32", filter="3x3x64", pad="1x1", dtype="bf16")
    product = read_command("matmul -M 64 -N 96 -K 32 --a_type f16 --b_type f16 --out_type f16")
    assert product == Gemm.parse(shape="64x96x32", dtype="f16", out="f16")
    with pytest.raises(Exception, match="its types are 'f16', 'bf16', 'f32'"):
        read_command("matmul -M 64 -N 96 -K 32 --a_type f16 --b_type bf16")
