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
    CAUSAL: tl.constexpr,
    EVEN_M: tl.constexpr,
    EVEN_N: tl.constexpr,
    SPLIT: tl.constexpr,
):
    """ROW heads lie side by side in a row of what is read, OUT_ROW in one of the result. Where there are three times as
    many of the former, keys and values lie behind the queries."""
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
    inside = (rm[:, None] < QUERIES) & (rd[None, :] < WIDTH)
    places = rm[:, None] * (OUT_ROW * WIDTH) + rd[None, :]
    q_places = rm[:, None] * (ROW * WIDTH) + rd[None, :]
    if EVEN_M and BLOCK_D == WIDTH:
        q = tl.load(query + q_places)
    else:
        q = tl.load(query + q_places, mask=inside, other=0.0)
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
    largest, total, result = keys_between(
        start, whole, q, key, value, largest, total, result, rm, rd, KEYS, BN, WIDTH, ROW, BLOCK_D, CAUSAL, False
    )
    if CAUSAL or not EVEN_N:
        largest, total, result = keys_between(
            whole, end, q, key, value, largest, total, result, rm, rd, KEYS, BN, WIDTH, ROW, BLOCK_D, CAUSAL, True
        )
    if SPLIT > 1:
        tile = entry * tl.num_programs(0) + block
        join(arrived + tile, out + places, inside, parts, tile, largest, total, result, BM, BLOCK_D, SPLIT)
    elif EVEN_M and BLOCK_D == WIDTH:
        tl.store(out + places, (result / total[:, None]).to(out.dtype.element_ty))
    else:
        tl.store(out + places, (result / total[:, None]).to(out.dtype.element_ty), mask=inside)


@triton.jit
def keys_between(
    start,
    end,
    q,
    key,
    value,
    largest,
    total,
    result,
    rm,
    rd,
    KEYS,
    BN: tl.constexpr,
    WIDTH: tl.constexpr,
    ROW: tl.constexpr,
    BLOCK_D: tl.constexpr,
    CAUSAL: tl.constexpr,
    MASKED: tl.constexpr,
):
    """What these keys add."""
    for first in range(start, end, BN):
        rn = first + tl.arange(0, BN)
        k_places = rn[None, :] * (ROW * WIDTH) + rd[:, None]
        v_places = rn[:, None] * (ROW * WIDTH) + rd[None, :]
        if MASKED:
            k = tl.load(key + k_places, mask=(rn[None, :] < KEYS) & (rd[:, None] < WIDTH), other=0.0)
        elif BLOCK_D == WIDTH:
            k = tl.load(key + k_places)
        else:
            k = tl.load(key + k_places, mask=rd[:, None] < WIDTH, other=0.0)
        scores = tl.dot(q, k)
        if MASKED:
            seen = rn[None, :] < KEYS
            if CAUSAL:
                seen = seen & (rn[None, :] <= rm[:, None])
            scores = tl.where(seen, scores, float("-inf"))
        if MASKED:
            v = tl.load(value + v_places, mask=(rn[:, None] < KEYS) & (rd[None, :] < WIDTH), other=0.0)
        elif BLOCK_D == WIDTH:
            v = tl.load(value + v_places)
        else:
            v = tl.load(value + v_places, mask=rd[None, :] < WIDTH, other=0.0)
        largest, total, result = weighed(scores, v, largest, total, result, WIDTH)
    return largest, total, result


@triton.jit
def weighed(scores, v, largest, total, result, WIDTH: tl.constexpr):
    """The values by the weights of these scores. Powers of two are what the chip has: log2(e) goes into the scale."""
    SCALE: tl.constexpr = 1.4426950408889634 / WIDTH**0.5
    now = tl.maximum(largest, tl.max(scores, 1) * SCALE)
    weights = tl.math.exp2(scores * SCALE - now[:, None])
    shrink = tl.math.exp2(largest - now)
    total = total * shrink + tl.sum(weights, 1)
    result = tl.dot(weights.to(v.dtype), v, result * shrink[:, None])
    return now, total, result


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
