"""Constraints from the real compiler, and an oracle for them that shares no code with the package."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from autotuner.build import Builder
from autotuner.problems import Problem
from autotuner.problems.attention import Attention
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target

Emit = Callable[[Problem, str], str]


def attention(batch: int, queries: int, width: int, keys: int) -> Attention:
    return replace(Attention.parse(shape=f"{batch}x1x{queries}x{keys}x{width}"), flat=True)


@pytest.fixture(scope="session")
def emit(builder: Builder) -> Emit:
    """emit(problem, target): its constraints module, made only once."""

    @cache
    def of(problem: Problem, target: str) -> str:
        flags = ["--iree-codegen-emit-pipeline-constraints", "--iree-codegen-add-tuner-attributes"]
        return builder.inspect(problem_mlir(problem), [*Target.parse(target).compile_flags, *flags], timeout=120)

    return of


class Oracle:
    """SMT-LIB as the compiler prints it, evaluated one assignment at a time in plain Python."""

    def __init__(self, text: str) -> None:
        self.names: list[str] = []
        self.asserts: list[tuple[frozenset[str], Any]] = []
        tokens = iter(re.findall(r"[()]|[^\s()]+", re.sub(r";.*", "", text)))
        for form in _forms(tokens):
            if form[0] == "declare-const":
                self.names.append(form[1])
            elif form[0] == "assert":
                self.asserts.append((frozenset(_atoms(form[1])) & frozenset(self.names), form[1]))
        pinned = re.findall(r"\(= (problem_dim_\d+) (\d+)\)", text)
        self.dimensions = {name: int(size) for name, size in pinned}

    def holds(self, values: Mapping[str, int], *, touching: str | None = None) -> bool:
        """Whether the asserts over the given knobs hold; `touching`: only those that use this one."""
        known = {**self.dimensions, **values}
        for used, form in self.asserts:
            if used <= known.keys() and (touching is None or touching in used):
                try:
                    if not _value(form, dict(known)):
                        return False
                except ZeroDivisionError:
                    return False
        return True

    def enumerate(self, ranges: Mapping[str, Sequence[int]]) -> set[tuple[tuple[str, int], ...]]:
        """Every legal assignment within ranges: knob after knob, every value tried."""
        rows: list[dict[str, int]] = [{}]
        # Matrix instruction first and derived sizes last: the result does not depend on it, the time does.
        knobs = [name for name in self.names if name not in self.dimensions]
        for knob in sorted(knobs, key=lambda k: ("mma" not in k, "cnt" not in k, k.startswith("wg_size"))):
            tried = ({**row, knob: value} for row in rows for value in ranges[knob])
            rows = [row for row in tried if self.holds(row, touching=knob)]
        return {tuple(sorted(row.items())) for row in rows}


def _forms(tokens: Iterator[str]) -> list[Any]:
    forms: list[Any] = []
    for token in tokens:
        if token == ")":
            break
        forms.append(_forms(tokens) if token == "(" else token)
    return forms


def _atoms(form: Any) -> Iterator[str]:
    if isinstance(form, str):
        yield form
    else:
        for part in form:
            yield from _atoms(part)


def _value(form: Any, scope: dict[str, Any]) -> Any:
    if isinstance(form, str):
        if form in ("true", "false"):
            return form == "true"
        return scope[form] if form in scope else int(form)
    head, *rest = form
    if head == "let":
        for name, bound in rest[0]:
            scope[name] = _value(bound, scope)
        return _value(rest[1], scope)
    if head == "ite":
        return _value(rest[1] if _value(rest[0], scope) else rest[2], scope)
    values = [_value(part, scope) for part in rest]
    match head:
        case "+":
            return sum(values)
        case "-":
            return -values[0] if len(values) == 1 else values[0] - sum(values[1:])
        case "*":
            return math.prod(values)
        case "div":
            return values[0] // values[1]
        case "mod":
            return values[0] % values[1]
        case "=":
            return all(values[0] == v for v in values)
        case "<=":
            return values[0] <= values[1]
        case "<":
            return values[0] < values[1]
        case ">=":
            return values[0] >= values[1]
        case ">":
            return values[0] > values[1]
        case "and":
            return all(values)
        case "or":
            return any(values)
        case "not":
            return not values[0]
    raise AssertionError(f"the oracle does not know {head}")


@pytest.fixture(scope="session")
def oracle() -> type[Oracle]:
    return Oracle
