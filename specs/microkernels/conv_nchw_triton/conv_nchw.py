"""A convolution for GPUs in Triton, channels first: a matrix product of filters and (channels x taps) x pixels."""

import triton
import triton.language as tl
from epilogue import put


@triton.jit
def conv_nchw_triton(
    image,
    weights,
    bias,
    residual,
    out,
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
    BK: tl.constexpr,
    CLIP_LOW: tl.constexpr,
    CLIP_HIGH: tl.constexpr,
    LOW_BITS: tl.constexpr,
    HIGH_BITS: tl.constexpr,
    ACTIVATION: tl.constexpr,
    FACTOR_BITS: tl.constexpr,
):
    PIXELS: tl.constexpr = N * HO * WO
    TAPS: tl.constexpr = KH * KW
    DEPTH: tl.constexpr = C * TAPS
    STEPS: tl.constexpr = (DEPTH + BK - 1) // BK
    PADDED: tl.constexpr = PAD_H + PAD_W > 0
    PLAIN: tl.constexpr = TAPS * STRIDE_H * STRIDE_W == 1 and not PADDED
    rows = tl.cdiv(F, BM)
    tile = tl.program_id(0)
    rm, rn = tile % rows * BM + tl.arange(0, BM), tile // rows * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    entry, place = rn // (HO * WO), rn % (HO * WO)
    if PLAIN:
        top, left = place, place
        start = entry * (C * H * W) + place
    else:
        top, left = place // WO * STRIDE_H - PAD_H, place % WO * STRIDE_W - PAD_W
        start = entry * (C * H * W) + top * W + left
    pa = weights + rm[:, None] * DEPTH + rk[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(STEPS):
        k = step * BK + rk
        if F % BM == 0 and DEPTH % BK == 0:
            a = tl.load(pa + step * BK)
        else:
            a = tl.load(pa + step * BK, mask=(rm[:, None] < F) & (k[None, :] < DEPTH), other=0.0)
        y, x = k % TAPS // KW * DILATION_H, k % KW * DILATION_W
        places = image + start[None, :] + (k // TAPS * (H * W) + y * W + x)[:, None]
        if PIXELS % BN == 0 and DEPTH % BK == 0 and not PADDED:
            b = tl.load(places)
        else:
            there = (rn[None, :] < PIXELS) & (k[:, None] < DEPTH)
            if PADDED:
                there &= (top[None, :] + y[:, None] >= 0) & (top[None, :] + y[:, None] < H)
                there &= (left[None, :] + x[:, None] >= 0) & (left[None, :] + x[:, None] < W)
            b = tl.load(places, mask=there, other=0.0)
        total = tl.dot(a, b, total)

    places = entry[None, :] * (F * HO * WO) + rm[:, None] * (HO * WO) + place[None, :]
    inside = (rm[:, None] < F) & (rn[None, :] < PIXELS)
    WHOLE: tl.constexpr = PIXELS % BN == 0 and F % BM == 0
    put(
        out, places, inside, WHOLE, total, bias, rm[:, None], rm[:, None] < F, residual,
        CLIP_LOW, CLIP_HIGH, LOW_BITS, HIGH_BITS, ACTIVATION, FACTOR_BITS,
    )  # fmt: skip
