"""Many matrix products of one size for GPUs, in Triton: the batch is the grid's last dimension."""

import triton
import triton.language as tl


@triton.jit
def batched_gemm_triton(
    a,
    b,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    TRANSPOSE_LHS: tl.constexpr,
    TRANSPOSE_RHS: tl.constexpr,
    EVEN: tl.constexpr,
):
    tile, entry = tl.program_id(0), tl.program_id(2).to(tl.int64)
    a += entry * M * K
    b += entry * K * N
    c += entry * M * N
    # Tiles go in groups of rows, so that those that run together share what they read.
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = tile // (GROUP * tiles_n)
    within = tile % (GROUP * tiles_n)
    rows = min(tiles_m - group * GROUP, GROUP)
    m = group * GROUP + within % rows
    n = within // rows
    rm, rn, rk = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN), tl.arange(0, BK)
    if TRANSPOSE_LHS:
        pa, step_a = a + rk[None, :] * M + rm[:, None], BK * M
    else:
        pa, step_a = a + rm[:, None] * K + rk[None, :], BK
    if TRANSPOSE_RHS:
        pb, step_b = b + rn[None, :] * K + rk[:, None], BK
    else:
        pb, step_b = b + rk[:, None] * N + rn[None, :], BK * N
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        if EVEN:
            x, y = tl.load(pa), tl.load(pb)
        else:
            x = tl.load(pa, mask=(rm[:, None] < M) & (rk[None, :] < K - k), other=0.0)
            y = tl.load(pb, mask=(rn[None, :] < N) & (rk[:, None] < K - k), other=0.0)
        total = tl.dot(x, y, total)
        pa += step_a
        pb += step_b
    pc = c + rm[:, None] * N + rn[None, :]
    result = total.to(c.dtype.element_ty)
    if EVEN:
        tl.store(pc, result)
    else:
        tl.store(pc, result, mask=(rm[:, None] < M) & (rn[None, :] < N))
