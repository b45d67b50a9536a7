"""AITER's tables and TunableOp's files: their products in row-major terms, whatever else their rows say."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.errors import UsageError
from autotuner.jobs.suite.load import load

TUNED = """\
gfx,cu_num,M,N,K,bias,dtype,outdtype,scaleAB,bpreshuffle,libtype,solidx,us
gfx942,304,32,1280,8192,False,torch.bfloat16,torch.bfloat16,False,False,hipblaslt,12,9.5
gfx950,256,32,1280,8192,False,torch.bfloat16,torch.bfloat16,False,False,asm,3,6.5
gfx942,304,64,256,512,True,torch.float16,torch.float32,False,False,hipblaslt,7,4.5
gfx942,304,64,256,512,False,torch.float8_e4m3fnuz,torch.bfloat16,True,False,hipblaslt,7,4.5
gfx942,304,64,256,512,False,torch.float64,torch.float64,False,False,hipblaslt,7,4.5
gfx942,304,64,256
"""
RECORDED = """\
Validator,PT_VERSION,2.8.0
Validator,GCN_ARCH_NAME,gfx942:sramecc+:xnack-
GemmTunableOp_BFloat16_TN,tn_1280_32_8192_ld_8192_8192_1280,Gemm_Hipblaslt_77,0.0095
GemmTunableOp_BFloat16_TN,tn_1280_32_8192_ld_8192_8192_1280,Gemm_Hipblaslt_77,0.0095
GemmAndBiasTunableOp_Half_TN,tn_768_32_1024_ld_1024_1024_768,Default,0.01
GemmStridedBatchedTunableOp_float_NN,nn_64_128_32_B_96_ld_64_32_64,Gemm_Rocblas_5,0.01
ScaledGemmTunableOp_Float8_e4m3fnuz_Float8_e5m2fnuz_BFloat16_TN,tn_64_96_128_ld_128_128_64_rw_0_bias_None,Default,1
ScaledGemmTunableOp_Float8_e4m3fnuz_Float8_e4m3fnuz_BFloat16_TN,tn_64_96_128_ld_128_128_64_rw_1_bias_BFloat16,Default,1
GemmTunableOp_double_NN,nn_8_8_8_ld_8_8_8,Default,0.01
FooTunableOp_float_NN,nn_8_8_8_ld_8_8_8,Default,0.01
GemmTunableOp_float_NN,broken
"""


def read(path: Path, text: str) -> tuple[list[str], list[str]]:
    path.write_text(text)
    workload = load(str(path))
    assert {entry.calls for entry in workload.entries} == {1}, "a table says nothing of calls"
    return [entry.problem.name for entry in workload.entries], [str(one) for one in workload.skipped]


def test_a_tuned_table_of_aiter_says_its_types_itself(tmp_path: Path) -> None:
    names, skipped = read(tmp_path / "bf16_tuned_gemm.csv", TUNED)
    assert names == [
        "gemm_32x1280x8192_bf16_f32_bf16_nt",
        "gemm_64x256x512_f16_f32_nt_bias",
        "gemm_64x256x512_f8row_f32_bf16_nt",
    ]
    assert ["type 'torch.float64' cannot be tuned" in skipped[0], "it has 4 cells" in skipped[1]] == [True, True]


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("a8w8_blockscale_untuned_gemm.csv", "gemm_16x1536x7168_f8b128_f32_bf16_nt"),
        ("a8w8_blockscale_bpreshuffle_tuned_gemm_dsv3.csv", "gemm_16x1536x7168_f8b128_f32_bf16_nt"),
        ("a8w8_bpreshuffle_mxfp8_untuned_gemm.csv", "gemm_16x1536x7168_mxfp8_f32_bf16_nt"),
        ("a4w4_blockscale_untuned_gemm.csv", "gemm_16x1536x7168_mxfp4_f32_bf16_nt"),
        ("a8w8_untuned_gemm.csv", "gemm_16x1536x7168_f8row_f32_bf16_nt"),
        ("a8w8_gemm_model_config/Llama-TP1.csv", "gemm_16x1536x7168_f8row_f32_bf16_nt"),
    ],
)
def test_a_table_without_types_is_known_by_its_name(tmp_path: Path, file: str, name: str) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    assert read(tmp_path / file, "M,N,K\n16,1536,7168\n") == ([name], [])


@pytest.mark.parametrize(
    ("file", "text", "reason"),
    [
        ("mine.csv", "M,N,K\n16,1536,7168\n", "neither a column dtype nor the file's name"),
        ("a6w4_untuned_gemm.csv", "M,N,K\n16,1536,7168\n", "neither a column dtype nor the file's name"),
        ("a8w8_tuned_gemm.csv", "M,N,K,q_dtype_w\n16,1536,7168,torch.int8\n", "i8 with scales cannot be tuned"),
        ("a8w8_blockscale_bmm.csv", "B,M,N,K\n8,16,1536,7168\n", "a batch of f8b128 cannot be tuned"),
    ],
)
def test_what_a_table_has_and_cannot_be_tuned_is_named(tmp_path: Path, file: str, text: str, reason: str) -> None:
    (tmp_path / file).write_text(text)
    with pytest.raises(UsageError, match=reason):
        load(str(tmp_path / file))


def test_products_of_tunable_op_are_turned_to_rows(tmp_path: Path) -> None:
    names, skipped = read(tmp_path / "tunableop_results0.csv", RECORDED)
    assert names == [
        "gemm_32x1280x8192_bf16_f32_bf16_nt",
        "gemm_32x768x1024_f16_f32_f16_nt_bias",
        "gemm_96x128x64x32_f32_f32_nn",
        "gemm_96x64x128_bf8xf8_f32_bf16_nt",
        "gemm_96x64x128_f8row_f32_bf16_nt_bias",
    ]
    assert [one.partition(":")[0] for one in skipped] == ["line 9", "line 10", "line 11"]
    reasons = ["type 'double' cannot be tuned", "'Foo' is not a product", "not a product's signature"]
    assert all(reason in one for reason, one in zip(reasons, skipped, strict=True))
