"""Epilogues of products and convolutions, applied before a result is stored: bias, residual, clip, activation, gate."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from autotuner.errors import UsageError
from autotuner.problems.accuracy import Array, Bound, last_rounding
from autotuner.problems.dtypes import ElementType

CUBIC = 0.044715
"""The factor of the cube in a gelu by tanh."""
TANH_FACTOR = math.sqrt(2 / math.pi)
IMPORTED_FACTOR = 0.7977240352174656
"""The factor that IREE's importers write for a Gelu by tanh, which differs in the fourth digit."""
_STEEPEST = 1.5
"""The greatest slope of an activation, that of hardswish at 3."""
_ROUNDINGS = 16
"""The error of computing an activation, in unit roundoffs of f32."""


@dataclass(frozen=True, slots=True)
class Activation:
    number: int
    """Its number in kernel sources."""
    function: Callable[[Array], Array]
    factor: float = 0.0
    """Its factor."""
    offset: float = 0.0
    """A bound on results for small sums."""

    def slack(self, sums: Array) -> Array:
        """The error that computing it in f32 adds."""
        return _ROUNDINGS * 2.0**-24 * (np.abs(sums) + self.offset)


def sigmoid(x: Array) -> Array:
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * x))


def gelu(x: Array, root: float = math.sqrt(2.0)) -> Array:
    return np.asarray(0.5 * x * (1.0 + erf(x / root)))


def tanh_gelu(x: Array, factor: float = TANH_FACTOR, cubic: float = CUBIC) -> Array:
    return np.asarray(0.5 * x * (1.0 + np.tanh(factor * (x + cubic * x**3))))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def hard_sigmoid(x: Array, slope: float = 1.0 / 6.0) -> Array:
    return np.asarray(np.clip(x * slope + 0.5, 0.0, 1.0))


def hard_swish(x: Array, slope: float = 1.0 / 6.0) -> Array:
    return x * hard_sigmoid(x, slope)


ACTIVATIONS: Mapping[str, Activation] = {
    "gelu": Activation(1, gelu),
    "tanhgelu": Activation(2, tanh_gelu, TANH_FACTOR),
    "importedgelu": Activation(2, lambda x: tanh_gelu(x, IMPORTED_FACTOR), IMPORTED_FACTOR),
    "silu": Activation(3, silu),
    "hardswish": Activation(4, hard_swish),
    "sigmoid": Activation(5, sigmoid, offset=1.0),
    "hardsigmoid": Activation(6, hard_sigmoid, offset=1.0),
}
"""Activations by their words in `--epilogue`."""


def erf(x: Array) -> Array:
    """The error function, which numpy lacks."""
    flat = np.ravel(x).astype(float)
    return np.fromiter(map(math.erf, flat.data), float, flat.size).reshape(np.shape(x))


PARTS = ("bias", "residual", "relu", "clip", "activation", "gated")
"""The parts in manifests' `epilogues`; a clip includes a relu, an activation is any of `ACTIVATIONS`."""
OPERANDS = ("bias", "residual")
GATED = "gated"
TURN = 8
"""The number of adjacent gate columns, followed by as many gated ones, so that a thread of a matrix unit has both."""
_REMEDY = (
    f"Give bias, residual, and one of relu, clip=LOW:HIGH, {', '.join(ACTIVATIONS)}, with commas between them, "
    "such as bias,relu; or one of these functions and gated, such as silu,gated."
)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """clip(sums + bias + residual, low, high) or activation(sums + bias + residual), each part of it if at all; or
    activation(gates) * others, where `TURN` columns of gates and as many others take turns."""

    bias: bool = False
    """One number for each output channel (column)."""
    residual: bool = False
    """A tensor like the result."""
    low: float | None = None
    high: float | None = None
    activation: str = ""
    """One of `ACTIVATIONS`, where there is no clip."""
    gated: bool = False
    """Half of the columns are gates, so the result has half as many."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`bias,residual,relu` or `bias,clip=0:6`; empty: nothing."""
        words = text.lower().split(",") if text else []
        low = high = None
        activation = ""
        for word in words:
            if word == "relu":
                low = 0.0
            elif word.startswith("clip="):
                low, high = _limits(word.removeprefix("clip="))
            elif word in ACTIVATIONS:
                activation = word
            elif word not in (*OPERANDS, GATED):
                raise UsageError(f"unknown --epilogue {word[:40]!r}.", remedy=_REMEDY)
        if len({_kind(word) for word in words}) < len(words):
            raise UsageError(f"--epilogue {text[:80]!r} says something twice.", remedy=_REMEDY)
        if GATED in words and set(words) != {activation, GATED}:
            raise UsageError(f"--epilogue {text[:80]!r}: gates want a function, and no more.", remedy=_REMEDY)
        return cls("bias" in words, "residual" in words, low, high, activation, GATED in words)

    def __bool__(self) -> bool:
        return self != Epilogue()

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that a kernel must support, of `PARTS`."""
        return tuple(name for name, there in self.variables().items() if there)

    @property
    def operands(self) -> tuple[str, ...]:
        """The tensors that it reads, in the order of the problem's operands."""
        return tuple(name for name in OPERANDS if getattr(self, name))

    @property
    def relu(self) -> bool:
        return self.low == 0.0 and self.high is None

    @property
    def clips(self) -> bool:
        return self.low is not None or self.high is not None

    @property
    def finishes(self) -> bool:
        """Whether a clip, an activation or a gate follows the sums."""
        return self.clips or bool(self.activation)

    @property
    def text(self) -> str:
        """The words that `parse` takes."""
        limits = ":".join(map(_number, (self.low, self.high)))
        clip = ["relu"] if self.relu else [f"clip={limits}"] if self.clips else []
        last = [word for word in (self.activation, GATED if self.gated else "") if word]
        return ",".join([*self.operands, *clip, *last])

    @property
    def suffix(self) -> str:
        """Its suffix in a problem's name: letters, digits and underscores."""
        plain = self.text.replace("-", "m").replace(".", "p").replace("+", "")
        return "".join(f"_{part}" for part in plain.replace("=", "").replace(":", "to").split(",") if part)

    @staticmethod
    def words(suffix: str) -> str:
        """The text for `parse` from a suffix: `bias`, `clip0to6` and `clipm1to0p5`."""
        words = []
        for part in suffix.split("_"):
            if part.startswith("clip"):
                low, _, high = part.removeprefix("clip").replace("m", "-").replace("p", ".").partition("to")
                words.append(f"clip={low}:{high}")
            else:
                words.append(part)
        return ",".join(words)

    def variables(self) -> dict[str, int]:
        """Its numbers by the names that a manifest's expressions use."""
        return {
            "bias": int(self.bias),
            "residual": int(self.residual),
            "relu": int(self.relu),
            "clip": int(self.clips and not self.relu),
            "activation": ACTIVATIONS[self.activation].number if self.activation else 0,
            "gated": int(self.gated),
        }

    def numbers(self) -> dict[str, int]:
        """The macros that a source gets: limits and the activation's factor as the bits of an f32."""
        activation = ACTIVATIONS.get(self.activation)
        return {
            "BIAS": int(self.bias),
            "RESIDUAL": int(self.residual),
            "CLIP_LOW": int(self.low is not None),
            "CLIP_HIGH": int(self.high is not None),
            "LOW_BITS": _bits(self.low or 0.0),
            "HIGH_BITS": _bits(self.high or 0.0),
            "ACTIVATION": activation.number if activation else 0,
            "FACTOR_BITS": _bits(activation.factor if activation else 0.0),
            "GATED": int(self.gated),
        }

    def finished(self, sums: Array) -> Array:
        """The results for these sums with bias and residual."""
        if self.gated:
            gates, others = in_turns(sums)
            return ACTIVATIONS[self.activation].function(gates) * others
        if self.activation:
            return ACTIVATIONS[self.activation].function(sums)
        lowest = -math.inf if self.low is None else self.low
        return np.clip(sums, lowest, math.inf if self.high is None else self.high) if self.clips else sums

    def bound(self, bound: Bound, sums: Array, results: Array, *, out: str) -> Bound:
        """The bound of results with this bound of sums, stored as `out`.

        A clip moves two numbers no further apart than they were: what explains the sums explains the result. But what
        comes of small sums may be large (a sigmoid of zero is a half), and so is its last rounding.
        """
        if not self.finishes:
            return bound
        rounding = last_rounding(results, out)
        if not self.activation:
            return replace(bound, slack=np.maximum(bound.slack, rounding))
        own = ACTIVATIONS[self.activation]
        slack = _STEEPEST * bound.slack + own.slack(sums)
        if not self.gated:
            slack = np.maximum(slack, rounding + own.slack(sums))
            return replace(bound, deviation=_STEEPEST * bound.deviation, slack=slack)
        gates, others = in_turns(sums)
        activated = np.abs(own.function(gates))
        deviations, slacks = in_turns(np.asarray(bound.deviation)), in_turns(np.asarray(bound.slack))
        off, more = _STEEPEST * deviations[0] * others, in_turns(slack)[0]
        return replace(
            bound,
            deviation=np.hypot(off, activated * deviations[1]),
            slack=more * np.abs(others) + (activated + more) * slacks[1] + rounding,
        )

    def template_values(self) -> Mapping[str, object]:
        return {
            "bias": self.bias,
            "residual": self.residual,
            "from_zero": self.low == 0.0,
            "low": f"{self.low:.9e}" if self.low else "",
            "high": "" if self.high is None else f"{self.high:.9e}",
            "activation": ACTIVATIONS[self.activation].number if self.activation else 0,
            "factor": f"{ACTIVATIONS[self.activation].factor:.9e}" if self.activation else "",
            "gated": self.gated,
            "there": bool(self),
        }


NOTHING = Epilogue()


def in_turns(sums: Array) -> tuple[Array, Array]:
    """The gate columns, and the gated ones."""
    *lead, columns = sums.shape
    turns = sums.reshape(*lead, columns // (2 * TURN), 2, TURN)
    gates, others = (turns[..., which, :].reshape(*lead, columns // 2) for which in range(2))
    return gates, others


def refuse_epilogue(epilogue: Epilogue, acc: ElementType, *, product: bool = True) -> None:
    """Refuses epilogues on integer sums, and gates where there is no product."""
    if epilogue.gated and not product:
        raise UsageError(f"--epilogue {epilogue.text} is for products.", remedy=f"Leave {GATED} out.")
    if epilogue and not acc.is_float:
        remedy = "Leave it out, or choose f32 sums."
        raise UsageError(f"--epilogue {epilogue.text} is not for sums in {acc.name}.", remedy=remedy)


def _limits(text: str) -> tuple[float | None, float | None]:
    try:
        low, high = (float(np.float32(word)) if word else None for word in text.split(":"))
    except ValueError:
        raise UsageError(f"--epilogue clip={text[:40]} has no two limits.", remedy=_REMEDY) from None
    given = [limit for limit in (low, high) if limit is not None]
    if not given or not all(map(math.isfinite, given)) or given != sorted(given):
        raise UsageError(f"--epilogue clip={text[:40]} has no limits in order.", remedy=_REMEDY)
    return low, high


def _kind(word: str) -> str:
    """The kind of a word; each kind may occur once."""
    return word if word in (*OPERANDS, GATED) else ""


def _number(limit: float | None) -> str:
    """The shortest text that gives the same f32 again."""
    return "" if limit is None else str(np.float32(limit)).removesuffix(".0")


def _bits(value: float) -> int:
    return int(struct.unpack("<I", struct.pack("<f", value))[0])
