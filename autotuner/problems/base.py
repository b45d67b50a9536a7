"""The interface of a problem: what to compile, its inputs, and its right results."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from autotuner.errors import UsageError
from autotuner.problems.accuracy import Array, Bound, Precision, Sums, lower_precision, whole_numbers
from autotuner.problems.dtypes import ElementType

if TYPE_CHECKING:  # where modules only run there are no bindings of the compiler
    from autotuner.iree.mlir import Dispatch, Kind

FUNCTION = "main"
"""The name of a problem's only function."""
MAX_DIM = 1 << 20
MAX_BYTES = 1 << 36
_EXACT_REFERENCE_FLOPS = 2e10
"""The most flops of a reference in float64; beyond, 16-bit inputs are multiplied in float32."""


@dataclass(frozen=True, slots=True)
class Operand:
    """One tensor of the problem."""

    shape: tuple[int, ...]
    element: ElementType

    @property
    def mlir(self) -> str:
        return f"tensor<{self.text}>"

    @property
    def text(self) -> str:
        """The form that MLIR types and the --input flags of IREE's tools share: 4x8xf32."""
        return "x".join([*map(str, self.shape), self.element.mlir])

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        return self.elements * self.element.bytes


_SPANNED: Mapping[Kind, tuple[tuple[str, ...], ...]] = {
    "contraction": (("batch", "m", "k"), ("batch", "n", "k"), ("batch", "m", "n")),
    "convolution": (("depth", "channel", "filter", "input"), ("batch", "image", "channel", "depth")),
    "attention": (("batch", "k2", "k1"), ("batch", "m", "n")),
}
"""The roles whose loops go through an operand, and last through the result; of a convolution the weights' alone, for
its image is padded."""


class Problem(ABC):
    """A computation with fixed shapes: what to compile, what to feed it, and what must come out."""

    op: str
    repeatable = True
    """Its dispatches may be repeated: no result is written over an input."""
    allow: Precision
    """The precision that its user accepts below that of the types."""
    flags: tuple[str, ...] = ()
    """The flags that iree-compile needs to read its text."""
    template: str
    """The Jinja template that renders it."""
    results: int = 1
    """The number of its results."""

    @property
    @abstractmethod
    def name(self) -> str:
        """A name that can stand in a path and in MLIR."""

    @property
    @abstractmethod
    def flops(self) -> int: ...

    @property
    @abstractmethod
    def operands(self) -> tuple[Operand, ...]:
        """The inputs in order, then the results."""

    @property
    @abstractmethod
    def types(self) -> tuple[str, str]:
        """(dtype, accumulator) in the words of the command line."""

    @abstractmethod
    def with_f8(self, element: str) -> Problem:
        """The problem with `f8` as this MLIR type."""

    @abstractmethod
    def template_values(self) -> Mapping[str, object]: ...

    @abstractmethod
    def inputs(self, seed: int) -> tuple[Array, ...]:
        """Seeded, non-trivial input arrays."""

    @property
    def knows(self) -> bool:
        """Whether its right results are known without a run of IREE's default."""
        return True

    @abstractmethod
    def reference(self, inputs: tuple[Array, ...]) -> Array | None:
        """The right results, in higher precision than the problem's types; None: those of IREE's default."""

    @abstractmethod
    def bound(self, inputs: tuple[Array, ...], reference: Array) -> Bound:
        """The error that rounding explains between a result and the reference."""

    @abstractmethod
    def whole_inputs(self, seed: int) -> tuple[Array, ...] | None:
        """Whole numbers on which the sums are exact in any order; None when there are none, or when all inputs are."""

    def whole_bound(self, inputs: tuple[Array, ...], reference: Array) -> Bound:
        """The allowed error on whole numbers, against the reference rounded to the result's type."""
        del inputs, reference
        return Bound(0.0)

    @abstractmethod
    def allowing(self, precision: str | None) -> Self:
        """The problem with results of that precision accepted."""

    def accepting(self, precision: Precision) -> Self:
        """The same, if that precision is below these types'."""
        dtype, acc = self.types
        return self.allowing(precision) if lower_precision(precision, dtype=dtype, acc=acc) else self

    @abstractmethod
    def arguments(self) -> tuple[str, ...]:
        """Its command-line arguments."""

    def excess(self, root: Dispatch) -> float:
        """How much larger than its own the operands of an operation are, which may be its root: 1 where they are the
        same, a little more where packing rounds them up to tiles, infinite where it cannot be its root."""
        *inputs, out = (math.prod(size for role in roles for size in root.sizes(role)) for roles in _SPANNED[root.kind])
        own = self.operands[1].elements
        ratios = [out / self.outputs[0].elements, min((n / own for n in inputs if n >= own), default=0.0)]
        ratios += [2 * root.work / self.flops] * (root.kind != "attention")
        found = math.prod(ratios)
        return found if min(ratios) >= 1 and (root.packed or found == 1) else math.inf

    def resolved(self, root: Dispatch) -> Dispatch:
        """The root operation of its dispatch, with sizes that only the problem knows."""
        return root

    def unbatched(self) -> tuple[Problem, int]:
        """The problem of one batch entry or group, and the number of loops less."""
        return self, 0

    @property
    def bytes(self) -> int:
        return sum(o.bytes for o in self.operands)

    @property
    def outputs(self) -> tuple[Operand, ...]:
        return self.operands[-self.results :]

    @property
    def output(self) -> Operand:
        """The result; of several, the one that `viewing` chose."""
        return self.operands[-1]

    def viewing(self, result: int) -> Problem:
        """The problem with `output`, `bound` and `whole_bound` of this result."""
        del result  # most have one
        return self

    def describe(self) -> dict[str, object]:
        """The `problem` object of the JSON document."""
        allowed = {"allow_precision": self.allow} if self.allow else {}
        return {"op": self.op, "name": self.name, "flops": self.flops, "bytes": self.bytes, **allowed}

    def precision_arguments(self) -> tuple[str, ...]:
        """The command-line arguments of the accepted precision."""
        return ("--allow-precision", self.allow) if self.allow else ()


_EXAMPLES = {
    "MxNxK": "512x512x512",
    "NxHxWxC": "2x32x32x1280",
    "KHxKWxF": "3x3x1280",
    "BxHxSQxSKVxD": "1x8x1024x1024x64",
}
"""Example sizes for messages."""


def sizes_in(text: str) -> list[str]:
    """The sizes in a text, separated by `x`, commas or stars."""
    return re.split(r"\s*[x×,*]\s*", text.strip().lower())


def parse_dims(text: str, *, names: str, option: str = "--shape", least: int = 1) -> tuple[int, ...]:
    """`4x8x16` for names `MxNxK`: sizes that a machine can hold, positive unless `least` is 0."""
    wanted = names.split("x")
    parts = sizes_in(text)
    example = _EXAMPLES.get(names) or "x".join("1" for _ in wanted)
    if len(parts) != len(wanted):
        raise UsageError(f"{option} {text!r} is not {names}.", remedy=f"Give {len(wanted)} sizes, such as {example}.")
    dims = []
    for name, part in zip(wanted, parts, strict=True):
        if not (part.isascii() and part.isdigit()) or (least and not part.strip("0")):
            raise UsageError(
                f"{option} {text!r}: {name} is {part!r}, not a {'positive ' if least else ''}whole number.",
                remedy=f"Give {names}, such as {example}.",
            )
        if len(part) > 20 or int(part) > MAX_DIM:
            raise UsageError(f"{option} {text!r}: {name} is larger than {MAX_DIM}.", remedy="Give a smaller shape.")
        dims.append(int(part))
    return tuple(dims)


def random_inputs(operands: Sequence[Operand], seed: int) -> tuple[Array, ...]:
    """Random inputs: uniform in [-1, 1], or over a small integer's range."""
    rng = np.random.default_rng(seed)
    arrays = []
    for operand in operands:
        if operand.element.is_float:
            array = rng.random(operand.shape, np.float32) * 2 - 1
        else:
            array = rng.integers(-127, 128, operand.shape, np.int8)
        arrays.append(array.astype(operand.element.numpy))
    return tuple(arrays)


def whole_inputs(operands: Sequence[Operand], sums: Sums, seed: int) -> tuple[Array, ...] | None:
    """Whole numbers for both factors of every product, so small that no sum of them rounds."""
    limit = sums.whole_limit
    rng = np.random.default_rng(seed)
    return tuple(whole_numbers(o.shape, o.element, limit=limit, rng=rng) for o in operands) if limit else None


def reference_rounds(inputs: Sequence[Array], *, flops: int) -> bool:
    """Whether the reference is computed in float32: for 16-bit inputs of a problem too large for float64."""
    return flops > _EXACT_REFERENCE_FLOPS and all(x.dtype.itemsize <= 2 and x.dtype.kind != "i" for x in inputs)


def widened(inputs: Sequence[Array], *, flops: int) -> tuple[Array, ...]:
    """The inputs in the reference's precision."""
    wide = np.float32 if reference_rounds(inputs, flops=flops) else np.float64
    return tuple(x.astype(wide) for x in inputs)


def squared(inputs: Sequence[Array]) -> tuple[Array, ...]:
    """The squared inputs, which give the spread of sums of products."""
    return tuple(np.square(x.astype(np.float32)) for x in inputs)


def refuse_if_too_large(problem: Problem) -> None:
    if problem.bytes > MAX_BYTES:
        raise UsageError(
            f"{problem.name} needs {problem.bytes / 2**30:.0f} GiB for its tensors.",
            remedy=f"The limit is {MAX_BYTES >> 30} GiB: give a smaller shape.",
        )
