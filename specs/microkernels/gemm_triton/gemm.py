"""Matrix products for GPUs in Triton, batched or not, of any size.

Tiles are read by descriptors that the kernel makes itself (TMA), or by pointers. Where there are few tiles, some
workgroups share the depth of each, wait for one another and add up their sums.
"""

import triton
import triton.language as tl
from epilogue import put


@triton.jit
def gemm_triton(
    a,
    b,
    bias,
    residual,
    counters,
    c,
    partial,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    MORE: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    TRANSPOSE_LHS: tl.constexpr,
    TRANSPOSE_RHS: tl.constexpr,
    EVEN_M: tl.constexpr,
    EVEN_N: tl.constexpr,
    EVEN_K: tl.constexpr,
    WORKERS: tl.constexpr,
    SPLIT: tl.constexpr,
    TMA: tl.constexpr,
    CLIP_LOW: tl.constexpr,
    CLIP_HIGH: tl.constexpr,
    LOW_BITS: tl.constexpr,
    HIGH_BITS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    FACTOR_BITS: tl.constexpr,
    GATED: tl.constexpr,
):
    entry = tl.program_id(2).to(tl.int64)
    a += entry * M * K
    b += entry * K * N
    c += entry * M * (N // 2 if GATED else N)
    if residual is not None:
        residual += entry * M * N
    # A tile may have a second block of columns beside the first: 128 + 64 is 192, which is no power of two.
    WIDE: tl.constexpr = BN + MORE
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, WIDE)
    steps = tl.cdiv(K, BK)
    # In parts, the way to whole lines through shared memory leaves room for the loads of the next tile.
    PARTS: tl.constexpr = 1 if BM * BN <= 8192 else BM * BN // 8192
    da, db = descriptors(a, b, M, N, K, BM, BN, BK, TRANSPOSE_LHS, TRANSPOSE_RHS, TMA)
    dx = columns(b, N, K, MORE, BK, TRANSPOSE_RHS, TMA) if MORE else db
    if WORKERS:
        # Flattened, the loads of the next tile begin before the last one is stored.
        for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, WORKERS, flatten=True):
            m, n = place(tile, tiles_m, tiles_n, GROUP)
            if TMA:
                total, extra = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, MORE if MORE else 1), tl.float32)
                for k in range(steps):
                    x, y = by_descriptor(da, db, m * BM, n * WIDE, k * BK, TRANSPOSE_LHS, TRANSPOSE_RHS)
                    total = tl.dot(x, y, total)
                    if MORE:
                        extra = tl.dot(x, columns_at(dx, n * WIDE + BN, k * BK, TRANSPOSE_RHS), extra)
            else:
                total = by_pointers(
                    a, b, M, N, K, m * BM, n * BN, 0, steps,
                    BM, BN, BK, TRANSPOSE_LHS, TRANSPOSE_RHS, EVEN_M, EVEN_N, EVEN_K,
                )  # fmt: skip
            put_tile(
                c, bias, residual, M, N, m * BM, n * WIDE, total, PARTS, EVEN_M, EVEN_N,
                CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS, GATED,
            )  # fmt: skip
            if MORE:
                put_tile(
                    c, bias, residual, M, N, m * BM, n * WIDE + BN, extra, 1, EVEN_M, EVEN_N,
                    CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS, GATED,
                )  # fmt: skip
    else:
        part, tile = tl.program_id(0) % SPLIT, tl.program_id(0) // SPLIT
        m, n = place(tile, tiles_m, tiles_n, GROUP)
        each = tl.cdiv(steps, SPLIT)
        first, end = part * each, min(part * each + each, steps)
        if TMA:
            total, extra = tl.zeros((BM, BN), tl.float32), tl.zeros((BM, MORE if MORE else 1), tl.float32)
            for k in range(first, end):
                x, y = by_descriptor(da, db, m * BM, n * WIDE, k * BK, TRANSPOSE_LHS, TRANSPOSE_RHS)
                total = tl.dot(x, y, total)
                if MORE:
                    extra = tl.dot(x, columns_at(dx, n * WIDE + BN, k * BK, TRANSPOSE_RHS), extra)
        else:
            total = by_pointers(
                a, b, M, N, K, m * BM, n * BN, first, end,
                BM, BN, BK, TRANSPOSE_LHS, TRANSPOSE_RHS, EVEN_M, EVEN_N, EVEN_K,
            )  # fmt: skip
        if SPLIT == 1:
            put_tile(
                c, bias, residual, M, N, m * BM, n * WIDE, total, PARTS, EVEN_M, EVEN_N,
                CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS, GATED,
            )  # fmt: skip
            if MORE:
                put_tile(
                    c, bias, residual, M, N, m * BM, n * WIDE + BN, extra, 1, EVEN_M, EVEN_N,
                    CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS, GATED,
                )  # fmt: skip
        else:
            HIGH: tl.constexpr = 4
            slots = partial + tile.to(tl.int64) * (SPLIT * BM * BN)
            keep(slots + part * (BM * BN), total, PARTS, BN)
            wait(counters + tile, SPLIT)
            # Each adds up its share of the rows, always in the same order.
            for strip in range(part, BM // HIGH, SPLIT):
                at = slots + (strip * HIGH + tl.arange(0, HIGH))[:, None] * BN + tl.arange(0, BN)[None, :]
                sums = tl.zeros((HIGH, BN), tl.float32)
                for other in tl.range(SPLIT, num_stages=1, loop_unroll_factor=4):
                    sums += tl.load(at + other * (BM * BN), cache_modifier=".cg")
                put_tile(
                    c, bias, residual, M, N, m * BM + strip * HIGH, n * BN, sums, 1, EVEN_M, EVEN_N,
                    CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS, GATED,
                )  # fmt: skip
            leave(counters + tile, SPLIT)


@triton.jit
def wait(counter, SPLIT: tl.constexpr):
    """Until all that share a tile are here. They are neighbours in the grid: none waits for one that cannot start."""
    tl.debug_barrier()
    seen = tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") + 1
    while seen < SPLIT:
        seen = tl.atomic_add(counter, 0, sem="acquire", scope="gpu")


@triton.jit
def leave(counter, SPLIT: tl.constexpr):
    """The last one leaves the counter as it was."""
    tl.debug_barrier()
    if tl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") == 2 * SPLIT - 1:
        tl.store(counter, 0)


@triton.jit
def place(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    """Tiles go in groups of rows, so that those that run together share what they read."""
    group = tile // (GROUP * tiles_n)
    within = tile % (GROUP * tiles_n)
    rows = min(tiles_m - group * GROUP, GROUP)
    return group * GROUP + within % rows, within // rows


@triton.jit
def descriptors(
    a,
    b,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    TRANSPOSE_LHS: tl.constexpr,
    TRANSPOSE_RHS: tl.constexpr,
    TMA: tl.constexpr,
):
    da = a
    if TMA and TRANSPOSE_LHS:
        da = tl.make_tensor_descriptor(a, [K, M], [M, 1], [BK, BM])
    elif TMA:
        da = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    return da, columns(b, N, K, BN, BK, TRANSPOSE_RHS, TMA)


@triton.jit
def columns(
    b, N, K, WIDTH: tl.constexpr, BK: tl.constexpr, TRANSPOSE_RHS: tl.constexpr, TMA: tl.constexpr
):  # fmt: skip
    """The descriptor of so many columns."""
    db = b
    if TMA and TRANSPOSE_RHS:
        db = tl.make_tensor_descriptor(b, [N, K], [K, 1], [WIDTH, BK])
    elif TMA:
        db = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, WIDTH])
    return db


@triton.jit
def columns_at(db, n, k, TRANSPOSE_RHS: tl.constexpr):
    return db.load([n, k]).T if TRANSPOSE_RHS else db.load([k, n])


@triton.jit
def by_descriptor(da, db, m, n, k, TRANSPOSE_LHS: tl.constexpr, TRANSPOSE_RHS: tl.constexpr):
    x = da.load([k, m]).T if TRANSPOSE_LHS else da.load([m, k])
    return x, columns_at(db, n, k, TRANSPOSE_RHS)


@triton.jit
def by_pointers(
    a,
    b,
    M,
    N,
    K,
    m,
    n,
    first,
    end,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    TRANSPOSE_LHS: tl.constexpr,
    TRANSPOSE_RHS: tl.constexpr,
    EVEN_M: tl.constexpr,
    EVEN_N: tl.constexpr,
    EVEN_K: tl.constexpr,
):
    """The sums over some steps of the depth, with masks only where sizes do not divide."""
    ks = tl.arange(0, BK)
    rm, rn, rk = m + tl.arange(0, BM), n + tl.arange(0, BN), first * BK + ks
    if TRANSPOSE_LHS:
        pa, step_a = a + rk[None, :] * M + rm[:, None], BK * M
    else:
        pa, step_a = a + rm[:, None] * K + rk[None, :], BK
    if TRANSPOSE_RHS:
        pb, step_b = b + rn[None, :] * K + rk[:, None], BK
    else:
        pb, step_b = b + rk[:, None] * N + rn[None, :], BK * N
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(first, end):
        if EVEN_K and EVEN_M:
            x = tl.load(pa)
        elif EVEN_K:
            x = tl.load(pa, mask=rm[:, None] < M, other=0.0)
        elif EVEN_M:
            x = tl.load(pa, mask=ks[None, :] < K - k * BK, other=0.0)
        else:
            x = tl.load(pa, mask=(rm[:, None] < M) & (ks[None, :] < K - k * BK), other=0.0)
        if EVEN_K and EVEN_N:
            y = tl.load(pb)
        elif EVEN_K:
            y = tl.load(pb, mask=rn[None, :] < N, other=0.0)
        elif EVEN_N:
            y = tl.load(pb, mask=ks[:, None] < K - k * BK, other=0.0)
        else:
            y = tl.load(pb, mask=(rn[None, :] < N) & (ks[:, None] < K - k * BK), other=0.0)
        total = tl.dot(x, y, total)
        pa += step_a
        pb += step_b
    return total


@triton.jit
def halves(total):
    """The left and the right columns."""
    BM: tl.constexpr = total.shape[0]
    BN: tl.constexpr = total.shape[1]
    return tl.split(tl.permute(tl.reshape(total, (BM, 2, BN // 2)), (0, 2, 1)))


@triton.jit
def keep(slot, total, PARTS: tl.constexpr, WIDTH: tl.constexpr):
    """Sums that others will add to theirs."""
    BM: tl.constexpr = total.shape[0]
    BN: tl.constexpr = total.shape[1]
    if PARTS > 1:
        left, right = halves(total)
        keep(slot, left, PARTS // 2, WIDTH)
        keep(slot + BN // 2, right, PARTS // 2, WIDTH)
    else:
        tl.store(slot + tl.arange(0, BM)[:, None] * WIDTH + tl.arange(0, BN)[None, :], total, cache_modifier=".cg")


@triton.jit
def put_tile(
    c,
    bias,
    residual,
    M,
    N,
    m,
    n,
    total,
    PARTS: tl.constexpr,
    EVEN_M: tl.constexpr,
    EVEN_N: tl.constexpr,
    CLIP_LOW: tl.constexpr,
    CLIP_HIGH: tl.constexpr,
    LOW_BITS: tl.constexpr,
    HIGH_BITS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    FACTOR_BITS: tl.constexpr,
    GATED: tl.constexpr,
):
    """The sums with their epilogue into the result, in so many parts."""
    if PARTS > 1:
        SIDE: tl.constexpr = total.shape[1] // 2
        left, right = halves(total)
        put_tile(
            c, bias, residual, M, N, m, n, left, PARTS // 2, EVEN_M, EVEN_N,
            CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS, GATED,
        )  # fmt: skip
        put_tile(
            c, bias, residual, M, N, m, n + SIDE, right, PARTS // 2, EVEN_M, EVEN_N,
            CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS, GATED,
        )  # fmt: skip
    else:
        BM: tl.constexpr = total.shape[0]
        BN: tl.constexpr = total.shape[1]
        rm = m + tl.arange(0, BM)[:, None]
        others = None
        if GATED:
            # Eight gates and eight sums that they are for take turns: a thread of a matrix unit has both.
            total, others = tl.split(tl.permute(tl.reshape(total, (BM, BN // 16, 2, 8)), (0, 1, 3, 2)))
            total, others = tl.reshape(total, (BM, BN // 2)), tl.reshape(others, (BM, BN // 2))
            rn, N = n // 2 + tl.arange(0, BN // 2)[None, :], N // 2
        else:
            rn = n + tl.arange(0, BN)[None, :]
        put(
            c, rm * N + rn, (rm < M) & (rn < N), EVEN_M and EVEN_N, total, bias, rn, rn < N, residual,
            CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS, others,
        )  # fmt: skip
