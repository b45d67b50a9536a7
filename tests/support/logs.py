"""Lines of a hipBLASLt log."""

from __future__ import annotations

LINE = (
    "- {{function: matmul, M: {m}, N: {n}, K: {k}, lda: 1, ldb: 1, ldc: 1, ldd: 1, stride_a: 0, stride_b: 0, "
    "stride_c: 0, stride_d: 0, alpha: 1.0, beta: 0.0, transA: {ta}, transB: {tb}, batch_count: {batch}, scaleA: 0, "
    "scaleB: 0, scaleAlpha_vector: false, gradient: false, use_e: false, bias_vector: false, bias_source: d, "
    "a_type: {a}, b_type: {b}, c_type: {d}, d_type: {d}, scale_type: f32_r, bias_type: f32_r, compute_type: {compute}, "
    "activation_type: none, flush: false, rotating: 512, cold_iters: 0, iters: 0, call_count: {calls}}}"
)


def line(**changes: object) -> str:
    plain = {"m": 64, "n": 32, "k": 16, "ta": "N", "tb": "N", "batch": 1, "a": "f16_r", "b": "f16_r", "d": "f16_r"}
    return LINE.format(**{**plain, "compute": "c_f32_r", "calls": 1, **changes})
