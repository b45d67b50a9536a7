"""Whole-number expressions of manifests: parsed by `ast`, read node by node, never given to Python to run."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from autotuner.errors import UsageError
from autotuner.system.parsing import parsed

MAX_LENGTH = 500
_MAX_DEPTH = 40
_BITS = 64
"""Intermediate values stay below this many bits: no expression can eat memory or time."""
LOWEST, HIGHEST = -(1 << 31), (1 << 32) - 1
"""What fits a 32-bit constant, signed or not."""
_TOKEN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]+(?![A-Za-z0-9_])|<<|>>|//|[<>=!]=|[-+*%<>&|(),]| +")
_GRAMMAR = "Use whole numbers, names, + - * // % << >> & |, comparisons, and/or/not, `A if C else B` and {functions}."


@dataclass(frozen=True, slots=True)
class Expression:
    """A text that gives a whole number; conditions give 0 or 1."""

    text: str

    @classmethod
    def parse(cls, text: str, *, names: Collection[str]) -> Expression:
        """Refuses what is not an expression or speaks of other than these names, before there are any values."""
        expression = cls(text)
        expression._refuse_unknown(names)
        return expression

    @property
    def names(self) -> frozenset[str]:
        """The values that it needs."""
        return _names(self.text)

    def evaluate(self, values: Mapping[str, int]) -> int:
        if not self.names <= values.keys():
            self._refuse_unknown(values)
        try:
            result = _steps(self.text)(values)
        except ZeroDivisionError:
            raise _refusal(self.text, "divides by zero", "Guard it: `A // B if B else 0`.") from None
        except OverflowError:
            raise _refusal(self.text, f"needs more than {_BITS} bits on the way", "Give smaller numbers.") from None
        except ValueError as error:
            raise _refusal(self.text, f"has no value: {error}", "Give other numbers.") from None
        if not LOWEST <= result <= HIGHEST:
            raise _refusal(self.text, f"gives {result}, which does not fit 32 bits", "Give a smaller one.")
        return result

    def _refuse_unknown(self, names: Collection[str]) -> None:
        if not all(name in names for name in self.names):
            unknown = sorted(self.names.difference(names))
            known = ", ".join(sorted(names)) or "none"
            raise _refusal(self.text, f"has an unknown name {unknown[0]!r}", f"Known names: {known}.")


def ceil_div(number: int, divisor: int) -> int:
    if divisor == 0:
        raise ZeroDivisionError
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


def _shift_left(number: int, by: int) -> int:
    if not 0 <= by < _BITS:
        raise ValueError(f"it shifts by {by}")
    return number << by


def _shift_right(number: int, by: int) -> int:
    if by < 0:
        raise ValueError(f"it shifts by {by}")
    return number >> by


_MANY = 99
_FUNCTIONS: Mapping[str, tuple[Callable[..., int], int, int]] = {
    "ceil_div": (ceil_div, 2, 2),
    "magic": (magic, 1, 1),
    "max": (max, 2, _MANY),
    "min": (min, 2, _MANY),
    "pack": (pack, 4, 4),
    "shift": (shift, 1, 1),
}
FUNCTIONS = tuple(_FUNCTIONS)
_BINARY: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.LShift: _shift_left,
    ast.RShift: _shift_right,
    ast.BitAnd: lambda a, b: a & b,
    ast.BitOr: lambda a, b: a | b,
}
_COMPARISON: Mapping[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


Step = Callable[[Mapping[str, int]], int]
"""A part of an expression: from the values of its names to its own."""


@lru_cache(maxsize=4096)
def _steps(text: str) -> Step:
    """The expression as functions of functions: a manifest is asked of thousands of choices of its parameters."""
    return _step(_tree(text))


def _step(node: ast.expr) -> Step:
    """Of a tree that `_tree` has let through."""
    match node:
        case ast.Constant(value=int(number)):
            return lambda _values: number
        case ast.Name(id=name):
            return lambda values: int(values[name])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            denied = _step(operand)
            return lambda values: int(not denied(values))
        case ast.BoolOp(op=operator, values=parts):
            steps = [_step(part) for part in parts]
            decide = all if isinstance(operator, ast.And) else any
            return lambda values: int(decide(step(values) for step in steps))
        case ast.Compare(left=left, ops=operators, comparators=others):
            following = zip(operators, others, strict=True)
            return _compared(_step(left), [(_COMPARISON[type(compare)], _step(other)) for compare, other in following])
        case ast.IfExp(test=test, body=body, orelse=orelse):
            asked, then, otherwise = _step(test), _step(body), _step(orelse)
            return lambda values: (then if asked(values) else otherwise)(values)
        case _:
            return _bounded(_arithmetic(node))


def _arithmetic(node: ast.expr) -> Step:
    """What may give numbers that are larger than those it is given."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            positive = _step(operand)
            return lambda values: -positive(values)
        case ast.BinOp(left=left, op=operator, right=right):
            first, second, combine = _step(left), _step(right), _BINARY[type(operator)]
            return lambda values: combine(first(values), second(values))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            function, given = _FUNCTIONS[name][0], [_step(argument) for argument in arguments]
            return lambda values: function(*[step(values) for step in given])
    raise AssertionError(f"{ast.dump(node)} passed the check")


def _bounded(step: Step) -> Step:
    def bounded(values: Mapping[str, int]) -> int:
        number = step(values)
        if number.bit_length() > _BITS:
            raise OverflowError
        return number

    return bounded


def _compared(first: Step, others: Sequence[tuple[Callable[[int, int], bool], Step]]) -> Step:
    """`a < b < c`: each with the next, up to the first that does not hold."""

    def compare(values: Mapping[str, int]) -> int:
        value = first(values)
        for holds, step in others:
            following = step(values)
            if not holds(value, following):
                return 0
            value = following
        return 1

    return compare


@lru_cache(maxsize=4096)
def _tree(text: str) -> ast.expr:
    remedy = _GRAMMAR.format(functions=", ".join(FUNCTIONS))
    if len(text) > MAX_LENGTH:
        short = f"{text[:40]}…"
        raise _refusal(
            short, f"has {len(text)} characters", f"{MAX_LENGTH} are the most: name parts of it in [values]."
        )
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise _refusal(text, f"has {text[at]!r} at character {at + 1}, which is not part of one", remedy)
        at = token.end()
    try:
        tree: ast.expr = parsed(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise _refusal(text, "is not an expression", remedy) from None
    why = _objection(tree, depth=0)
    if why:
        raise _refusal(text, why, remedy)
    return tree


def _objection(node: ast.expr, *, depth: int) -> str:
    """Why this may not stand in an expression; empty: it may."""
    if depth > _MAX_DEPTH:
        return f"is nested more than {_MAX_DEPTH} deep"
    parts: list[ast.expr] = []
    why = "has something else in it than numbers and names"
    match node:
        case ast.Constant(value=number) if type(number) is int:
            why = "" if number.bit_length() <= _BITS else f"has a number of more than {_BITS} bits"
        case ast.Name():
            why = ""
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            parts, why = [node.operand], ""
        case ast.BinOp() if type(node.op) in _BINARY:
            parts, why = [node.left, node.right], ""
        case ast.BoolOp():
            parts, why = node.values, ""
        case ast.Compare() if all(type(operator) in _COMPARISON for operator in node.ops):
            parts, why = [node.left, *node.comparators], ""
        case ast.IfExp():
            parts, why = [node.test, node.body, node.orelse], ""
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            parts, why = node.args, _call_objection(name, len(node.args))
    return why or next(filter(None, (_objection(part, depth=depth + 1) for part in parts)), "")


def _call_objection(name: str, count: int) -> str:
    if name not in _FUNCTIONS:
        return f"calls {name!r}, which is no function here"
    _, least, most = _FUNCTIONS[name]
    if not least <= count <= most:
        return f"gives {name} {count} values, not {least if least == most else f'{least} or more'}"
    return ""


@lru_cache(maxsize=4096)
def _names(text: str) -> frozenset[str]:
    tree = _tree(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return frozenset(node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called)


def _refusal(text: str, why: str, remedy: str) -> UsageError:
    return UsageError(f"the expression {text!r} {why}.", remedy=remedy)
