"""Whole-number expressions of manifests: parsed by `ast` and evaluated node by node, never run as Python."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial

from autotuner.errors import UsageError
from autotuner.system.parsing import parsed

MAX_LENGTH = 500
"""Characters of an expression: with so few, no intermediate value has more than some thousand bits."""
LOWEST, HIGHEST = -(1 << 31), (1 << 32) - 1
"""The range of a 32-bit constant, signed or unsigned."""
_GRAMMAR = (
    "Use whole numbers, names, + - * // % << >> & |, comparisons of two, and/or/not, `A if C else B` and {functions}."
)


@dataclass(frozen=True, slots=True)
class Expression:
    """A text that evaluates to a whole number; conditions evaluate to 0 or 1."""

    text: str

    @classmethod
    def parse(cls, text: str, *, names: Collection[str]) -> Expression:
        """Reads an expression; refuses text that is none, and names other than these."""
        expression = cls(text)
        expression._refuse_unknown(names)
        return expression

    @property
    def names(self) -> frozenset[str]:
        """The names whose values it needs."""
        return _read(self.text)[1]

    def evaluate(self, values: Mapping[str, int], *, wide: bool = False) -> int:
        """The value. `wide` allows more than 32 bits, for numbers that no kernel is given."""
        if not self.names <= values.keys():
            self._refuse_unknown(values)
        try:
            result = _read(self.text)[0](values)
        except ZeroDivisionError:
            raise _refusal(self.text, "divides by zero", "Guard it: `A // B if B else 0`.") from None
        except ValueError as error:
            raise _refusal(self.text, f"has no value: {error}", "Give other numbers.") from None
        if not wide and not LOWEST <= result <= HIGHEST:
            raise _refusal(self.text, "gives what does not fit 32 bits", "Give a smaller one.")
        return result

    def _refuse_unknown(self, names: Collection[str]) -> None:
        if not all(name in names for name in self.names):
            unknown = sorted(self.names.difference(names))
            known = ", ".join(sorted(names)) or "none"
            raise _refusal(self.text, f"has an unknown name {unknown[0]!r}", f"Known names: {known}.")


def ceil_div(number: int, divisor: int) -> int:
    return -(-number // divisor)


def shift(divisor: int) -> int:
    """The smallest s with 2^s >= divisor."""
    if not 1 <= divisor < 1 << 31:
        raise ValueError(f"shift and magic take 1 to 2^31 - 1, not {divisor}")
    return (divisor - 1).bit_length()


def magic(divisor: int) -> int:
    """The multiplier by which MISA's kernels divide: x // d is (x + (x * magic >> 32)) >> shift."""
    return ((1 << 32) * ((1 << shift(divisor)) - divisor)) // divisor + 1


def pack(third: int, second: int, first: int, zeroth: int) -> int:
    """Four bytes in one word, the highest first."""
    word = 0
    for byte in (third, second, first, zeroth):
        if not 0 <= byte <= 255:
            raise ValueError(f"pack takes bytes, not {byte}")
        word = word << 8 | byte
    return word


def _shifted(shift_by: Callable[[int, int], int], number: int, by: int) -> int:
    if not 0 <= by <= HIGHEST.bit_length():
        raise ValueError(f"it shifts by {by}")
    return shift_by(number, by)


_FUNCTIONS: Mapping[str, tuple[Callable[..., int], int]] = {
    "ceil_div": (ceil_div, 2),
    "gcd": (math.gcd, 2),
    "magic": (magic, 1),
    "max": (max, 2),
    "min": (min, 2),
    "pack": (pack, 4),
    "shift": (shift, 1),
}
"""Functions by name, each with the number of its arguments; `max` and `min` take that many or more."""
FUNCTIONS = tuple(_FUNCTIONS)
_OPERATORS: Mapping[type[ast.AST], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.LShift: partial(_shifted, operator.lshift),
    ast.RShift: partial(_shifted, operator.rshift),
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
Step = Callable[[Mapping[str, int]], int]
"""A compiled part of an expression: values by name go in, its own value comes out."""


class _UnfitError(Exception):
    """Says why something is not allowed in an expression."""


@lru_cache(maxsize=4096)
def _read(text: str) -> tuple[Step, frozenset[str]]:
    """Compiles an expression to nested functions, because a manifest evaluates it for thousands of parameter choices;
    also gives its names."""
    remedy = _GRAMMAR.format(functions=", ".join(FUNCTIONS))
    if len(text) > MAX_LENGTH:
        shown, most = f"{text[:40]}…", f"{MAX_LENGTH} are the most: name parts of it in [values]."
        raise _refusal(shown, f"has {len(text)} characters", most)
    names: set[str] = set()
    try:
        return _step(parsed(text.strip(), mode="eval").body, names), frozenset(names)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refusal(text, "is not an expression", remedy) from None
    except _UnfitError as error:
        raise _refusal(text, str(error), remedy) from None


def _step(node: ast.expr, names: set[str]) -> Step:
    """Compiles one node and adds its names to `names`; unknown nodes are refused."""

    def below(*parts: ast.expr) -> list[Step]:
        return [_step(part, names) for part in parts]

    match node:
        case ast.Constant(value=number) if type(number) is int:
            return lambda _values: number
        case ast.Name(id=name):
            names.add(name)
            return lambda values: int(values[name])
        case ast.UnaryOp(op=ast.Not()):
            (denied,) = below(node.operand)
            return lambda values: int(not denied(values))
        case ast.UnaryOp(op=ast.USub()):
            (positive,) = below(node.operand)
            return lambda values: -positive(values)
        case ast.BoolOp():
            steps, decide = below(*node.values), all if isinstance(node.op, ast.And) else any
            return lambda values: int(decide(step(values) for step in steps))
        case ast.BinOp(left=left, op=sign, right=right) | ast.Compare(left=left, ops=[sign], comparators=[right]) if (
            type(sign) in _OPERATORS
        ):
            (first, second), combine = below(left, right), _OPERATORS[type(sign)]
            return lambda values: int(combine(first(values), second(values)))
        case ast.IfExp():
            asked, then, otherwise = below(node.test, node.body, node.orelse)
            return lambda values: (then if asked(values) else otherwise)(values)
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            function, arguments = _function(name, len(node.args)), below(*node.args)
            return lambda values: function(*[step(values) for step in arguments])
    raise _UnfitError("has something else in it than numbers and names")


def _function(name: str, count: int) -> Callable[..., int]:
    if name not in _FUNCTIONS:
        raise _UnfitError(f"calls {name!r}, which is no function here")
    function, wanted = _FUNCTIONS[name]
    if count != wanted and (count < wanted or function not in (max, min)):
        raise _UnfitError(f"gives {name} {count} values")
    return function


def _refusal(text: str, why: str, remedy: str) -> UsageError:
    return UsageError(f"the expression {text!r} {why}.", remedy=remedy)
