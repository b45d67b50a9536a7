"""A matrix product for GPUs in Triton: tiles in groups that share the cache, masks only where sizes do not divide."""

import triton
import triton.language as tl


@triton.jit
def gemm_triton(
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
    EVEN_M: tl.constexpr,
    EVEN_N: tl.constexpr,
    EVEN_K: tl.constexpr,
    WORKERS: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    if WORKERS:
        # Flattened, the loads of the next tile begin before the last one is stored.
        for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, WORKERS, flatten=True):
            one_tile(
                a, b, c, M, N, K, tile, tiles_m, tiles_n,
                BM, BN, BK, GROUP, TRANSPOSE_LHS, TRANSPOSE_RHS, EVEN_M, EVEN_N, EVEN_K, 4,
            )  # fmt: skip
    else:
        one_tile(
            a, b, c, M, N, K, tl.program_id(0), tiles_m, tiles_n,
            BM, BN, BK, GROUP, TRANSPOSE_LHS, TRANSPOSE_RHS, EVEN_M, EVEN_N, EVEN_K, 1,
        )  # fmt: skip


@triton.jit
def one_tile(
    a,
    b,
    c,
    M,
    N,
    K,
    tile,
    tiles_m,
    tiles_n,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    TRANSPOSE_LHS: tl.constexpr,
    TRANSPOSE_RHS: tl.constexpr,
    EVEN_M: tl.constexpr,
    EVEN_N: tl.constexpr,
    EVEN_K: tl.constexpr,
    PARTS: tl.constexpr,
):
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
        if EVEN_K and EVEN_M:
            x = tl.load(pa)
        elif EVEN_K:
            x = tl.load(pa, mask=rm[:, None] < M, other=0.0)
        elif EVEN_M:
            x = tl.load(pa, mask=rk[None, :] < K - k, other=0.0)
        else:
            x = tl.load(pa, mask=(rm[:, None] < M) & (rk[None, :] < K - k), other=0.0)
        if EVEN_K and EVEN_N:
            y = tl.load(pb)
        elif EVEN_K:
            y = tl.load(pb, mask=rn[None, :] < N, other=0.0)
        elif EVEN_N:
            y = tl.load(pb, mask=rk[:, None] < K - k, other=0.0)
        else:
            y = tl.load(pb, mask=(rn[None, :] < N) & (rk[:, None] < K - k), other=0.0)
        total = tl.dot(x, y, total)
        pa += step_a
        pb += step_b
    store(c, M, N, rm, n * BN, total, EVEN_M, EVEN_N, PARTS)


@triton.jit
def store(
    c, M, N, rm, first, total, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, PARTS: tl.constexpr
):  # fmt: skip
    """In parts, the way to whole lines through shared memory leaves room for the loads of the next tile."""
    BM: tl.constexpr = total.shape[0]
    BN: tl.constexpr = total.shape[1]
    if PARTS > 1:
        left, right = tl.split(tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1)))
        store(c, M, N, rm, first, left, EVEN_M, EVEN_N, PARTS // 2)
        store(c, M, N, rm, first + BN // 2, right, EVEN_M, EVEN_N, PARTS // 2)
    else:
        rn = first + tl.arange(0, BN)
        pc = c + rm[:, None] * N + rn[None, :]
        result = total.to(c.dtype.element_ty)
        if EVEN_M and EVEN_N:
            tl.store(pc, result)
        else:
            tl.store(pc, result, mask=(rm[:, None] < M) & (rn[None, :] < N))
