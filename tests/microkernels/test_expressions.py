"""Expressions give a whole number or a refusal that names them, and nothing of Python can be reached through them."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotuner.errors import UsageError
from autotuner.microkernels.expressions import FUNCTIONS, HIGHEST, LOWEST, Expression, magic, shift

VALUES = {"m": 512, "n": 100, "k": 7, "zero": 0, "big": 1 << 31}


def value(text: str) -> int:
    return Expression.parse(text, names=VALUES).evaluate(VALUES)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (" m + n * k - 1 ", 1211),
        ("m // n % 3", 2),
        ("-n // k", -15),
        ("1 << 4 | k & 3", 19),
        ("m % 128 == 0", 1),
        ("not m", 0),
        ("zero or k", 1),
        ("zero and m // zero", 0),
        ("m // zero if zero else 5", 5),
        ("ceil_div(n, k)", 15),
        ("min(m, n, k) + max(m, n)", 519),
        ("big * big // big - 1", (1 << 31) - 1),
        ("pack(7, 5, 10, 4)", 117770756),
        ("shift(10)", 4),
        ("magic(10)", 2576980378),
        ("big * 2 - 1", HIGHEST),
        ("-big", LOWEST),
    ],
)
def test_expressions_have_the_value_that_they_seem_to_have(text: str, expected: int) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is not an expression"),
        ("m +", "is not an expression"),
        *((text, "has something else") for text in ("m ** 2", "m / 2", "m.real", "m[0]", "1.5", "'a'", "(m := 1)")),
        *((text, "has something else") for text in ("True", "m is n", "m < n < k", "min(*m, n)", "min(m, n)(k)")),
        *((text, "has something else") for text in ("~m", "m ^ n", "lambda: m", "min(m, n, key=k)", "[m for m in n]")),
        ("magic", "unknown name 'magic'"),
        ("width", "unknown name 'width'.*Known names: big, k, m, n, zero"),
        ("eval(m)", "calls 'eval', which is no function"),
        ("magic(m, n)", "gives magic 2 values"),
        ("min(m)", "gives min 1 values"),
        ("m // zero", "divides by zero"),
        ("magic(zero)", "shift and magic take 1 to"),
        ("pack(0, 0, 256, 0)", "pack takes bytes, not 256"),
        ("1 << 33", "shifts by 33"),
        ("1 >> -1", "shifts by -1"),
        ("big * big * big", "does not fit 32 bits"),
        ("big * 2", "does not fit 32 bits"),
        ("m" + " + m" * 200, "has 801 characters"),
        ("-" * 499 + "m", "is not an expression"),
    ],
)
def test_a_refusal_names_the_expression_and_says_what_to_do(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        value(text)
    assert text[:40] in caught.value.message.replace("\\n", "\n").replace("\\", "")
    assert caught.value.remedy


def written() -> st.SearchStrategy[str]:
    words = [*VALUES, *FUNCTIONS, "if", "else", "and", "or", "not", "lambda", "0", "1", "64", "999999999999"]
    signs = [*"+-*%<>&|(),=!.:[]{}'\"\\#@~^; ", "//", "<<", ">>", "**", "==", "!=", "<=", ">="]
    return st.lists(st.sampled_from(words + signs), max_size=30).map(" ".join)


@settings(max_examples=40)
@given(st.one_of(written(), st.text(max_size=600), st.text(alphabet=string.printable, max_size=60)))
def test_any_text_gives_a_number_in_range_or_a_refusal(text: str) -> None:
    try:
        result = value(text)
    except UsageError:
        return
    assert LOWEST <= result <= HIGHEST


@given(divisor=st.integers(1, (1 << 31) - 1), number=st.integers(0, (1 << 31) - 1))
def test_magic_and_shift_divide(divisor: int, number: int) -> None:
    assert magic(divisor) < 1 << 32
    assert ((number * magic(divisor) >> 32) + number) >> shift(divisor) == number // divisor
