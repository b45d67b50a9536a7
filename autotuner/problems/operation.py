"""An operation that users name on command lines, in workload files and in microkernel manifests.

A new operation is one class of this kind, listed in `autotuner.problems.operations`, and its template.
"""

from __future__ import annotations

import inspect
import re
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Self, cast

import numpy as np

from autotuner.errors import UsageError
from autotuner.problems.accuracy import Array, Bound, Sums, parse_precision, sum_bound
from autotuner.problems.base import Problem, random_inputs, reference_rounds, squared, whole_inputs, widened
from autotuner.problems.dtypes import ElementType, element_type
from autotuner.problems.epilogue import NOTHING, OPERANDS, Epilogue

_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
MOST = 10**15
"""The largest size or count."""


class Operation(Problem):
    """A problem that is declared by its sizes and options."""

    kind: ClassVar[str] = ""
    """The kind of its dispatches, of `iree.mlir.Kind`; empty: their root is unknown."""
    pairs: ClassVar[tuple[tuple[str, str], ...]]
    """The (dtype, accumulator) pairs that it can be tuned in, on chips that have them."""
    routes: ClassVar[tuple[str, ...]] = ()
    """The stock routes of a single problem on processors, by settings."""
    priors: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The routes that a whole model with it is tried on first: what has won before on a `gpu` and on a `host`, of which
    one architecture may have others before. Those at the same place are one route for a model of several operations.

    The figures behind the order are in docs/measured.md and, for Neoverse, of a ResNet-50, an Inception and a
    SqueezeNet: there im2col with data tiling is 30 times as fast as the default. Ukernels gain a tenth on the
    SqueezeNet, nothing on the ResNet-50."""
    layouts: ClassVar[tuple[str, ...]]
    usual_layout: ClassVar[str] = ""
    """The default layout of manifests; empty: they must name one."""
    letters: ClassVar[Mapping[str, str]]
    """The operands by the names that manifests use, in the problem's order, the output last; each with all the letters
    that a layout of it may have. Those of an epilogue are there where a problem has it."""
    named: ClassVar[str]
    """A regular expression of its problems' names, whose groups are arguments of `parse`."""
    dtype: str
    f8: str = ""
    """The MLIR type that `f8` means."""
    layout: str = ""
    out: str = ""
    """The type that the accumulated result is rounded to; empty: it stays as it is."""
    epilogue: Epilogue = NOTHING

    @property
    def operand_names(self) -> tuple[str, ...]:
        """The names of `operands`, in their order."""
        return tuple(name for name in self.letters if name not in OPERANDS or name in self.epilogue.operands)

    @classmethod
    @abstractmethod
    def parse(cls, *args: Any, **words: Any) -> Self:
        """Reads and checks the command line's words. Each operation has parameters of its own: its options."""

    @property
    @abstractmethod
    def acc(self) -> str:
        """The accumulator's type."""

    @property
    def types(self) -> tuple[str, str]:
        return self.dtype, self.acc

    @property
    def element(self) -> ElementType:
        """The inputs' type."""
        return element_type(self.f8 if self.dtype == "f8" else self.dtype)

    def with_f8(self, element: str) -> Self:
        return self._with(f8=element) if self.dtype == "f8" else self

    def allowing(self, precision: str | None) -> Self:
        return self._with(allow=parse_precision(precision, dtype=self.dtype, acc=self.acc))

    def inputs(self, seed: int) -> tuple[Array, ...]:
        return random_inputs(self.operands[:-1], seed)

    def _with(self, **changes: object) -> Self:
        changed: Self = replace(cast(Any, self), **changes)
        return changed

    @classmethod
    def of_name(cls, name: str) -> Self | None:
        """The problem of this name; None: there is none."""
        found = re.fullmatch(cls.named, name)
        with suppress(UsageError):
            problem = cls._of_words({word: text for word, text in found.groupdict().items() if text}) if found else None
            return problem if problem is not None and problem.name == name else None
        return None

    @classmethod
    def _of_words(cls, words: Mapping[str, str]) -> Self:
        """Reads the words of a name."""
        layout = next((one for one in cls.layouts if one.startswith(words["layout"])), "")
        return cls.from_words({**words, "layout": layout, "epilogue": Epilogue.words(words.get("epilogue", ""))})

    def views(self) -> tuple[Operation, ...]:
        """It, and other operations that compute the same from the same memory."""
        return (self,)

    @classmethod
    @abstractmethod
    def smallest(cls) -> Self:
        """The smallest problem, for what all have in common."""

    @abstractmethod
    def variables(self) -> Mapping[str, int]:
        """Its sizes by their names in manifests."""

    @abstractmethod
    def dimensions(self, operand: str) -> str:
        """A letter for each dimension of an operand."""

    def macros(self) -> Mapping[str, int]:
        """The macros of its layout and epilogue in kernel sources."""
        return self.epilogue.numbers()

    @staticmethod
    def spelled(operand: str, layout: str) -> str:
        """A layout in the letters of `dimensions`."""
        del operand
        return layout

    def permutation(self, operand: str, layout: str) -> tuple[int, ...] | None:
        """The permutation of an operand's dimensions to this layout; None: it has other dimensions.

        A batch or group that the layout leaves out stays outermost.
        """
        have = self.dimensions(operand)
        want = self.spelled(operand, layout)
        if have[0] in "bg" and have[0] not in want:
            want = have[0] + want
        if sorted(have) != sorted(want):
            return None
        return tuple(have.index(letter) for letter in want)

    @classmethod
    def options(cls) -> tuple[str, ...]:
        """Its command-line options besides the shape."""
        return tuple(name for name in cls._words() if name != "shape")

    @classmethod
    def from_words(cls, words: Mapping[str, str]) -> Self:
        """Reads options as text, from a file."""
        known = cls._words()
        for name, parameter in known.items():
            if parameter.default is inspect.Parameter.empty and name not in words:
                raise UsageError(f"{cls.op} needs a {name}.", remedy=f"Give its {name} too.")
        return cls.parse(**{name: _value(name, text, known[name].default) for name, text in words.items()})

    @classmethod
    def _words(cls) -> dict[str, inspect.Parameter]:
        return dict(inspect.signature(cls.parse).parameters)


class Product(Operation):
    """An operation of sums of products with an epilogue: its reference, and the error bound."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """The number of products in each sum."""

    @abstractmethod
    def plain(self, left: Array, right: Array) -> Array:
        """The sums of products of the two operands."""

    def broadcast(self, more: tuple[Array, ...]) -> tuple[Array, ...]:
        """An operand in a shape that can be added to the sums."""
        return more

    def reference(self, inputs: tuple[Array, ...]) -> Array:
        inputs = self.meant(inputs)
        return self.epilogue.finished(self._sums_of(widened(inputs, flops=self.flops)))

    def _sums_of(self, inputs: tuple[Array, ...]) -> Array:
        """The sums with bias and residual."""
        return sum(self.broadcast(inputs[2:]), self.plain(*inputs[:2]))

    def meant(self, inputs: tuple[Array, ...]) -> tuple[Array, ...]:
        """The factors and what is added, as numbers."""
        return inputs

    def bound(self, inputs: tuple[Array, ...], reference: Array) -> Bound:
        inputs = self.meant(inputs)
        spread = np.sqrt(self._sums_of(squared(inputs)))
        rounds = reference_rounds(inputs, flops=self.flops)
        sums = self._sums_of(widened(inputs, flops=self.flops)) if self.epilogue.finishes else reference
        bound = sum_bound(sums, spread, self._sums, rounded_reference=rounds)
        return self.epilogue.bound(bound, sums, reference, out=self._sums.out)

    def whole_inputs(self, seed: int) -> tuple[Array, ...] | None:
        return None if self.epilogue.activation else whole_inputs(self.operands[:-1], self._sums, seed)

    @property
    def _sums(self) -> Sums:
        length = self.depth + len(self.epilogue.operands)
        return Sums(length, self.element, self.acc, self.out or self.acc, self.allow)


def _value(name: str, text: str, default: object) -> str | int | bool:
    """An option's value in the type of its default."""
    if isinstance(default, bool):
        if text.lower() not in _TRUTH:
            raise UsageError(f"{name} {text[:20]!r} is neither true nor false.")
        return _TRUTH[text.lower()]
    return whole_number(text, name) if isinstance(default, int) else text.lower()


def whole_number(text: str, name: str) -> int:
    """A positive whole number."""
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or not 0 < int(text) <= MOST:
        raise UsageError(f"{name} {text[:20]!r} is not a positive whole number.")
    return int(text)
