"""Matrix products for NVIDIA's Hopper in Gluon, batched or not: three warps copy, groups of four multiply.

Tiles come by descriptors (TMA), some steps ahead; each warp that copies makes its own, as that takes a microsecond. One
to three groups share the rows of a tile. Where there are few tiles, some workgroups share the depth of each, wait for
one another and add up their sums.
"""

from epilogue import put_gluon
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# Triton 3.7 has new names for these.
copy_in = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
together = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier


@gluon.jit
def gemm_hopper(
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
    BATCH,
    BM: gl.constexpr,
    BN: gl.constexpr,
    MORE: gl.constexpr,
    BK: gl.constexpr,
    GROUP: gl.constexpr,
    GROUPS: gl.constexpr,
    STAGES: gl.constexpr,
    SPLIT: gl.constexpr,
    LINES: gl.constexpr,
    TRANSPOSE_LHS: gl.constexpr,
    TRANSPOSE_RHS: gl.constexpr,
    EVEN_M: gl.constexpr,
    EVEN_N: gl.constexpr,
    CLIP_LOW: gl.constexpr,
    CLIP_HIGH: gl.constexpr,
    LOW_BITS: gl.constexpr,
    HIGH_BITS: gl.constexpr,
    ACTIVATION: gl.constexpr,
    FACTOR_BITS: gl.constexpr,
    GATED: gl.constexpr,
):
    dtype: gl.constexpr = a.dtype.element_ty
    ROWS: gl.constexpr = BM // GROUPS  # of a group of warps
    x = ring(dtype, STAGES * GROUPS, BK if TRANSPOSE_LHS else ROWS, ROWS if TRANSPOSE_LHS else BK)
    y = ring(dtype, STAGES, BN if TRANSPOSE_RHS else BK, BK if TRANSPOSE_RHS else BN)
    z = y
    if MORE:
        z = ring(dtype, STAGES, MORE if TRANSPOSE_RHS else BK, BK if TRANSPOSE_RHS else MORE)
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(ready.index(i), count=3 if MORE else 2)
        mbarrier.init(empty.index(i), count=GROUPS)
    fence_async_shared()
    how: gl.constexpr = (BM, BN, MORE, BK, GROUP, GROUPS, STAGES, SPLIT, TRANSPOSE_LHS, TRANSPOSE_RHS, LINES)
    end: gl.constexpr = (EVEN_M, EVEN_N, CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS, GATED)
    size, memory, results = (M, N, K, BATCH), (x, y, z, ready, empty), (c, bias, residual, counters, partial)
    if GROUPS == 1:
        gl.warp_specialize(
            [
                (multiply, (0, results, memory, size, how, end)),
                (copy_rows, (a, x, ready, empty, size, how)),
                (copy_columns, (b, y, ready, empty, size, 0, BN, how)),
                (copy_columns, (b, z, ready, empty, size, BN, MORE, how)),
            ],
            [1, 1, 1],
            [24, 24, 24],
        )
    elif GROUPS == 2:
        gl.warp_specialize(
            [
                (multiply, (0, results, memory, size, how, end)),
                (multiply, (1, results, memory, size, how, end)),
                (copy_rows, (a, x, ready, empty, size, how)),
                (copy_columns, (b, y, ready, empty, size, 0, BN, how)),
                (copy_columns, (b, z, ready, empty, size, BN, MORE, how)),
            ],
            [4, 1, 1, 1],
            [240, 24, 24, 24],
        )
    else:
        gl.warp_specialize(
            [
                (multiply, (0, results, memory, size, how, end)),
                (multiply, (1, results, memory, size, how, end)),
                (multiply, (2, results, memory, size, how, end)),
                (copy_rows, (a, x, ready, empty, size, how)),
                (copy_columns, (b, y, ready, empty, size, 0, BN, how)),
                (copy_columns, (b, z, ready, empty, size, BN, MORE, how)),
            ],
            [4, 4, 1, 1, 1],
            [160, 160, 24, 24, 24],
        )


@gluon.jit
def ring(dtype: gl.constexpr, STAGES: gl.constexpr, ROWS: gl.constexpr, COLUMNS: gl.constexpr):
    """Memory for so many tiles, as the matrix units read them."""
    layout: gl.constexpr = gl.NVMMASharedLayout.get_default_for([ROWS, COLUMNS], dtype)
    return gl.allocate_shared_memory(dtype, [STAGES, ROWS, COLUMNS], layout)


@gluon.jit
def place(tile, size, BM: gl.constexpr, WIDE: gl.constexpr, GROUP: gl.constexpr):
    """Tiles go in groups of rows, so that those that run together share what they read."""
    M, N, _K, _BATCH = size
    tiles_m, tiles_n = gl.cdiv(M, BM), gl.cdiv(N, WIDE)
    entry, tile = tile // (tiles_m * tiles_n), tile % (tiles_m * tiles_n)
    group, within = tile // (GROUP * tiles_n), tile % (GROUP * tiles_n)
    rows = gl.minimum(tiles_m - group * GROUP, GROUP)
    return entry, (group * GROUP + within % rows) * BM, within // rows * WIDE


@gluon.jit
def copy_rows(a, x, ready, empty, size, how: gl.constexpr):
    """What one warp does: every step of every tile of this workgroup, as soon as its place in the ring is free."""
    M, N, K, BATCH = size
    BM: gl.constexpr = how[0]
    WIDE: gl.constexpr = how[1] + how[2]
    BK: gl.constexpr = how[3]
    GROUPS: gl.constexpr = how[5]
    STAGES: gl.constexpr = how[6]
    SPLIT: gl.constexpr = how[7]
    ROWS: gl.constexpr = BM // GROUPS
    if how[8]:
        descriptor = tma.make_tensor_descriptor(a, [BATCH * K, M], [M, 1], [BK, ROWS], x.type.layout)
    else:
        descriptor = tma.make_tensor_descriptor(a, [BATCH * M, K], [K, 1], [ROWS, BK], x.type.layout)
    steps = gl.cdiv(K, BK)
    each = gl.cdiv(steps, SPLIT)
    done = 0
    for item in range(gl.program_id(0), gl.cdiv(M, BM) * gl.cdiv(N, WIDE) * BATCH * SPLIT, gl.num_programs(0)):
        entry, row, _column = place(item // SPLIT, size, BM, WIDE, how[4])
        first = item % SPLIT * each
        for step in range(first, gl.minimum(first + each, steps)):
            stage = done % STAGES
            mbarrier.wait(empty.index(stage), done // STAGES & 1 ^ 1)
            mbarrier.expect(ready.index(stage), BM * BK * 2)
            for group in gl.static_range(GROUPS):
                if how[8]:
                    at = [entry * K + step * BK, row + group * ROWS]
                else:
                    at = [entry * M + row + group * ROWS, step * BK]
                copy_in(descriptor, at, ready.index(stage), x.index(stage * GROUPS + group))
            done += 1


@gluon.jit
def copy_columns(b, y, ready, empty, size, BESIDE: gl.constexpr, WIDTH: gl.constexpr, how: gl.constexpr):
    """The same for so many columns, from the tile's column BESIDE on; there may be none."""
    if WIDTH:
        send_columns(b, y, ready, empty, size, BESIDE, WIDTH, how)


@gluon.jit
def send_columns(b, y, ready, empty, size, BESIDE: gl.constexpr, WIDTH: gl.constexpr, how: gl.constexpr):
    M, N, K, BATCH = size
    BM: gl.constexpr = how[0]
    WIDE: gl.constexpr = how[1] + how[2]
    BK: gl.constexpr = how[3]
    STAGES: gl.constexpr = how[6]
    SPLIT: gl.constexpr = how[7]
    if how[9]:
        descriptor = tma.make_tensor_descriptor(b, [BATCH * N, K], [K, 1], [WIDTH, BK], y.type.layout)
    else:
        descriptor = tma.make_tensor_descriptor(b, [BATCH * K, N], [N, 1], [BK, WIDTH], y.type.layout)
    steps = gl.cdiv(K, BK)
    each = gl.cdiv(steps, SPLIT)
    done = 0
    for item in range(gl.program_id(0), gl.cdiv(M, BM) * gl.cdiv(N, WIDE) * BATCH * SPLIT, gl.num_programs(0)):
        entry, _row, column = place(item // SPLIT, size, BM, WIDE, how[4])
        first = item % SPLIT * each
        for step in range(first, gl.minimum(first + each, steps)):
            stage = done % STAGES
            mbarrier.wait(empty.index(stage), done // STAGES & 1 ^ 1)
            mbarrier.expect(ready.index(stage), WIDTH * BK * 2)
            if how[9]:
                at = [entry * N + column + BESIDE, step * BK]
            else:
                at = [entry * K + step * BK, column + BESIDE]
            copy_in(descriptor, at, ready.index(stage), y.index(stage))
            done += 1


@gluon.jit
def multiply(WHICH: gl.constexpr, results, memory, size, how: gl.constexpr, end: gl.constexpr):
    """What a group of four warps does: its rows of each tile."""
    x, y, z, ready, empty = memory
    M, N, K, BATCH = size
    BM: gl.constexpr = how[0]
    BN: gl.constexpr = how[1]
    MORE: gl.constexpr = how[2]
    BK: gl.constexpr = how[3]
    GROUPS: gl.constexpr = how[5]
    STAGES: gl.constexpr = how[6]
    SPLIT: gl.constexpr = how[7]
    ROWS: gl.constexpr = BM // GROUPS
    SIDE: gl.constexpr = MORE if MORE else 64
    LINES: gl.constexpr = how[10]
    sums: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    side: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, SIDE, 16])
    steps = gl.cdiv(K, BK)
    each = gl.cdiv(steps, SPLIT)
    items = gl.cdiv(M, BM) * gl.cdiv(N, BN + MORE) * BATCH * SPLIT
    done = 0
    for item in range(gl.program_id(0), items, gl.num_programs(0)):
        entry, row, column = place(item // SPLIT, size, BM, BN + MORE, how[4])
        first = item % SPLIT * each
        total = gl.zeros((ROWS, BN), gl.float32, sums)
        extra = gl.zeros((ROWS, SIDE), gl.float32, side)
        for step in range(first, gl.minimum(first + each, steps)):
            stage = done % STAGES
            mbarrier.wait(ready.index(stage), done // STAGES & 1)
            rows, across, beside = x.index(stage * GROUPS + WHICH), y.index(stage), z.index(stage)
            if how[8]:
                rows = rows.permute((1, 0))
            if how[9]:
                across, beside = across.permute((1, 0)), beside.permute((1, 0))
            # One step stays in flight; then the place of the one before is free.
            total = warpgroup_mma(rows, across, total, is_async=True)
            if MORE:
                extra = warpgroup_mma(rows, beside, extra, is_async=True)
                total, extra = warpgroup_mma_wait(2, deps=(total, extra))
            else:
                total = warpgroup_mma_wait(1, deps=(total,))
            if step > first:
                together()
                mbarrier.arrive(empty.index((done + STAGES - 1) % STAGES), count=1)
            done += 1
        if MORE:
            total, extra = warpgroup_mma_wait(0, deps=(total, extra))
        else:
            total = warpgroup_mma_wait(0, deps=(total,))
        together()
        mbarrier.arrive(empty.index((done + STAGES - 1) % STAGES), count=1)
        row += WHICH * ROWS
        if SPLIT > 1:
            share(results, size, item, row, column, total, WHICH, GROUPS, SPLIT, end)
        else:
            put_sums(results, size, entry, row, column, total, LINES, end)
            if MORE:
                put_sums(results, size, entry, row, column + BN, extra, LINES, end)


@gluon.jit
def share(
    results,
    size,
    item,
    row,
    column,
    total,
    WHICH: gl.constexpr,
    GROUPS: gl.constexpr,
    SPLIT: gl.constexpr,
    end: gl.constexpr,
):
    """Those that share a tile leave their sums and wait for one another; each adds up its share of the rows, always in
    the same order. They are neighbours in the grid: none waits for one that cannot start. The last one leaves the
    counter as it was."""
    ROWS: gl.constexpr = total.shape[0]
    BN: gl.constexpr = total.shape[1]
    HIGH: gl.constexpr = 8
    lines: gl.constexpr = gl.BlockedLayout([1, 4], [1, 32], [4, 1], [1, 0])
    part, tile = item % SPLIT, item // SPLIT * GROUPS + WHICH
    counter = results[3] + tile
    slots = results[4] + tile.to(gl.int64) * (SPLIT * ROWS * BN)
    rm = gl.arange(0, ROWS, gl.SliceLayout(1, total.type.layout))[:, None]
    rn = gl.arange(0, BN, gl.SliceLayout(0, total.type.layout))[None, :]
    gl.store(slots + part * (ROWS * BN) + rm * BN + rn, total, cache_modifier=".cg")
    together()
    seen = gl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") + 1
    while seen < SPLIT:
        seen = gl.atomic_add(counter, 0, sem="acquire", scope="gpu")
    together()
    rm = gl.arange(0, HIGH, gl.SliceLayout(1, lines))[:, None]
    rn = gl.arange(0, BN, gl.SliceLayout(0, lines))[None, :]
    for strip in range(part, ROWS // HIGH, SPLIT):
        at = slots + (strip * HIGH + rm) * BN + rn
        sums = gl.load(at, cache_modifier=".cg")
        for other in gl.static_range(1, SPLIT):
            sums += gl.load(at + other * (ROWS * BN), cache_modifier=".cg")
        put_tile(results, size, 0, row + strip * HIGH, column, sums, None, end)
    together()
    if gl.atomic_add(counter, 1, sem="acq_rel", scope="gpu") == 2 * SPLIT - 1:
        gl.store(counter, 0)


@gluon.jit
def put_sums(results, size, entry, row, column, total, LINES: gl.constexpr, end: gl.constexpr):
    """The sums, or those that gates are for, with their epilogue into the result. Each thread has eights of both."""
    if end[8]:
        HALF: gl.constexpr = total.shape[1] // 2
        gates, others = total.reshape((total.shape[0], HALF // 8, 2, 8)).permute((0, 1, 3, 2)).split()
        gates, others = gates.reshape((total.shape[0], HALF)), others.reshape((total.shape[0], HALF))
        put_all(results, size, entry, row, column // 2, gates, others, LINES, end)
    else:
        put_all(results, size, entry, row, column, total, None, LINES, end)


@gluon.jit
def put_all(results, size, entry, row, column, total, others, LINES: gl.constexpr, end: gl.constexpr):
    if LINES:
        put_lines(results, size, entry, row, column, total, others, end)
    else:
        put_tile(results, size, entry, row, column, total, others, end)


@gluon.jit
def halves(total):
    """The left and the right columns."""
    return total.reshape((total.shape[0], 2, total.shape[1] // 2)).permute((0, 2, 1)).split()


@gluon.jit
def put_lines(results, size, entry, row, column, total, others, end: gl.constexpr):
    """The same by way of shared memory, where they become whole lines; 64 columns at a time, for want of room. What an
    activation takes is many instructions: a loop has them once, where the next columns take the place of the last."""
    WIDTH: gl.constexpr = total.shape[1]
    if WIDTH == 256 and others is None and end[6]:
        left, right = halves(total)
        first, second = halves(left)
        third, fourth = halves(right)
        for strip in range(4):
            put_strip(results, size, entry, row, column + strip * 64, first, None, end)
            first, second, third, fourth = second, third, fourth, first
    elif WIDTH == 128 and others is None and end[6]:
        left, right = halves(total)
        for strip in range(2):
            put_strip(results, size, entry, row, column + strip * 64, left, None, end)
            left, right = right, left
    elif WIDTH == 128 and end[6]:
        left, right = halves(total)
        beside, behind = halves(others)
        for strip in range(2):
            put_strip(results, size, entry, row, column + strip * 64, left, beside, end)
            left, right, beside, behind = right, left, behind, beside
    elif WIDTH > 64:
        left, right = halves(total)
        beside, behind = (None, None) if others is None else halves(others)
        put_lines(results, size, entry, row, column, left, beside, end)
        put_lines(results, size, entry, row, column + WIDTH // 2, right, behind, end)
    else:
        put_strip(results, size, entry, row, column, total, others, end)


@gluon.jit
def put_strip(results, size, entry, row, column, total, others, end: gl.constexpr):
    WIDTH: gl.constexpr = total.shape[1]
    lines: gl.constexpr = gl.BlockedLayout([1, 4], [128 // WIDTH, WIDTH // 4], [4, 1], [1, 0])
    if others is not None:
        others = gl.convert_layout(others, lines)
    put_tile(results, size, entry, row, column, gl.convert_layout(total, lines), others, end)


@gluon.jit
def put_tile(results, size, entry, row, column, total, others, end: gl.constexpr):
    """The sums with their epilogue into the result."""
    c, bias, residual, _counters, _partial = results
    M, N, _K, _BATCH = size
    if end[8]:
        N = N // 2
    rm = row + gl.arange(0, total.shape[0], gl.SliceLayout(1, total.type.layout))[:, None]
    rn = column + gl.arange(0, total.shape[1], gl.SliceLayout(0, total.type.layout))[None, :]
    first = gl.to_tensor(entry).to(gl.int64) * M * N
    if residual is not None:
        residual += first
    put_gluon(
        c + first, rm * N + rn, (rm < M) & (rn < N), end[0] and end[1], total, bias, rn, rn < N, residual,
        end[2], end[3], end[4], end[5], end[6], end[7], others,
    )  # fmt: skip
