"""Numbers that share scales: MXFP4 and MXFP8 in blocks, f8 with f32 scales in blocks of 128 or in whole rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from autotuner.problems.accuracy import Array, Sums, whole_numbers
from autotuner.problems.base import Operand
from autotuner.problems.dtypes import ElementType, element_type

_F4 = ElementType("f4E2M1FN", "f4E2M1FN", ml_dtypes.float4_e2m1fn, 4)
_E8M0 = element_type("f8E8M0FNU")


@dataclass(frozen=True, slots=True)
class Scaling:
    """The numbers and scales of a type of the command line. A's rows have scales of their own."""

    scale: ElementType
    block: int
    """The numbers along the depth that share a scale; 0: all."""
    columns: int
    """The columns of B that share one, too."""
    own: ElementType | None = None
    """The type of its numbers; None: the target's f8."""

    @property
    def mx(self) -> bool:
        """Whether it is one of OCP's, which are one operation."""
        return self.scale is _E8M0

    @property
    def packed(self) -> bool:
        """Whether two numbers are in a byte, the first in its lower half: IREE takes no such arguments."""
        return self.own is _F4

    def operands(self, rows: int, depth: int, element: ElementType, *, shared: int = 1) -> tuple[Operand, Operand]:
        """The numbers of a factor, block by block, and its scales."""
        if not self.block:
            return Operand((rows, depth), element), Operand((rows,), self.scale)
        blocks = depth // self.block
        numbers = (self.block // 2, element_type("i8")) if self.packed else (self.block, element)
        return Operand((rows, blocks, numbers[0]), numbers[1]), Operand((rows // shared, blocks), self.scale)

    def values(self, numbers: Array, scales: Array) -> Array:
        """What a factor means: a row of the depth for each row."""
        if self.packed:
            halves = numbers.view(np.uint8)[..., None] >> np.array([0, 4], np.uint8) & 15
            numbers = halves.reshape(*numbers.shape[:-1], -1).view(ml_dtypes.float4_e2m1fn)
        scales = scales.astype(np.float64).repeat(len(numbers) // len(scales), axis=0)
        return np.asarray((numbers.astype(np.float64) * scales[..., None]).reshape(len(numbers), -1))

    def random(self, operand: Operand, numbers: Array, rng: np.random.Generator) -> Array:
        """Random scales for a factor's second operand; of packed numbers any byte will do."""
        if operand.element is not self.scale:
            return numbers
        spread: Array = np.exp2(rng.integers(-2, 3, operand.shape)) if self.mx else rng.random(operand.shape) + 0.5
        return spread.astype(operand.element.numpy)

    def whole(self, operand: Operand, element: ElementType, sums: Sums, rng: np.random.Generator) -> Array:
        """Whole numbers and scales of 1 and 2, so that no sum rounds."""
        if operand.element is self.scale:
            return np.exp2(rng.integers(0, 2, operand.shape)).astype(operand.element.numpy)
        shape = (*operand.shape[:-1], self.block or operand.shape[-1])
        numbers = whole_numbers(shape, self.own or element, limit=max(sums.whole_limit // 2, 1), rng=rng)
        if not self.packed:
            return numbers
        codes = numbers.view(np.uint8)
        return (codes[..., ::2] | codes[..., 1::2] << 4).view(np.int8)


SCALINGS: Mapping[str, Scaling] = {
    "mxfp4": Scaling(_E8M0, 32, 1, _F4),
    "mxfp8": Scaling(_E8M0, 32, 1, element_type("f8E4M3FN")),
    "f8b128": Scaling(element_type("f32"), 128, 128),
    "f8row": Scaling(element_type("f32"), 0, 1),
}
"""By the dtype of the command line. MX is OCP's; of `f8b128` A has a scale a row and B one for 128 columns, as DeepSeek
has them; of `f8row` each row of A (a token) and each column of B (a channel) has one."""
