"""Convolutions of one to three dimensions and their gradients, as MIOpen and PyTorch have them; channels last.

Forward: results of images and filters. Data: the image's gradient, of results' gradients and filters. Weight: the
filter's gradient, of images and results' gradients. The filter is FxKD..xC, with the channels of one group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Self

import numpy as np

from autotuner.errors import UsageError
from autotuner.problems.accuracy import Array, Precision
from autotuner.problems.base import Operand, parse_dims, refuse_if_too_large, sizes_in
from autotuner.problems.dtypes import ACCUMULATORS, SUMMED, element_type, parse_dtype, parse_rounded
from autotuner.problems.operation import Product
from autotuner.system.process import in_parts

DIRECTIONS = ("forward", "data", "weight")
_MOST = 3
Sizes = tuple[int, ...]


@dataclass(frozen=True)
class ConvNd(Product):
    """One direction of a convolution with so many sizes, strides and so on as it has dimensions."""

    n: int
    sizes: Sizes
    c: int
    window: Sizes
    f: int
    stride: Sizes
    dilation: Sizes
    pad: Sizes
    groups: int = 1
    direction: str = "forward"
    dtype: str = "f16"
    f8: str = "f8E4M3FN"
    allow: Precision = ""
    out: str = ""

    op = "convnd"
    kind = "convolution"
    template = "convnd.mlir.j2"
    layouts = ("channels-last",)
    layout = "channels-last"
    pairs = SUMMED
    routes: ClassVar[tuple[str, ...]] = ("im2col", "im2col+data-tiling")
    named = (
        r"convnd_(?P<direction>forward|data|weight)_(?P<shape>[\dx]+)_(?P<filter>[\dx]+)(?:_g(?P<groups>\d+))?"
        r"(?:_s(?P<stride>[\dx]+))?(?:_d(?P<dilation>[\dx]+))?(?:_p(?P<pad>[\dx]+))?_(?P<dtype>[a-z0-9]+)"
        r"(?:_(?P<out>f16|bf16))?"
    )
    letters: ClassVar[Mapping[str, str]] = {"lhs": "ndhwcfzyx", "rhs": "ndhwcfzyx", "out": "ndhwcfzyx"}

    @classmethod
    def parse(
        cls,
        *,
        shape: str,
        filter: str,
        direction: str = "forward",
        stride: str = "",
        dilation: str = "",
        pad: str = "",
        groups: int = 1,
        dtype: str = "f16",
        out: str | None = None,
    ) -> Self:
        """Reads and checks the command line's words."""
        count = len(sizes_in(shape)) - 2
        if not 1 <= count <= _MOST:
            raise UsageError(f"--shape {shape!r} is not NxDxHxWxC.", remedy="Give one to three sizes between N and C.")
        if direction not in DIRECTIONS:
            raise UsageError(f"unknown direction {direction!r}.", remedy=f"Choose one of: {', '.join(DIRECTIONS)}.")

        def each(text: str, letter: str, option: str, default: int) -> Sizes:
            names = "x".join(letter + axis for axis in "DHW"[-count:])
            given = text or "x".join([str(default)] * count)
            return parse_dims(given, names=names, option=option, least=min(default, 1))

        axes = "x".join("DHW"[-count:])
        n, *sizes, c = parse_dims(shape, names=f"Nx{axes}xC")
        *window, f = parse_dims(filter, names=f"{'x'.join('K' + a for a in 'DHW'[-count:])}xF", option="--filter")
        (checked_groups,) = parse_dims(str(groups), names="G", option="--groups")
        if c % checked_groups or f % checked_groups:
            raise UsageError(
                f"--groups {checked_groups} does not divide {c} input and {f} output channels.",
                remedy="Give a number of groups that divides both.",
            )
        conv = cls(
            *(n, tuple(sizes), c, tuple(window), f),
            *(each(stride, "S", "--stride", 1), each(dilation, "D", "--dilation", 1), each(pad, "P", "--pad", 0)),
            groups=checked_groups,
            direction=direction,
            dtype=parse_dtype(dtype),
            out=parse_rounded(out, acc=ACCUMULATORS[parse_dtype(dtype)][0]),
        )
        if min(conv.made) < 1:
            raise UsageError(f"the filter {filter} is larger than the image {shape}.", remedy="Give more padding.")
        refuse_if_too_large(conv)
        return conv

    @classmethod
    def _of_words(cls, words: Mapping[str, str]) -> Self:
        return cls.from_words(words)

    @classmethod
    def smallest(cls) -> Self:
        return cls(1, (1,), 1, (1,), 1, (1,), (1,), (0,))

    @property
    def acc(self) -> str:
        return ACCUMULATORS[self.dtype][0]

    @property
    def made(self) -> Sizes:
        """The sizes of what the forward direction makes."""
        each = zip(self.sizes, self.window, self.stride, self.dilation, self.pad, strict=True)
        return tuple((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, d, p in each)

    @property
    def name(self) -> str:
        parts = [f"convnd_{self.direction}_{_x(self.n, *self.sizes, self.c)}", _x(*self.window, self.f)]
        parts += [f"g{self.groups}"] if self.groups > 1 else []
        for letter, values, plain in (("s", self.stride, 1), ("d", self.dilation, 1), ("p", self.pad, 0)):
            parts += [letter + _x(*values)] if set(values) != {plain} else []
        return "_".join([*parts, self.dtype, *([self.out] if self.out else [])])

    @property
    def depth(self) -> int:
        window = int(np.prod(self.window))
        of = {
            "forward": window * self.c // self.groups,
            "data": window * self.f // self.groups,
            "weight": self.n * int(np.prod(self.made)),
        }
        return of[self.direction]

    @property
    def flops(self) -> int:
        return 2 * self.n * int(np.prod(self.made)) * self.f * int(np.prod(self.window)) * self.c // self.groups

    def unbatched(self) -> tuple[ConvNd, int]:
        if self.groups == 1:
            return self, 0
        return replace(self, groups=1, c=self.c // self.groups, f=self.f // self.groups), 1

    def variables(self) -> Mapping[str, int]:
        return {"n": self.n, "c": self.c, "f": self.f, "groups": self.groups}

    def dimensions(self, operand: str) -> str:
        axes = "dhw"[-len(self.sizes) :]
        image, weights, result = f"n{axes}c", f"f{'zyx'[-len(self.sizes) :]}c", f"n{axes}f"
        letters = {"forward": (image, weights, result), "data": (result, weights, image)}
        found = letters.get(self.direction, (image, result, weights))
        return found[("lhs", "rhs", "out").index(operand)]

    @property
    def operands(self) -> tuple[Operand, ...]:
        image, weights, result = self._shapes
        shapes = {"forward": (image, weights, result), "data": (result, weights, image)}
        lhs, rhs, out = shapes.get(self.direction, (image, result, weights))
        types = self.element, self.element, element_type(self.out or self.acc)
        return tuple(Operand(shape, element) for shape, element in zip((lhs, rhs, out), types, strict=True))

    @property
    def _shapes(self) -> tuple[Sizes, Sizes, Sizes]:
        image, result = (self.n, *self.sizes, self.c), (self.n, *self.made, self.f)
        return image, (self.f, *self.window, self.c // self.groups), result

    def plain(self, left: Array, right: Array) -> Array:
        """Window place by window place; what the forward direction reads there is what the others add to or read."""
        image = left if self.direction != "data" else np.zeros(self._shapes[0], left.dtype)
        padded = np.pad(image, ((0, 0), *((p, p) for p in self.pad), (0, 0)))
        weights = right if self.direction != "weight" else np.zeros(self._shapes[1], left.dtype)
        groups, results = self.groups, left if self.direction == "data" else right
        if self.direction == "forward":
            results = np.zeros(self._shapes[2], left.dtype)
        grouped = results.reshape(*results.shape[:-1], groups, -1)
        filters = weights.reshape(groups, -1, *weights.shape[1:])
        for place in in_parts(list(product(*map(range, self.window)))):
            each = zip(place, self.dilation, self.stride, self.made, strict=True)
            window = tuple(slice(k * d, k * d + (size - 1) * s + 1, s) for k, d, s, size in each)
            view = padded[(slice(None), *window)]
            patch = view.reshape(*view.shape[:-1], groups, -1)
            at: tuple[Any, ...] = (slice(None), slice(None), *place)
            own = filters[at]
            if self.direction == "forward":
                grouped += np.einsum("...gc,gfc->...gf", patch, own)
            elif self.direction == "data":
                view += np.einsum("...gf,gfc->...gc", grouped, own).reshape(view.shape)
            else:
                rows = (one.reshape(-1, *one.shape[-2:]) for one in (grouped, patch))
                own += np.einsum("rgf,rgc->gfc", *rows)
        inner = tuple(slice(p, p + size) for p, size in zip(self.pad, self.sizes, strict=True))
        found = {"forward": results, "data": padded[(slice(None), *inner)], "weight": weights}
        return found[self.direction]

    def template_values(self) -> Mapping[str, object]:
        lhs, rhs, out = (operand.shape for operand in self.operands)
        maps, iterators, padded = self._loops()
        split_at = {name: self._channel(name) for name in ("lhs", "rhs", "out")}
        shapes = {"lhs": (lhs, padded), "rhs": (rhs, rhs), "out": (out, out)}
        reach = [d * (k - 1) - p for k, d, p in zip(self.window, self.dilation, self.pad, strict=True)]
        spread = {"offsets": (0, *reach, 0), "strides": (1, *self.stride, 1)}
        acc, element = element_type(self.acc), self.element
        turned = self.direction == "data" and max(self.window) > 1
        low = self.pad if self.direction != "data" else reach
        margins = [wide - size - p for wide, size, p in zip(padded[1:-1], lhs[1:-1], low, strict=True)]
        return {
            **{
                name: {"shape": shape, "padded": wide, "split": self._split(wide, split_at[name]), "at": split_at[name]}
                for name, (shape, wide) in shapes.items()
            },
            "spread": spread if self.direction == "data" and max(self.stride) > 1 else None,
            "low": (0, *low, 0),
            "high": (0, *margins, 0),
            "turned": {
                "loops": ", ".join(f"d{place}" for place in range(len(rhs))),
                "last": [None, *(k - 1 for k in self.window), None],
            }
            if turned
            else None,
            "maps": maps,
            "iterators": iterators,
            "groups": self.groups,
            "element": element.mlir,
            "acc": acc.mlir,
            "zero": "0.0" if element.is_float else "0",
            "acc_zero": "0.0" if acc.is_float else "0",
            "kind": "f" if acc.is_float else "i",
            "widen": "extf" if acc.is_float else "extsi",
            "rounded": self.out,
            "out_type": self.out or acc.mlir,
        }

    def _channel(self, name: str) -> int:
        """The dimension that is groups of channels."""
        letters = self.dimensions(name)
        return 0 if letters[0] == "f" else len(letters) - 1

    def _split(self, shape: Sizes, at: int) -> Sizes:
        return shape if self.groups == 1 else (*shape[:at], self.groups, shape[at] // self.groups, *shape[at + 1 :])

    def _loops(self) -> tuple[list[str], list[str], Sizes]:
        """The maps of the operation, its iterators, and the shape that the left operand is read in."""
        axes = range(len(self.sizes))
        group = ["g"] if self.groups > 1 else []
        places, window = [f"p{a}" for a in axes], [f"k{a}" for a in axes]
        wide = [size + 2 * p for size, p in zip(self.sizes, self.pad, strict=True)]
        strides = self.stride
        if self.direction == "data":  # of results that are spread apart, step by step
            wide = [size + d * (k - 1) for size, k, d in zip(self.sizes, self.window, self.dilation, strict=True)]
            strides = (1,) * len(self.sizes)
        read = [
            f"{'' if s == 1 else f'{s} * '}{place} + {'' if d == 1 else f'{d} * '}{k}"
            for place, k, s, d in zip(places, window, strides, self.dilation, strict=True)
        ]
        weights = [*group, "f", *window, "c"]
        inside, outside = ("c", "f") if self.direction != "data" else ("f", "c")
        image, made = ["n", *read, *group, inside], ["n", *places, *group, outside]
        lhs, rhs, out = (image, made, weights) if self.direction == "weight" else (image, weights, made)
        inner = ["n", *places] if self.direction == "weight" else [*window, inside]
        loops = [*out, *inner]
        maps = [f"affine_map<({', '.join(loops)}) -> ({', '.join(one)})>" for one in (lhs, rhs, out)]
        iterators = ['"parallel"'] * len(out) + ['"reduction"'] * len(inner)
        lead, last = (self.n, self.operands[0].shape[-1])
        return maps, iterators, (lead, *wide, last)

    def arguments(self) -> tuple[str, ...]:
        words = ["convnd", "--shape", _x(self.n, *self.sizes, self.c), "--filter", _x(*self.window, self.f)]
        words += ["--direction", self.direction, "--stride", _x(*self.stride), "--dilation", _x(*self.dilation)]
        words += ["--pad", _x(*self.pad), "--groups", str(self.groups), *(["--out", self.out] if self.out else [])]
        return (*words, "--dtype", self.dtype, *self.precision_arguments())


def _x(*sizes: int) -> str:
    return "x".join(map(str, sizes))
