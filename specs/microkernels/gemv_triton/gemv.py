"""A matrix times one row or one column, for GPUs in Triton: as fast as memory gives the matrix.

Where there are few columns, some workgroups share the depth: who comes last adds up the sums of all, always in the same
order, and leaves the counter at zero.
"""

import triton
import triton.language as tl
from epilogue import put


@triton.jit
def gemv_triton(
    a,
    b,
    bias,
    residual,
    counters,
    c,
    partial,
    N,
    K,
    BN: tl.constexpr,
    BK: tl.constexpr,
    SPLIT: tl.constexpr,
    COLUMN: tl.constexpr,
    ALONG: tl.constexpr,
    EVEN_N: tl.constexpr,
    EVEN_K: tl.constexpr,
    CLIP_LOW: tl.constexpr,
    CLIP_HIGH: tl.constexpr,
    LOW_BITS: tl.constexpr,
    HIGH_BITS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    FACTOR_BITS: tl.constexpr,
):
    """COLUMN: the right operand is the vector. ALONG: the matrix has its depth innermost."""
    entry = tl.program_id(2).to(tl.int64)
    if COLUMN:
        matrix, vector = a + entry * N * K, b + entry * K
    else:
        matrix, vector = b + entry * N * K, a + entry * K
    part, tile = tl.program_id(0) % SPLIT, tl.program_id(0) // SPLIT
    steps = tl.cdiv(K, BK)
    each = tl.cdiv(steps, SPLIT)
    rn = tile * BN + tl.arange(0, BN)
    total = tl.zeros((BN, BK) if ALONG else (BK, BN), tl.float32)
    for k in range(part * each, min(part * each + each, steps)):
        rk = k * BK + tl.arange(0, BK)
        if EVEN_K:
            x = tl.load(vector + rk).to(tl.float32)
        else:
            x = tl.load(vector + rk, mask=rk < K, other=0.0).to(tl.float32)
        if ALONG:
            at, inside = matrix + rn[:, None] * K + rk[None, :], (rn[:, None] < N) & (rk[None, :] < K)
        else:
            at, inside = matrix + rk[:, None] * N + rn[None, :], (rk[:, None] < K) & (rn[None, :] < N)
        if EVEN_K and EVEN_N:
            y = tl.load(at)
        else:
            y = tl.load(at, mask=inside, other=0.0)
        total += y.to(tl.float32) * (x[None, :] if ALONG else x[:, None])
    sums = tl.sum(total, 1 if ALONG else 0)
    c += entry * N
    if residual is not None:
        residual += entry * N
    # A bias has a number for each column of the result.
    channels = rn * 0 if COLUMN else rn
    if SPLIT == 1:
        put(
            c, rn, rn < N, EVEN_N, sums, bias, channels, rn < N, residual,
            CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS,
        )  # fmt: skip
    else:
        slots = partial + tile * (SPLIT * BN) + tl.arange(0, BN)
        tl.store(slots + part * BN, sums, cache_modifier=".cg")
        tl.debug_barrier()
        seen = tl.atomic_add(counters + tile, 1, sem="acq_rel", scope="gpu")
        if seen == SPLIT - 1:
            whole = tl.zeros((BN,), tl.float32)
            for other in range(SPLIT):
                whole += tl.load(slots + other * BN, cache_modifier=".cg")
            put(
                c, rn, rn < N, EVEN_N, whole, bias, channels, rn < N, residual,
                CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS,
            )  # fmt: skip
            tl.store(counters + tile, 0)
