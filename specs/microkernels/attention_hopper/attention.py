"""Attention for NVIDIA's Hopper in Gluon: three warps copy, two groups of four compute, 64 queries each.

A group takes the scores of the next keys on the matrix units while it weighs those of the last, and both groups share
keys and values. Tiles come by descriptors (TMA); each warp makes its own, as that takes a microsecond. Workgroups stay
and take tile after tile.
"""

from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import (
    fence_async_shared,
    mbarrier,
    tma,
    warpgroup_mma,
    warpgroup_mma_wait,
)

# Later versions of Triton have new names for these.
copy_in = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared
copy_out = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global
together = gl.barrier if hasattr(gl, "barrier") else gl.thread_barrier
BM = gl.constexpr(128)
HALF = gl.constexpr(64)


@gluon.jit
def attention_hopper(
    query,
    key,
    value,
    out,
    QUERIES,
    KEYS,
    HEADS,
    BN: gl.constexpr,
    WIDTH: gl.constexpr,
    ROW: gl.constexpr,
    OUT_ROW: gl.constexpr,
    CAUSAL: gl.constexpr,
    STAGES: gl.constexpr,
    AHEAD: gl.constexpr,
):
    """ROW heads lie side by side in a row of what is read, OUT_ROW in one of the result. Where there are three times as
    many of the former, keys and values lie behind the queries."""
    packed: gl.constexpr = ROW > OUT_ROW
    if packed:
        key = query
        value = query
    dtype: gl.constexpr = query.dtype.element_ty
    rows: gl.constexpr = gl.NVMMASharedLayout.get_default_for([HALF, WIDTH], dtype)
    columns: gl.constexpr = gl.NVMMASharedLayout.get_default_for([BN, WIDTH], dtype)
    q = gl.allocate_shared_memory(dtype, [2, HALF, WIDTH], rows)
    o = gl.allocate_shared_memory(dtype, [2, HALF, WIDTH], rows)
    k = gl.allocate_shared_memory(dtype, [STAGES, BN, WIDTH], columns)
    v = gl.allocate_shared_memory(dtype, [STAGES, BN, WIDTH], columns)
    q_ready, q_empty = barriers(2, 1)
    k_ready, k_empty = barriers(STAGES, 2)
    v_ready, v_empty = barriers(STAGES, 2)
    fence_async_shared()
    size = (QUERIES, KEYS, HEADS)
    how: gl.constexpr = (BN, WIDTH, CAUSAL, STAGES, AHEAD, ROW, OUT_ROW)
    after_queries: gl.constexpr = OUT_ROW if packed else 0
    memory = (q, k, v, o, q_ready, q_empty, k_ready, k_empty, v_ready, v_empty)
    gl.warp_specialize(
        [
            (compute, (0, out, memory, size, how)),
            (compute, (1, out, memory, size, how)),
            (copy_queries, (query, q, q_ready, q_empty, size, how)),
            (copy_keys, (key, k, k_ready, k_empty, size, how, after_queries)),
            (copy_keys, (value, v, v_ready, v_empty, size, how, 2 * after_queries)),
        ],
        [4, 1, 1, 1],
        [240, 24, 24, 24],
    )


@gluon.jit
def barriers(STAGES: gl.constexpr, READERS: gl.constexpr):
    """What has come, and what all readers are done with."""
    ready = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    empty = gl.allocate_shared_memory(gl.int64, [STAGES, 1], mbarrier.MBarrierLayout())
    for i in gl.static_range(STAGES):
        mbarrier.init(ready.index(i), count=1)
        mbarrier.init(empty.index(i), count=READERS)
    return ready, empty


@gluon.jit
def place(turn, size, BN: gl.constexpr, CAUSAL: gl.constexpr):
    """The tile of this turn, its rows and its head, and in how many steps it sees its keys.

    Of causal problems the longest tiles come first, and every second turn goes backwards: all have as much to do.
    """
    QUERIES, KEYS, HEADS = size
    workers = gl.num_programs(0)
    blocks = QUERIES // BM
    if CAUSAL:
        mine = gl.program_id(0)
        tile = turn * workers + gl.where(turn % 2 == 1, workers - 1 - mine, mine)
        block, entry = blocks - 1 - tile // HEADS, tile % HEADS
        steps = gl.minimum(gl.cdiv(block * BM + BM, BN), KEYS // BN)
    else:
        tile = turn * workers + gl.program_id(0)
        block, entry = tile % blocks, tile // blocks
        steps = KEYS // BN
    return tile < blocks * HEADS, block * BM, entry, steps


@gluon.jit
def turns(size):
    QUERIES, _KEYS, HEADS = size
    return gl.cdiv(QUERIES // BM * HEADS, gl.num_programs(0))


@gluon.jit
def rows_of(pointer, tokens, size, how: gl.constexpr, ROW: gl.constexpr, BLOCK: gl.constexpr, into):
    """A descriptor of all rows, for memory like this. Heads one behind the other have rows of one head each."""
    WIDTH: gl.constexpr = how[1]
    OUT_ROW: gl.constexpr = how[6]
    return tma.make_tensor_descriptor(
        pointer, [size[2] // OUT_ROW * tokens, ROW * WIDTH], [ROW * WIDTH, 1], [BLOCK, WIDTH], into.type.layout
    )  # fmt: skip


@gluon.jit
def corner(entry, row, tokens, how: gl.constexpr, BEFORE: gl.constexpr):
    """Where a block begins that has this head's rows from this one on, behind so many heads of other operands."""
    WIDTH: gl.constexpr = how[1]
    OUT_ROW: gl.constexpr = how[6]
    return [entry // OUT_ROW * tokens + row, (entry % OUT_ROW + BEFORE) * WIDTH]


@gluon.jit
def copy_queries(query, q, ready, empty, size, how: gl.constexpr):
    WIDTH: gl.constexpr = how[1]
    descriptor = rows_of(query, size[0], size, how, how[5], HALF, q)
    for turn in range(turns(size)):
        there, row, entry, _steps = place(turn, size, how[0], how[2])
        if there:
            for i in gl.static_range(2):
                mbarrier.wait(empty.index(i), turn & 1 ^ 1)
                mbarrier.expect(ready.index(i), HALF * WIDTH * 2)
                copy_in(descriptor, corner(entry, row + i * HALF, size[0], how, 0), ready.index(i), q.index(i))


@gluon.jit
def copy_keys(key, k, ready, empty, size, how: gl.constexpr, BEFORE: gl.constexpr):
    """Or values. The last ones first: of causal problems these have a mask, and need no step of their own for it."""
    BN: gl.constexpr = how[0]
    WIDTH: gl.constexpr = how[1]
    STAGES: gl.constexpr = how[3]
    descriptor = rows_of(key, size[1], size, how, how[5], BN, k)
    done = 0
    for turn in range(turns(size)):
        there, _row, entry, steps = place(turn, size, BN, how[2])
        if there:
            for step in range(steps):
                stage = done % STAGES
                mbarrier.wait(empty.index(stage), done // STAGES & 1 ^ 1)
                mbarrier.expect(ready.index(stage), BN * WIDTH * 2)
                first = corner(entry, (steps - 1 - step) * BN, size[1], how, BEFORE)
                copy_in(descriptor, first, ready.index(stage), k.index(stage))
                done += 1


@gluon.jit
def weights_of(scores, largest, total, WIDTH: gl.constexpr):
    """Powers of two are what the chip has: log2(e) goes into the scale."""
    SCALE: gl.constexpr = 1.4426950408889634 / WIDTH**0.5
    now = gl.maximum(largest, gl.max(scores, 1) * SCALE)
    weights = gl.exp2(scores * SCALE - now[:, None])
    shrink = gl.exp2(largest - now)
    return now, total * shrink + gl.sum(weights, 1), weights, shrink


@gluon.jit
def compute(WHICH: gl.constexpr, out, memory, size, how: gl.constexpr):
    q, k, v, o, q_ready, q_empty, k_ready, k_empty, v_ready, v_empty = memory
    BN: gl.constexpr = how[0]
    WIDTH: gl.constexpr = how[1]
    CAUSAL: gl.constexpr = how[2]
    STAGES: gl.constexpr = how[3]
    AHEAD: gl.constexpr = how[4]
    of_scores: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, BN, 16])
    of_result: gl.constexpr = gl.NVMMADistributedLayout([3, 0], [4, 1], [16, WIDTH, 16])
    of_weights: gl.constexpr = gl.DotOperandLayout(0, of_result, 2)
    in_rows: gl.constexpr = gl.SliceLayout(1, of_result)
    results = rows_of(out, size[0], size, how, how[6], HALF, o)
    queries, mine = q.index(WHICH), o.index(WHICH)
    nothing = gl.zeros((HALF, BN), gl.float32, of_scores)
    done = 0
    for turn in range(turns(size)):
        there, row, entry, steps = place(turn, size, BN, CAUSAL)
        if there:
            mbarrier.wait(q_ready.index(WHICH), turn & 1)
            stage = done % STAGES
            mbarrier.wait(k_ready.index(stage), done // STAGES & 1)
            scores = warpgroup_mma(queries, k.index(stage).permute((1, 0)), nothing, use_acc=False, is_async=True)
            scores = warpgroup_mma_wait(0, deps=(scores,))
            together()
            mbarrier.arrive(k_empty.index(stage), count=1)
            if CAUSAL:
                rm = row + WHICH * HALF + gl.arange(0, HALF, gl.SliceLayout(1, of_scores))
                rn = (steps - 1) * BN + gl.arange(0, BN, gl.SliceLayout(0, of_scores))
                scores = gl.where(rn[None, :] <= rm[:, None], scores, float("-inf"))
            largest = gl.full((HALF,), float("-inf"), gl.float32, gl.SliceLayout(1, of_scores))
            total = gl.zeros((HALF,), gl.float32, gl.SliceLayout(1, of_scores))
            largest, total, weights, shrink = weights_of(scores, largest, total, WIDTH)
            p = gl.convert_layout(weights.to(q.dtype), of_weights)
            result = gl.zeros((HALF, WIDTH), gl.float32, of_result)
            for _step in range(1, steps):
                before, stage = done % STAGES, (done + 1) % STAGES
                mbarrier.wait(k_ready.index(stage), (done + 1) // STAGES & 1)
                scores = warpgroup_mma(queries, k.index(stage).permute((1, 0)), nothing, use_acc=False, is_async=True)
                mbarrier.wait(v_ready.index(before), done // STAGES & 1)
                later = warpgroup_mma(p, v.index(before), result, is_async=True)
                if AHEAD:
                    scores = warpgroup_mma_wait(1, deps=(scores,))
                else:
                    scores, later = warpgroup_mma_wait(0, deps=(scores, later))
                together()
                mbarrier.arrive(k_empty.index(stage), count=1)
                largest, total, weights, shrink = weights_of(scores, largest, total, WIDTH)
                if AHEAD:
                    result = warpgroup_mma_wait(0, deps=(later,))
                else:
                    result = later
                together()
                mbarrier.arrive(v_empty.index(before), count=1)
                result = result * gl.convert_layout(shrink, in_rows)[:, None]
                p = gl.convert_layout(weights.to(q.dtype), of_weights)
                done += 1
            mbarrier.arrive(q_empty.index(WHICH), count=1)
            stage = done % STAGES
            mbarrier.wait(v_ready.index(stage), done // STAGES & 1)
            result = warpgroup_mma(p, v.index(stage), result, is_async=True)
            result = warpgroup_mma_wait(0, deps=(result,))
            together()
            mbarrier.arrive(v_empty.index(stage), count=1)
            done += 1
            result = result / gl.convert_layout(total, in_rows)[:, None]
            tma.store_wait(0)
            together()
            mine.store(result.to(q.dtype))
            fence_async_shared()
            together()
            copy_out(results, corner(entry, row + WHICH * HALF, size[0], how, 0), mine)
    tma.store_wait(0)
