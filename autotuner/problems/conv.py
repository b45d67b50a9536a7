"""Two-dimensional convolution: plain, grouped and depthwise, channels last or first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from autotuner.errors import UsageError
from autotuner.problems.accuracy import Array, Precision
from autotuner.problems.base import Operand, parse_dims, refuse_if_too_large
from autotuner.problems.dtypes import ACCUMULATORS, SUMMED, element_type, parse_dtype, parse_rounded
from autotuner.problems.epilogue import NOTHING, Epilogue, refuse_epilogue
from autotuner.problems.gemm import Gemm
from autotuner.problems.operation import Operation, Product
from autotuner.system.process import PIECE, in_parts

if TYPE_CHECKING:
    from autotuner.iree.mlir import Dispatch

LAYOUTS = ("nhwc-hwcf", "nchw-fchw")
Pair = tuple[int, int]


@dataclass(frozen=True)
class Conv(Product):
    """Image and filter in one of two layouts; the result has the image's layout, in the accumulator's type or rounded.

    A depthwise filter has no input channels (HWC, CHW); a grouped one is GFHWC with channels last and FCHW with
    channels first.
    """

    n: int
    h: int
    w: int
    c: int
    kh: int
    kw: int
    f: int
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pad: Pair = (0, 0)
    groups: int = 1
    dtype: str = "f16"
    layout: str = "nhwc-hwcf"
    f8: str = "f8E4M3FN"
    allow: Precision = ""
    epilogue: Epilogue = NOTHING
    out: str = ""

    op = "conv"
    kind = "convolution"
    template = "conv.mlir.j2"
    layouts = LAYOUTS
    pairs = SUMMED
    routes: ClassVar[tuple[str, ...]] = (
        "channels-last",
        "channels-last+data-tiling",
        "im2col",
        "im2col+data-tiling",
        "im2col+data-tiling+inner-tiled",
        "im2col+global-data-tiling",
        "im2col+global-data-tiling+inner-tiled",
    )
    priors: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "aarch64": ("im2col+data-tiling+ukernels", "im2col+data-tiling"),
        "host": (
            "im2col+data-tiling+ukernels",
            "im2col+global-data-tiling+ukernels",
            "nchwc+data-tiling+ukernels",
            "channels-last+data-tiling+ukernels",
        ),
        "gpu": ("channels-last+O3", "padded+O3", "channels-last"),
    }
    named = (
        r"conv_(?P<shape>[\dx]+)_(?P<filter>[\dx]+)(?:_g(?P<groups>\d+))?(?:_s(?P<stride>[\dx]+))?"
        r"(?:_d(?P<dilation>[\dx]+))?(?:_p(?P<pad>[\dx]+))?_(?P<dtype>[a-z0-9]+)(?:_(?P<out>f16|bf16))?"
        r"_(?P<layout>nhwc|nchw)(?:_(?P<epilogue>\w+))?"
    )
    letters: ClassVar[Mapping[str, str]] = {
        "image": "nhwc",
        "weights": "gkyxc",
        "bias": "c",
        "residual": "nhwc",
        "out": "nhwc",
    }

    @classmethod
    def parse(
        cls,
        *,
        shape: str,
        filter: str,
        groups: int = 1,
        dtype: str = "f16",
        layout: str = "nhwc-hwcf",
        out: str | None = None,
        epilogue: str = "",
        stride: str = "1x1",
        dilation: str = "1x1",
        pad: str = "0x0",
    ) -> Self:
        """Reads and checks the command line's words."""
        n, h, w, c = parse_dims(shape, names="NxHxWxC")
        kh, kw, f = parse_dims(filter, names="KHxKWxF", option="--filter")
        (checked_groups,) = parse_dims(str(groups), names="G", option="--groups")
        if layout not in LAYOUTS:
            raise UsageError(f"unknown layout {layout!r}.", remedy=f"Choose one of: {', '.join(LAYOUTS)}.")
        if c % checked_groups or f % checked_groups:
            raise UsageError(
                f"--groups {checked_groups} does not divide {c} input and {f} output channels.",
                remedy="Give a number of groups that divides both.",
            )
        conv = cls(
            *(n, h, w, c, kh, kw, f),
            stride=_pair(stride, names="SHxSW", option="--stride"),
            dilation=_pair(dilation, names="DHxDW", option="--dilation"),
            pad=_pair(pad, names="PHxPW", option="--pad", least=0),
            groups=checked_groups,
            dtype=parse_dtype(dtype),
            layout=layout,
            epilogue=Epilogue.parse(epilogue),
            out=parse_rounded(out, acc=ACCUMULATORS[parse_dtype(dtype)][0]),
        )
        refuse_epilogue(conv.epilogue, element_type(conv.types[1]), product=False)
        if min(conv.output_size) < 1:
            raise UsageError(
                f"a {kh}x{kw} filter with --dilation {dilation} is larger than the {h}x{w} image with --pad {pad}.",
                remedy="Give a larger image, a smaller filter, or more padding.",
            )
        refuse_if_too_large(conv)
        return conv

    @classmethod
    def smallest(cls) -> Self:
        return cls(1, 1, 1, 1, 1, 1, 1)

    def variables(self) -> Mapping[str, int]:
        height, width = self.output_size
        sizes = {name: getattr(self, name) for name in ("n", "h", "w", "c", "kh", "kw", "f")}
        pairs = {"stride": self.stride, "dilation": self.dilation, "pad": self.pad}
        return {
            **sizes,
            **{f"{name}_{axis}": pair["hw".index(axis)] for name, pair in pairs.items() for axis in "hw"},
            "groups": self.groups,
            "ho": height,
            "wo": width,
            # The same by the names that MISA and MIOpen have for them.
            "hi": self.h,
            "wi": self.w,
            "k": self.f,
            "y": self.kh,
            "x": self.kw,
            "group": self.groups,
            "channels_last": int(self.channels_last),
            "depthwise": int(self.depthwise),
            "rounded": int(bool(self.out)),
            **self.epilogue.variables(),
        }

    def macros(self) -> Mapping[str, int]:
        layout = {"CHANNELS_LAST": int(self.channels_last), "DEPTHWISE": int(self.depthwise)}
        return {**layout, **super().macros()}

    def dimensions(self, operand: str) -> str:
        if operand == "bias":
            return "c"
        if operand != "weights":
            return "nhwc" if self.channels_last else "nchw"
        if self.depthwise:
            return "yxc" if self.channels_last else "cyx"
        if self.channels_last:
            return "yxck" if self.groups == 1 else "gkyxc"
        return "kcyx"

    @staticmethod
    def spelled(operand: str, layout: str) -> str:
        """A layout in canonical letters: HWCF filters become YXCK, NHWK results NHWC."""
        return layout.translate(str.maketrans("hwf", "yxk") if operand == "weights" else str.maketrans("kf", "cc"))

    @property
    def name(self) -> str:
        parts = [f"conv_{self.n}x{self.h}x{self.w}x{self.c}", f"{self.kh}x{self.kw}x{self.f}"]
        if self.groups > 1:
            parts.append(f"g{self.groups}")
        for letter, pair, plain in (("s", self.stride, 1), ("d", self.dilation, 1), ("p", self.pad, 0)):
            if pair != (plain, plain):
                parts.append(f"{letter}{pair[0]}x{pair[1]}")
        parts += [self.dtype, *([self.out] if self.out else []), self.layout.split("-")[0]]
        return "_".join(parts) + self.epilogue.suffix

    @property
    def output_size(self) -> Pair:
        sizes = zip((self.h, self.w), (self.kh, self.kw), self.stride, self.dilation, self.pad, strict=True)
        height, width = ((size + 2 * p - d * (k - 1) - 1) // s + 1 for size, k, s, d, p in sizes)
        return height, width

    @property
    def depth(self) -> int:
        return self.kh * self.kw * self.c // self.groups

    @property
    def depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.c == self.f

    @property
    def channels_last(self) -> bool:
        return self.layout == "nhwc-hwcf"

    @property
    def flops(self) -> int:
        height, width = self.output_size
        return 2 * self.n * height * width * self.f * self.depth

    @property
    def acc(self) -> str:
        return ACCUMULATORS[self.dtype][0]

    def views(self) -> tuple[Operation, ...]:
        """Pixel by pixel, channels last, it is a product of pixels and filters. What a product adds has other types."""
        pointwise = self.kh == self.kw == self.groups == 1 == max(self.stride) and not any(self.pad)
        if not (pointwise and self.channels_last) or self.epilogue.operands:
            return (self,)
        product = Gemm(self.n * self.h * self.w, self.f, self.c, dtype=self.dtype, acc=self.acc, f8=self.f8)
        return self, replace(product, allow=self.allow, epilogue=self.epilogue, out=self.out)

    def excess(self, root: Dispatch) -> float:
        # Convolutions of other strides may have the same operands but for the image.
        windows = ((self.stride, self.dilation), (root.strides, root.dilations))
        return super().excess(root) if root.kind != self.kind or len({*windows}) == 1 else math.inf

    def unbatched(self) -> tuple[Conv, int]:
        if self.groups == 1 or self.depthwise:
            return self, 0
        return replace(self, groups=1, c=self.c // self.groups, f=self.f // self.groups), 1

    @property
    def operands(self) -> tuple[Operand, ...]:
        out = Operand(self._image(self.output_size, self.f), element_type(self.out or self.acc))
        acc = element_type(self.acc)
        added = {"bias": Operand((self.f,), acc), "residual": replace(out, element=acc)}
        return (
            Operand(self._image((self.h, self.w), self.c), self.element),
            Operand(self._filter(), self.element),
            *(added[name] for name in self.epilogue.operands),
            out,
        )

    def template_values(self) -> Mapping[str, object]:
        image, weights, *_, out = self.operands
        padded = (self.h + 2 * self.pad[0], self.w + 2 * self.pad[1])
        spatial = (1, 2) if self.channels_last else (2, 3)
        margin = [self.pad[spatial.index(axis)] if axis in spatial else 0 for axis in range(4)]
        grouped = self.groups > 1 and not self.depthwise
        acc = element_type(self.acc)
        sums = replace(out, element=acc)
        operands = {"padded": Operand(self._image(padded, self.c), self.element), "weights": weights, "sum": sums}
        # A grouped convolution has a dimension for the groups; what users have is the image without it.
        split = {
            "padded": Operand(self._image(padded, self.c, split=grouped), self.element),
            "weights": Operand(self._filter(split=grouped), self.element),
            "sum": Operand(self._image(self.output_size, self.f, split=grouped), acc),
        }
        channel = len(out.shape) - 1 if self.channels_last else 1
        split_at = {"padded": channel, "weights": 0, "sum": channel}
        return {
            "image": image.mlir,
            "out": out.mlir,
            "rounded": self.out,
            **{name: operand.mlir for name, operand in operands.items()},
            **{f"split_{name}": operand.mlir for name, operand in split.items()},
            **{f"{name}_shape": split[name].shape for name in ("padded", "weights")},
            "splits": {name: split[name] != operands[name] for name in operands},
            "groups_of": {name: _reassociation(len(operands[name].shape), axis) for name, axis in split_at.items()},
            "margin": margin if any(margin) else [],
            "operation": self._operation(),
            "strides": self.stride,
            "dilations": self.dilation,
            "element": self.element.mlir,
            "zero": "0.0" if self.element.is_float else "0",
            "acc": acc.mlir,
            "epilogue": self.epilogue.template_values(),
            "rank": len(out.shape),
            "channel": channel,
            "channels": self.f,
        }

    def broadcast(self, more: tuple[Array, ...]) -> tuple[Array, ...]:
        if not self.epilogue.bias or self.channels_last:
            return more
        return (more[0][:, None, None], *more[1:])

    def plain(self, left: Array, right: Array) -> Array:
        image = left if self.channels_last else left.transpose(0, 2, 3, 1)
        image = np.pad(image, ((0, 0), (self.pad[0],) * 2, (self.pad[1],) * 2, (0, 0)))
        kernel = self._canonical(right)
        height, width = self.output_size
        groups = self.groups
        out = np.zeros((groups, self.n, height, width, self.f // groups), image.dtype)
        # Several images at once, or some lines of one. To read and write an element costs as much as 128 products.
        fitting = max(1, PIECE // (2 * width * self.f * (self.c // groups + 128)))
        images, lines = max(1, fitting // height), min(fitting, height)
        pieces = product(range(self.kh), range(self.kw), range(0, self.n, images), range(0, height, lines))
        for y, x, image_at, line in in_parts(list(pieces)):
            top, first = y * self.dilation[0] + line * self.stride[0], x * self.dilation[1]
            part = out[:, image_at : image_at + images, line : line + lines]
            patch = image[
                image_at : image_at + images,
                top : top + (part.shape[2] - 1) * self.stride[0] + 1 : self.stride[0],
                first : first + (width - 1) * self.stride[1] + 1 : self.stride[1],
            ]
            rows = patch.reshape(-1, groups, self.c // groups).transpose(1, 0, 2)
            part += (rows @ kernel[y, x]).reshape(part.shape)
        result: Array = out.transpose(1, 2, 3, 0, 4).reshape(self.n, height, width, self.f)
        return result if self.channels_last else result.transpose(0, 3, 1, 2)

    def arguments(self) -> tuple[str, ...]:
        words = ["conv", "--shape", f"{self.n}x{self.h}x{self.w}x{self.c}"]
        words += ["--filter", f"{self.kh}x{self.kw}x{self.f}"]
        words += ["--stride", "x".join(map(str, self.stride)), "--dilation", "x".join(map(str, self.dilation))]
        words += ["--pad", "x".join(map(str, self.pad)), "--groups", str(self.groups)]
        words += ["--out", self.out] if self.out else []
        words += ["--epilogue", self.epilogue.text] if self.epilogue else []
        return (*words, "--dtype", self.dtype, "--layout", self.layout, *self.precision_arguments())

    def _image(self, size: Pair, channels: int, *, split: bool = False) -> tuple[int, ...]:
        parts = (self.groups, channels // self.groups) if split else (channels,)
        return (self.n, *size, *parts) if self.channels_last else (self.n, *parts, *size)

    def _filter(self, *, split: bool = False) -> tuple[int, ...]:
        window, inputs, outputs = (self.kh, self.kw), self.c // self.groups, self.f // self.groups
        if self.depthwise:
            return (*window, self.c) if self.channels_last else (self.c, *window)
        if self.channels_last:
            return (*window, self.c, self.f) if self.groups == 1 else (self.groups, outputs, *window, inputs)
        return (self.groups, outputs, inputs, *window) if split else (self.f, inputs, *window)

    def _canonical(self, weights: Array) -> Array:
        """The filter with dimensions KH, KW, group, input channel, output channel."""
        inputs, outputs = self.c // self.groups, self.f // self.groups
        if self.depthwise:
            kernel = weights if self.channels_last else weights.transpose(1, 2, 0)
            return kernel.reshape(self.kh, self.kw, self.groups, 1, 1)
        if not self.channels_last:
            return weights.reshape(self.groups, outputs, inputs, self.kh, self.kw).transpose(3, 4, 0, 2, 1)
        if self.groups == 1:
            return weights[:, :, None]
        return weights.transpose(2, 3, 0, 4, 1)

    def _operation(self) -> str:
        if self.depthwise:
            return "depthwise_conv_2d_nhwc_hwc" if self.channels_last else "depthwise_conv_2d_nchw_chw"
        if self.groups > 1:
            return "conv_2d_nhwgc_gfhwc" if self.channels_last else "conv_2d_ngchw_gfchw"
        return "conv_2d_nhwc_hwcf" if self.channels_last else "conv_2d_nchw_fchw"


def _pair(text: str, *, names: str, option: str, least: int = 1) -> Pair:
    height, width = parse_dims(text, names=names, option=option, least=least)
    return height, width


def _reassociation(rank: int, axis: int) -> list[list[int]]:
    """The reassociation of a shape whose `axis` is split into two."""
    return [[place] if place < axis else [place, place + 1] if place == axis else [place + 1] for place in range(rank)]
