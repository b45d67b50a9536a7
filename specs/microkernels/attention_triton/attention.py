"""Attention for GPUs in Triton: one pass over the keys with a running maximum, so that scores never leave the chip."""

import triton
import triton.language as tl


@triton.jit
def attention_triton(
    query,
    key,
    value,
    arrived,
    out,
    parts,
    QUERIES,
    KEYS,
    BM: tl.constexpr,
    BN: tl.constexpr,
    WIDTH: tl.constexpr,
    ROW: tl.constexpr,
    OUT_ROW: tl.constexpr,
    BLOCK_D: tl.constexpr,
    MORE: tl.constexpr,
    CAUSAL: tl.constexpr,
    EVEN_M: tl.constexpr,
    EVEN_N: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """ROW heads lie side by side in a row of what is read, OUT_ROW in one of the result. Where there are three times as
    many of the former, keys and values lie behind the queries. A head has BLOCK_D columns, and so many MORE where no
    power of two is near: at 72, 80, 96, 160."""
    # The last rows of a causal problem see most keys: they begin first.
    block = tl.cdiv(QUERIES, BM) - 1 - tl.program_id(0) if CAUSAL else tl.program_id(0)
    entry = tl.program_id(1).to(tl.int64)
    if ROW > OUT_ROW:
        key = query + OUT_ROW * WIDTH
        value = query + 2 * OUT_ROW * WIDTH
    # Heads that lie one behind the other are rows of one head each.
    lead, head = entry // OUT_ROW, entry % OUT_ROW
    query += (lead * QUERIES * ROW + head) * WIDTH
    out += (lead * QUERIES * OUT_ROW + head) * WIDTH
    key += (lead * KEYS * ROW + head) * WIDTH
    value += (lead * KEYS * ROW + head) * WIDTH
    rm, rd = block * BM + tl.arange(0, BM), tl.arange(0, BLOCK_D)
    rx = BLOCK_D + tl.arange(0, MORE if MORE else BLOCK_D)
    WHOLE: tl.constexpr = BLOCK_D <= WIDTH
    WHOLE_MORE: tl.constexpr = BLOCK_D + MORE == WIDTH
    q = loaded(query, rm[:, None], rd[None, :], QUERIES, WIDTH, ROW, WHOLE, not EVEN_M)
    more = loaded(query, rm[:, None], rx[None, :], QUERIES, WIDTH, ROW, WHOLE_MORE, not EVEN_M) if MORE else q
    # Query i sees keys 0 to i: blocks of keys that all rows see whole need no mask.
    if CAUSAL:
        start = 0
        whole = min(block * BM + 1, KEYS) // BN * BN
        end = min(block * BM + BM, KEYS)
    elif SPLIT > 1:
        each = tl.cdiv(tl.cdiv(KEYS, BN), SPLIT) * BN
        start = tl.program_id(2) * each
        end = min(start + each, KEYS)
        whole = max(start, end // BN * BN)
    else:
        start = 0
        whole = KEYS // BN * BN
        end = KEYS
    largest = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    result = tl.zeros((BM, BLOCK_D), tl.float32)
    extra = tl.zeros((BM, MORE if MORE else 1), tl.float32)
    largest, total, result, extra = keys_between(
        start, whole, q, more, key, value, largest, total, result, extra, rm, rd, rx,
        KEYS, BN, WIDTH, ROW, MORE, WHOLE, WHOLE_MORE, CAUSAL, False,
    )  # fmt: skip
    if CAUSAL or not EVEN_N:
        largest, total, result, extra = keys_between(
            whole, end, q, more, key, value, largest, total, result, extra, rm, rd, rx,
            KEYS, BN, WIDTH, ROW, MORE, WHOLE, WHOLE_MORE, CAUSAL, True,
        )  # fmt: skip
    out += rm[:, None] * (OUT_ROW * WIDTH)
    if SPLIT > 1:
        inside = (rm[:, None] < QUERIES) & (rd[None, :] < WIDTH)
        tile = entry * tl.num_programs(0) + block
        join(arrived + tile, out + rd[None, :], inside, parts, tile, largest, total, result, BM, BLOCK_D, SPLIT)
    else:
        stored(out, result / total[:, None], rm[:, None], rd[None, :], QUERIES, WIDTH, WHOLE, EVEN_M)
        if MORE:
            stored(out, extra / total[:, None], rm[:, None], rx[None, :], QUERIES, WIDTH, WHOLE_MORE, EVEN_M)


@triton.jit
def loaded(
    tensor, rows, columns, COUNT, WIDTH: tl.constexpr, ROW: tl.constexpr, WHOLE: tl.constexpr, MASKED: tl.constexpr
):
    """A block of a tensor. WHOLE: none of the columns is beyond the head; MASKED: some rows are beyond the last."""
    places = rows * (ROW * WIDTH) + columns
    if MASKED:
        block = tl.load(tensor + places, mask=(rows < COUNT) & (columns < WIDTH), other=0.0)
    elif WHOLE:
        block = tl.load(tensor + places)
    else:
        block = tl.load(tensor + places, mask=columns < WIDTH, other=0.0)
    return block


@triton.jit
def stored(out, block, rows, columns, QUERIES, WIDTH: tl.constexpr, WHOLE: tl.constexpr, EVEN_M: tl.constexpr):
    block = block.to(out.dtype.element_ty)
    if WHOLE and EVEN_M:
        tl.store(out + columns, block)
    else:
        tl.store(out + columns, block, mask=(rows < QUERIES) & (columns < WIDTH))


@triton.jit
def keys_between(
    start,
    end,
    q,
    more,
    key,
    value,
    largest,
    total,
    result,
    extra,
    rm,
    rd,
    rx,
    KEYS,
    BN: tl.constexpr,
    WIDTH: tl.constexpr,
    ROW: tl.constexpr,
    MORE: tl.constexpr,
    WHOLE: tl.constexpr,
    WHOLE_MORE: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
):
    """What these keys add."""
    SCALE: tl.constexpr = 1.4426950408889634 / WIDTH**0.5  # powers of two are what the chip has: log2(e) goes into it
    for first in range(start, end, BN):
        rn = first + tl.arange(0, BN)
        k = loaded(key, rn[None, :], rd[:, None], KEYS, WIDTH, ROW, WHOLE, MASKED)
        scores = tl.dot(q, k)
        if MORE:
            k = loaded(key, rn[None, :], rx[:, None], KEYS, WIDTH, ROW, WHOLE_MORE, MASKED)
            scores = tl.dot(more, k, scores)
        if MASKED:
            seen = rn[None, :] < KEYS
            if CAUSAL:
                seen = seen & (rn[None, :] <= rm[:, None])
            scores = tl.where(seen, scores, float("-inf"))
        now = tl.maximum(largest, tl.max(scores, 1) * SCALE)
        weights = tl.math.exp2(scores * SCALE - now[:, None])
        shrink = tl.math.exp2(largest - now)
        total = total * shrink + tl.sum(weights, 1)
        v = loaded(value, rn[:, None], rd[None, :], KEYS, WIDTH, ROW, WHOLE, MASKED)
        weights = weights.to(v.dtype)
        result = tl.dot(weights, v, result * shrink[:, None])
        if MORE:
            v = loaded(value, rn[:, None], rx[None, :], KEYS, WIDTH, ROW, WHOLE_MORE, MASKED)
            extra = tl.dot(weights, v, extra * shrink[:, None])
        largest = now
    return largest, total, result, extra


@triton.jit
def join(
    arrived,
    out,
    inside,
    parts,
    tile,
    largest,
    total,
    result,
    BM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """Workgroups that share the keys of a tile leave their parts; the last of them puts all together, and leaves the
    counter as it was."""
    SIZE: tl.constexpr = BM * (BLOCK_D + 2)
    rows, places = tl.arange(0, BM), tl.arange(0, BM)[:, None] * BLOCK_D + tl.arange(0, BLOCK_D)[None, :]
    parts += tile * (SPLIT * SIZE)
    mine = parts + tl.program_id(2) * SIZE
    tl.store(mine + places, result, cache_modifier=".cg")
    tl.store(mine + BM * BLOCK_D + rows, largest, cache_modifier=".cg")
    tl.store(mine + BM * BLOCK_D + BM + rows, total, cache_modifier=".cg")
    tl.debug_barrier()
    before = tl.atomic_add(arrived, 1, sem="acq_rel")
    if before == SPLIT - 1:
        tl.debug_barrier()
        top = tl.full((BM,), float("-inf"), tl.float32)
        for part in range(SPLIT):
            top = tl.maximum(top, tl.load(parts + part * SIZE + BM * BLOCK_D + rows, cache_modifier=".cg"))
        whole = tl.zeros((BM,), tl.float32)
        joined = tl.zeros((BM, BLOCK_D), tl.float32)
        for part in range(SPLIT):
            one = parts + part * SIZE
            share = tl.math.exp2(tl.load(one + BM * BLOCK_D + rows, cache_modifier=".cg") - top)
            whole += share * tl.load(one + BM * BLOCK_D + BM + rows, cache_modifier=".cg")
            joined += share[:, None] * tl.load(one + places, cache_modifier=".cg")
        tl.store(out, (joined / whole[:, None]).to(out.dtype.element_ty), mask=inside)
        tl.store(arrived, 0)
