"""What the kernels in Triton share: how their sums become results.

Sources find it by `from epilogue import put`; those in Gluon, Triton's language of layouts and barriers, by
`from epilogue import put_gluon as put`.
"""

import triton
import triton.language as tl
from triton.experimental import gluon


@triton.constexpr_function
def number(bits):
    """The f32 that has these bits; it is finite."""
    exponent, fraction = bits >> 23 & 255, (bits & (1 << 23) - 1) / 2.0**23
    size = (fraction + (1.0 if exponent else 0.0)) * 2.0 ** (max(exponent, 1) - 127)
    return -size if bits >> 31 else size


def _put(
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
    ACTIVATION: tl.constexpr,
    FACTOR_BITS: tl.constexpr,
    others=None,
):
    """clip(sums + bias + residual), or an activation of that, into these places of `out`, in f32 up to the store.

    A bias or residual may be None. With `others`, that times these: the sums are gates.

    `inside` says which places there are, unless all are (WHOLE). `channels` are places of the bias, in a shape that
    goes with that of the sums; `known`, which of them there are.
    """
    value = sums
    if bias is not None:
        value += tl.load(bias + channels, mask=known, other=0.0).to(tl.float32)
    if residual is not None:
        value += tl.load(residual + places, mask=inside, other=0.0).to(tl.float32)
    if CLIP_LOW:
        value = tl.maximum(value, number(LOW_BITS), propagate_nan=tl.PropagateNan.ALL)
    if CLIP_HIGH:
        value = tl.minimum(value, number(HIGH_BITS), propagate_nan=tl.PropagateNan.ALL)
    # x * (1 + tanh(y)) / 2 is x * sigmoid(2 y). Half of erfc is a power of two whose exponent is a polynomial, good to
    # 2e-7: the library's erf has more instructions, as have others by a quotient.
    if ACTIVATION == 1:
        size = tl.abs(value)
        tail = (-1e-6 * size + 2.809349249e-05) * size - 0.00068854891668
        tail = ((tail * size + 0.0078020218107) * size - 0.053002368086) * size - 0.45904730179
        tail = (tail * size - 1.1511236555) * size - 0.99999966318
        tail = tl.math.exp2(tail)
        value *= tl.where(value >= 0.0, 1.0 - tail, tail)
    elif ACTIVATION == 2:
        bent = (-2.0 * number(FACTOR_BITS)) * (value + 0.044715 * value * value * value)
        value = value / (1.0 + tl.math.exp(bent))
    elif ACTIVATION == 3:
        value = value / (1.0 + tl.math.exp(-value))
    elif ACTIVATION == 4:
        value *= tl.clamp(value + 3.0, 0.0, 6.0, propagate_nan=tl.PropagateNan.ALL) * (1.0 / 6.0)
    elif ACTIVATION == 5:
        value = 1.0 / (1.0 + tl.math.exp(-value))
    elif ACTIVATION == 6:
        value = tl.clamp(value + 3.0, 0.0, 6.0, propagate_nan=tl.PropagateNan.ALL) * (1.0 / 6.0)
    if others is not None:
        value *= others
    if WHOLE:
        tl.store(out + places, value.to(out.dtype.element_ty))
    else:
        tl.store(out + places, value.to(out.dtype.element_ty), mask=inside)


put = triton.jit(_put)
put_gluon = gluon.jit(_put)
