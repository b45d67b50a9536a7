"""A wave's registers, as numpy sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Run = Callable[[Any, Any], None]
"""Executes an instruction of a wave, which has this shared memory."""
Words = npt.NDArray[np.uint32]
_EXEC = 126


def vgprs(state: Any) -> Words:
    return np.frombuffer(state._vgpr_mv, np.uint32).reshape(-1, state.wave_size)


def agprs(state: Any) -> Words:
    view = state.accvgpr_buf.as_memoryview(force_zero_copy=True).cast("I")
    return np.frombuffer(view, np.uint32).reshape(-1, state.wave_size)


def sgprs(state: Any) -> Words:
    return np.frombuffer(state._sgpr_mv, np.uint32)


def executing(state: Any) -> npt.NDArray[np.intp]:
    """The lanes that execute."""
    bits = np.unpackbits(sgprs(state)[_EXEC : _EXEC + 2].view(np.uint8), bitorder="little")
    return np.flatnonzero(bits[: state.wave_size])
