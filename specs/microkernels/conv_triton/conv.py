"""A convolution for GPUs in Triton, channels last: a matrix product of pixels x (taps x channels) and filters."""

import triton
import triton.language as tl
from epilogue import put


@triton.jit
def conv_triton(
    image,
    weights,
    bias,
    residual,
    arrived,
    out,
    parts,
    N: tl.constexpr,
    H: tl.constexpr,
    W: tl.constexpr,
    C: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    F: tl.constexpr,
    STRIDE_H: tl.constexpr,
    STRIDE_W: tl.constexpr,
    DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr,
    PAD_H: tl.constexpr,
    PAD_W: tl.constexpr,
    HO: tl.constexpr,
    WO: tl.constexpr,
    BM: tl.constexpr,
    BN: tl.constexpr,
    MORE: tl.constexpr,
    BK: tl.constexpr,
    SPLIT: tl.constexpr,
    CLIP_LOW: tl.constexpr,
    CLIP_HIGH: tl.constexpr,
    LOW_BITS: tl.constexpr,
    HIGH_BITS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    FACTOR_BITS: tl.constexpr,
):
    M: tl.constexpr = N * HO * WO
    TAPS: tl.constexpr = KH * KW
    PADDED: tl.constexpr = PAD_H + PAD_W > 0
    # A step is within one tap, or it goes over their ends.
    ONE_TAP: tl.constexpr = C % BK == 0
    STEPS: tl.constexpr = (TAPS * C + BK - 1) // BK
    EVEN: tl.constexpr = (TAPS * C) % BK == 0
    columns = tl.cdiv(F, BN + MORE)
    tile = tl.program_id(0)
    first = tile % columns * (BN + MORE)
    rm, rk = tile // columns * BM + tl.arange(0, BM), tl.arange(0, BK)
    # Pixels behind the last are read as the last, and not stored.
    pixel = tl.minimum(rm, M - 1)
    if TAPS == 1 and STRIDE_H * STRIDE_W == 1 and not PADDED:
        top, left, start = pixel, pixel, pixel * C
    else:
        top = pixel // WO % HO * STRIDE_H - PAD_H
        left = pixel % WO * STRIDE_W - PAD_W
        start = ((pixel // (HO * WO) * H + top) * W + left) * C
    BY_BITS: tl.constexpr = PADDED and ONE_TAP and TAPS <= 32
    bits = taps_within(top, left, H, W, KH, KW, DILATION_H, DILATION_W) if BY_BITS else 0
    pa = image + start[:, None] + (rk[None, :] if ONE_TAP else 0)
    rn, rx = first + tl.arange(0, BN), first + BN + tl.arange(0, MORE if MORE else BN)
    pb, px = weights + rk[:, None] * F + rn[None, :], weights + rk[:, None] * F + rx[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    extra = tl.zeros((BM, MORE if MORE else 1), tl.float32)
    each: tl.constexpr = (STEPS + SPLIT - 1) // SPLIT
    begin = tl.program_id(1) * each if SPLIT > 1 else 0
    end = tl.minimum(begin + each, STEPS) if SPLIT > 1 else STEPS
    for step in range(begin, end):
        if ONE_TAP:
            tap = step // (C // BK)
            y, x = tap // KW * DILATION_H, tap % KW * DILATION_W
            places = pa + ((y * W + x) * C + step % (C // BK) * BK)
            if BY_BITS:
                a = tl.load(places, mask=((bits >> tap) & 1)[:, None] != 0, other=0.0)
            elif PADDED:
                there = (top + y >= 0) & (top + y < H) & (left + x >= 0) & (left + x < W)
                a = tl.load(places, mask=there[:, None], other=0.0)
            else:
                a = tl.load(places)
        else:
            k = step * BK + rk
            y, x = k // C // KW * DILATION_H, k // C % KW * DILATION_W
            places = pa + ((y * W + x) * C + k % C)[None, :]
            there = (k < TAPS * C)[None, :]
            if PADDED:
                there &= (top[:, None] + y[None, :] >= 0) & (top[:, None] + y[None, :] < H)
                there &= (left[:, None] + x[None, :] >= 0) & (left[:, None] + x[None, :] < W)
            if EVEN and not PADDED:
                a = tl.load(places)
            else:
                a = tl.load(places, mask=there, other=0.0)
        b = weights_at(pb + step * (BK * F), rn, rk, TAPS * C - step * BK, F, EVEN, F % (BN + MORE) == 0)
        total = tl.dot(a, b, total)
        if MORE:
            b = weights_at(px + step * (BK * F), rx, rk, TAPS * C - step * BK, F, EVEN, F % (BN + MORE) == 0)
            extra = tl.dot(a, b, extra)
    WHOLE: tl.constexpr = (M % BM == 0) and (F % (BN + MORE) == 0)
    if SPLIT > 1:
        # Workgroups that share a sum leave their parts; the last of them adds them up, always in the same order, and
        # leaves the counter as it was.
        parts += tile * (SPLIT * BM * BN) + tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
        tl.store(parts + tl.program_id(1) * (BM * BN), total, cache_modifier=".cg")
        tl.debug_barrier()
        if tl.atomic_add(arrived + tile, 1, sem="acq_rel") == SPLIT - 1:
            tl.debug_barrier()
            joined = tl.zeros((BM, BN), tl.float32)
            for part in range(SPLIT):
                joined += tl.load(parts + part * (BM * BN), cache_modifier=".cg")
            finish(
                joined, bias, residual, out, rm, rn, M, F, WHOLE,
                CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS,
            )  # fmt: skip
            tl.store(arrived + tile, 0)
    else:
        finish(
            total, bias, residual, out, rm, rn, M, F, WHOLE,
            CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS,
        )  # fmt: skip
        if MORE:
            finish(
                extra, bias, residual, out, rm, rx, M, F, WHOLE,
                CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS,
            )  # fmt: skip


@triton.jit
def taps_within(
    top,
    left,
    H: tl.constexpr,
    W: tl.constexpr,
    KH: tl.constexpr,
    KW: tl.constexpr,
    DILATION_H: tl.constexpr,
    DILATION_W: tl.constexpr,
):
    """Which taps of each pixel lie in the image, as bits: found out once."""
    bits = tl.zeros_like(top)
    for tap in tl.static_range(KH * KW):
        y, x = top + tap // KW * DILATION_H, left + tap % KW * DILATION_W
        bits |= ((y >= 0) & (y < H) & (x >= 0) & (x < W)).to(tl.int32) << tap
    return bits


@triton.jit
def weights_at(places, rn, rk, left, F: tl.constexpr, EVEN: tl.constexpr, EVEN_N: tl.constexpr):
    if EVEN and EVEN_N:
        b = tl.load(places)
    elif EVEN:
        b = tl.load(places, mask=rn[None, :] < F, other=0.0)
    elif EVEN_N:
        b = tl.load(places, mask=rk[:, None] < left, other=0.0)
    else:
        b = tl.load(places, mask=(rk[:, None] < left) & (rn[None, :] < F), other=0.0)
    return b


@triton.jit
def finish(
    total,
    bias,
    residual,
    out,
    rm,
    rn,
    M: tl.constexpr,
    F: tl.constexpr,
    EVEN: tl.constexpr,
    CLIP_LOW: tl.constexpr,
    CLIP_HIGH: tl.constexpr,
    LOW_BITS: tl.constexpr,
    HIGH_BITS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    FACTOR_BITS: tl.constexpr,
):
    places = rm[:, None] * F + rn[None, :]
    inside = (rm[:, None] < M) & (rn[None, :] < F)
    put(
        out, places, inside, EVEN, total, bias, rn[None, :], rn[None, :] < F, residual,
        CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS,
    )  # fmt: skip
