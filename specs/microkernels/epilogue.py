"""What the kernels in Triton share: how their sums become results. Sources find it by `from epilogue import put`."""

import triton
import triton.language as tl


@triton.jit
def put(
    out,
    places,
    inside,
    WHOLE: tl.constexpr,
    sums,
    bias,
    channels,
    known,
    residual,
    CLIP_LOW: tl.constexpr,
    CLIP_HIGH: tl.constexpr,
    LOW_BITS: tl.constexpr,
    HIGH_BITS: tl.constexpr,
):
    """clip(sums + bias + residual) into these places of `out`, in f32 up to the store; a bias or residual may be None.

    `inside` says which places there are, unless all are (WHOLE). `channels` are places of the bias, in a shape that
    goes with that of the sums; `known`, which of them there are.
    """
    value = sums
    if bias is not None:
        value += tl.load(bias + channels, mask=known, other=0.0).to(tl.float32)
    if residual is not None:
        value += tl.load(residual + places, mask=inside, other=0.0).to(tl.float32)
    if CLIP_LOW:
        value = tl.maximum(value, number(value, LOW_BITS), propagate_nan=tl.PropagateNan.ALL)
    if CLIP_HIGH:
        value = tl.minimum(value, number(value, HIGH_BITS), propagate_nan=tl.PropagateNan.ALL)
    if WHOLE:
        tl.store(out + places, value.to(out.dtype.element_ty))
    else:
        tl.store(out + places, value.to(out.dtype.element_ty), mask=inside)


@triton.jit
def number(like, BITS: tl.constexpr):
    """The f32 that has these bits, as often as `like` has numbers."""
    return tl.full(like.shape, BITS, tl.uint32).to(tl.float32, bitcast=True)
