"""What every operation must tell about itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from autotuner.errors import UsageError
from autotuner.problems.dtypes import ElementType

MAX_DIM = 1 << 20
MAX_BYTES = 1 << 36
Array = npt.NDArray[Any]


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
    def bytes(self) -> int:
        return int(np.prod(self.shape, dtype=object)) * self.element.bytes


class Problem(ABC):
    """A computation with fixed shapes: what to compile, what to feed it, and what must come out."""

    op: str
    template: str
    """The Jinja template that renders it."""

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
        """Inputs in order; the output last."""

    @property
    @abstractmethod
    def types(self) -> tuple[str, str]:
        """(dtype, accumulator) in the words of the command line."""

    @abstractmethod
    def with_f8(self, element: str) -> Problem:
        """The same problem with `f8` meaning this MLIR type."""

    @abstractmethod
    def template_values(self) -> Mapping[str, object]: ...

    @abstractmethod
    def inputs(self, seed: int) -> tuple[Array, ...]:
        """Seeded, non-trivial input arrays."""

    @abstractmethod
    def reference(self, inputs: tuple[Array, ...]) -> Array:
        """The right answer, in higher precision than the problem's own types."""

    @property
    @abstractmethod
    def tolerance(self) -> float:
        """The largest relative error ‖out − ref‖/‖ref‖ that rounding explains; 0 means exact."""

    @abstractmethod
    def arguments(self) -> tuple[str, ...]:
        """The command-line words that give this problem again."""

    def unbatched(self) -> tuple[Problem, int]:
        """The same problem for one batch entry, and how many leading batch loops that takes away."""
        return self, 0

    @property
    def bytes(self) -> int:
        return sum(o.bytes for o in self.operands)

    @property
    def output(self) -> Operand:
        return self.operands[-1]

    def describe(self) -> dict[str, object]:
        """The `problem` object of the JSON document."""
        return {"op": self.op, "name": self.name, "flops": self.flops, "bytes": self.bytes}


def parse_dims(text: str, *, names: str, option: str = "--shape") -> tuple[int, ...]:
    """`4x8x16` for names `MxNxK`: positive sizes that a machine can hold."""
    wanted = names.split("x")
    parts = text.lower().split("x")
    example = "x".join("512" for _ in wanted)
    if len(parts) != len(wanted):
        raise UsageError(f"{option} {text!r} is not {names}.", remedy=f"Give {len(wanted)} sizes, such as {example}.")
    dims = []
    for name, part in zip(wanted, parts, strict=True):
        if not (part.isascii() and part.isdigit()) or not part.strip("0"):
            raise UsageError(
                f"{option} {text!r}: {name} is {part!r}, not a positive whole number.",
                remedy=f"Give {names}, such as {example}.",
            )
        if len(part) > 20 or int(part) > MAX_DIM:
            raise UsageError(f"{option} {text!r}: {name} is larger than {MAX_DIM}.", remedy="Give a smaller shape.")
        dims.append(int(part))
    return tuple(dims)


def refuse_if_too_large(problem: Problem) -> None:
    if problem.bytes > MAX_BYTES:
        raise UsageError(
            f"{problem.name} needs {problem.bytes / 2**30:.0f} GiB for its tensors.",
            remedy=f"The limit is {MAX_BYTES >> 30} GiB: give a smaller shape.",
        )
