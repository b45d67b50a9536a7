"""C = A·B, batched or not, in four layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from autotuner.errors import UsageError
from autotuner.problems.accuracy import Array, Precision, Sums
from autotuner.problems.base import Operand, parse_dims, refuse_if_too_large
from autotuner.problems.dtypes import (
    MIXED_NAMES,
    PAIRS,
    SCALED_NAMES,
    ElementType,
    bf8_of,
    element_type,
    parse_accumulator,
    parse_dtype,
    parse_rounded,
)
from autotuner.problems.epilogue import NOTHING, TURN, Epilogue, refuse_epilogue
from autotuner.problems.operation import Product
from autotuner.problems.scales import SCALINGS, Scaling
from autotuner.system.process import PIECE, in_parts

LAYOUTS = ("nn", "nt", "tn", "tt")
_OF_THE_CHIP = ("f8", "f8b128", "f8row", *MIXED_NAMES)
"""Types whose numbers are the chip's own f8, or the bf8 beside it."""


@dataclass(frozen=True)
class Gemm(Product):
    """A is MxK (layout n.) or KxM (t.); B is KxN (.n) or NxK (.t); C is MxN in the accumulator's type, or rounded.

    Where half of the columns are gates, C has the other half. Numbers that share scales are M and N rows (of blocks),
    with their scales behind them; they are in layout nt.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    dtype: str = "f16"
    acc: str = "f32"
    layout: str = "nn"
    out: str = ""
    f8: str = "f8E4M3FN"
    allow: Precision = ""
    epilogue: Epilogue = NOTHING

    op = "gemm"
    kind = "contraction"
    template = "gemm.mlir.j2"
    named = (
        r"gemm_(?:(?P<batch>\d+)x)?(?P<shape>\d+x\d+x\d+)_(?P<dtype>[a-z0-9]+)_(?P<acc>[a-z0-9]+)"
        r"(?:_(?P<out>f16|bf16))?_(?P<layout>[nt]{2})(?:_(?P<epilogue>\w+))?"
    )
    layouts = LAYOUTS
    pairs = (*PAIRS, *((name, "f32") for name in (*SCALED_NAMES, *MIXED_NAMES)))
    routes: ClassVar[tuple[str, ...]] = (
        "data-tiling",
        "data-tiling+ukernels",
        "data-tiling+inner-tiled",
        "global-data-tiling",
        "global-data-tiling+ukernels",
        "global-data-tiling+inner-tiled",
    )
    priors: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "aarch64": ("data-tiling+ukernels", "data-tiling"),
        "host": (
            "data-tiling+ukernels",
            "global-data-tiling+ukernels",
            "data-tiling+ukernels",
            "data-tiling+ukernels",
        ),
        "gpu": ("O3", "data-tiling", "aggressive-fusion"),
    }
    letters: ClassVar[Mapping[str, str]] = {"lhs": "bmk", "rhs": "bkn", "bias": "n", "residual": "bmn", "out": "bmn"}

    @classmethod
    def parse(
        cls,
        *,
        shape: str,
        dtype: str = "f16",
        batch: int = 1,
        acc: str | None = None,
        layout: str = "",
        out: str | None = None,
        epilogue: str = "",
    ) -> Self:
        """Reads and checks the command line's words."""
        m, n, k = parse_dims(shape, names="MxNxK")
        (checked_batch,) = parse_dims(str(batch), names="B", option="--batch")
        kind = parse_dtype(dtype, more=(*SCALED_NAMES, *MIXED_NAMES))
        layout = layout or ("nt" if kind in SCALED_NAMES else "nn")
        if layout not in LAYOUTS:
            raise UsageError(f"unknown layout {layout!r}.", remedy=f"Choose one of: {', '.join(LAYOUTS)}.")
        gemm = cls(m, n, k, checked_batch, kind, parse_accumulator(acc, dtype=kind), layout)
        gemm = replace(gemm, out=parse_rounded(out, acc=gemm.acc), epilogue=Epilogue.parse(epilogue))
        refuse_epilogue(gemm.epilogue, element_type(gemm.acc))
        gemm._refuse_scaling()
        if gemm.epilogue.gated and n % (2 * TURN):
            remedy = f"Give a multiple of {2 * TURN}: {TURN} columns of gates and {TURN} that they are for take turns."
            raise UsageError(f"--shape {shape}: {n} columns have no gates.", remedy=remedy)
        refuse_if_too_large(gemm)
        return gemm

    @classmethod
    def smallest(cls) -> Self:
        return cls(1, 1, 1)

    @property
    def scaling(self) -> Scaling | None:
        """The scales of its numbers, if they have some."""
        return SCALINGS.get(self.dtype)

    def _refuse_scaling(self) -> None:
        if (scaling := self.scaling) is None:
            return
        if self.batch > 1 or self.layout != "nt":
            raise UsageError(
                f"{self.dtype} is for single products in layout nt.", remedy="Leave out --batch and --layout."
            )
        for name, size, of in (("K", self.k, scaling.block), ("N", self.n, scaling.columns)):
            if of and size % of:
                remedy = f"{self.dtype} has scales for blocks of {of}: give a multiple of it."
                raise UsageError(f"--shape: {name} is {size}.", remedy=remedy)

    @property
    def element(self) -> ElementType:
        """Of operands of two types the coarser one."""
        if self.dtype in MIXED_NAMES:
            return bf8_of(self.f8)
        return (self.scaling.own or element_type(self.f8)) if self.scaling else super().element

    @property
    def _elements(self) -> tuple[ElementType, ElementType]:
        """Those of A and B."""
        if "x" not in self.dtype:
            return self.element, self.element
        lhs, rhs = (element_type(self.f8) if name == "f8" else self.element for name in self.dtype.split("x"))
        return lhs, rhs

    def with_f8(self, element: str) -> Self:
        return replace(self, f8=element) if self.dtype in _OF_THE_CHIP else self

    @property
    def operand_names(self) -> tuple[str, ...]:
        lhs, rhs, *others = super().operand_names
        return (lhs, rhs, *(("lhs_scale", "rhs_scale") if self.scaling else ()), *others)

    def variables(self) -> Mapping[str, int]:
        transposed = {
            f"transpose_{side}": int(letter == "t") for side, letter in zip(("lhs", "rhs"), self.layout, strict=True)
        }
        sizes = {"m": self.m, "n": self.n, "k": self.k, "batch": self.batch, "rounded": int(bool(self.out))}
        types = {"element_bytes": self.element.bytes, "sums_in_f16": int(self.allow == "f16" or self.acc == "f16")}
        return {**sizes, **types, **transposed, **self.epilogue.variables()}

    def macros(self) -> Mapping[str, int]:
        turned = {f"TRANSPOSE_{side}": int(one == "t") for side, one in zip(("LHS", "RHS"), self.layout, strict=True)}
        return {**turned, **super().macros()}

    def dimensions(self, operand: str) -> str:
        if operand == "bias":
            return "n"
        lhs = "mk" if self.layout[0] == "n" else "km"
        rhs = "kn" if self.layout[1] == "n" else "nk"
        return ("b" if self.batch > 1 else "") + {"lhs": lhs, "rhs": rhs, "residual": "mn", "out": "mn"}[operand]

    @property
    def name(self) -> str:
        batch = f"{self.batch}x" if self.batch > 1 else ""
        out = f"_{self.out}" if self.out else ""
        types = f"{self.dtype}_{self.acc}{out}_{self.layout}"
        return f"gemm_{batch}{self.m}x{self.n}x{self.k}_{types}{self.epilogue.suffix}"

    @property
    def columns(self) -> int:
        """The columns of the result."""
        return self.n // 2 if self.epilogue.gated else self.n

    @property
    def depth(self) -> int:
        return self.k

    @property
    def flops(self) -> int:
        return 2 * self.batch * self.m * self.n * self.k

    def unbatched(self) -> tuple[Gemm, int]:
        if self.dtype == "f8b128":  # one block of the depth
            block = SCALINGS[self.dtype].block
            return replace(self, dtype="f8", k=block), int(self.k > block)
        return (replace(self, batch=1), 1) if self.batch > 1 else (self, 0)

    @property
    def operands(self) -> tuple[Operand, ...]:
        a = (self.m, self.k) if self.layout[0] == "n" else (self.k, self.m)
        b = (self.k, self.n) if self.layout[1] == "n" else (self.n, self.k)
        lead = (self.batch,) if self.batch > 1 else ()
        out = Operand((*lead, self.m, self.columns), element_type(self.out or self.acc))
        added = {"bias": Operand((self.n,), out.element), "residual": out}
        more = (added[name] for name in self.epilogue.operands)
        if (scaling := self.scaling) is not None:
            left = scaling.operands(self.m, self.k, self.element)
            right = scaling.operands(self.n, self.k, self.element, shared=scaling.columns)
            return (left[0], right[0], left[1], right[1], *more, out)
        lhs, rhs = self._elements
        return (Operand(lead + a, lhs), Operand(lead + b, rhs), *more, out)

    def inputs(self, seed: int) -> tuple[Array, ...]:
        arrays = super().inputs(seed)
        if (scaling := self.scaling) is None:
            return arrays
        rng = np.random.default_rng(seed)
        factors = zip(self.operands[:4], arrays[:4], strict=True)
        return (*(scaling.random(operand, array, rng) for operand, array in factors), *arrays[4:])

    def whole_inputs(self, seed: int) -> tuple[Array, ...] | None:
        arrays = super().whole_inputs(seed)
        if arrays is None or (scaling := self.scaling) is None:
            return arrays
        rng = np.random.default_rng(seed)
        factors = (scaling.whole(operand, self.element, self._sums, rng) for operand in self.operands[:4])
        return (*factors, *arrays[4:])

    def meant(self, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        if (scaling := self.scaling) is None:
            return inputs
        left, right, left_scales, right_scales, *more = inputs
        return (scaling.values(left, left_scales), scaling.values(right, right_scales), *more)

    @property
    def _sums(self) -> Sums:
        sums = super()._sums
        # The sum of each block is rounded twice more where its scales are no powers of two.
        blocks = 0 if self.scaling is None else self.k // (self.scaling.block or self.k)
        return replace(sums, length=sums.length + 2 * blocks)

    def template_values(self) -> Mapping[str, object]:
        a, b, *_, c = self.operands
        return {
            "epilogue": self.epilogue.template_values(),
            "rank": len(c.shape),
            "channel": len(c.shape) - 1,
            "channels": self.columns,
            "shape": c.shape,
            "turn": TURN,
            "lhs": a.mlir,
            "rhs": b.mlir,
            "out": c.mlir,
            "sum": Operand((*c.shape[:-1], self.n), element_type(self.acc)).mlir,
            "rounded": self.out,
            "acc": self.acc,
            "scaling": self._scaling_values(),
            "rows": self.m,
            "columns": self.n,
            "zero": "0.0" if element_type(self.acc).is_float else "0",
            "batched": self.batch > 1,
            "transpose_lhs": self.layout[0] == "t",
            "transpose_rhs": self.layout[1] == "t",
        }

    def _scaling_values(self) -> Mapping[str, object] | None:
        if (scaling := self.scaling) is None:
            return None
        lhs, rhs, lhs_scale, rhs_scale, *_ = self.operands
        blocks = self.k // (scaling.block or self.k)
        numbers = [f"tensor<{one.shape[0]}x{blocks}x{scaling.block}x{self.element.mlir}>" for one in (lhs, rhs)]
        return {
            "mx": scaling.mx,
            "rows": not scaling.block,
            "packed": scaling.packed,
            "columns": scaling.columns,
            "element": self.element.mlir,
            "scale": scaling.scale.mlir,
            "blocks": blocks,
            "lhs": numbers[0],
            "rhs": numbers[1],
            "lhs_scale": lhs_scale.mlir,
            "rhs_scale": rhs_scale.mlir,
        }

    def plain(self, left: Array, right: Array) -> Array:
        a = left.swapaxes(-1, -2) if self.layout[0] == "t" else left
        b = right.swapaxes(-1, -2) if self.layout[1] == "t" else right
        product: Array = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
        rows = max(1, self.m * PIECE // self.flops)
        for first in in_parts(range(0, self.m, rows)):
            np.matmul(a[..., first : first + rows, :], b, out=product[..., first : first + rows, :])
        return product

    def arguments(self) -> tuple[str, ...]:
        words = ["gemm", "--shape", f"{self.m}x{self.n}x{self.k}", "--dtype", self.dtype]
        if self.batch > 1:
            words += ["--batch", str(self.batch)]
        if self.out:
            words += ["--out", self.out]
        if self.epilogue:
            words += ["--epilogue", self.epilogue.text]
        return (*words, "--acc", self.acc, "--layout", self.layout, *self.precision_arguments())
