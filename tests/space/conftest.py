"""Constraints from the real compiler, and an oracle for them that shares no code with the package."""

from __future__ import annotations

import math
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import pytest

from autotuner.iree.tools import Tools
from tests.support.patience import ENOUGH

TARGETS = {
    "gfx942": ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx942"],
    "gfx950": ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx950"],
    "gfx1100": ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx1100"],
    "sm_80": ["--iree-hal-target-device=cuda", "--iree-cuda-target=sm_80"],
}


def gemm(m: int, n: int, k: int, acc: int = 32) -> str:
    return f"""
      func.func @main(%a: tensor<{m}x{k}xf16>, %b: tensor<{k}x{n}xf16>) -> tensor<{m}x{n}xf{acc}> {{
        %c = arith.constant 0.0 : f{acc}
        %0 = tensor.empty() : tensor<{m}x{n}xf{acc}>
        %1 = linalg.fill ins(%c : f{acc}) outs(%0 : tensor<{m}x{n}xf{acc}>) -> tensor<{m}x{n}xf{acc}>
        %2 = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf16>, tensor<{k}x{n}xf16>)
                           outs(%1 : tensor<{m}x{n}xf{acc}>) -> tensor<{m}x{n}xf{acc}>
        return %2 : tensor<{m}x{n}xf{acc}>
      }}"""


def conv(n: int, size: int, c: int, f: int, stride: int = 1) -> str:
    padded = stride * (size - 1) + 3
    image, window, result = f"{n}x{padded}x{padded}x{c}xf16", f"3x3x{c}x{f}xf16", f"{n}x{size}x{size}x{f}xf32"
    return f"""
      func.func @main(%a: tensor<{image}>, %b: tensor<{window}>) -> tensor<{result}> {{
        %c = arith.constant 0.0 : f32
        %0 = tensor.empty() : tensor<{result}>
        %1 = linalg.fill ins(%c : f32) outs(%0 : tensor<{result}>) -> tensor<{result}>
        %2 = linalg.conv_2d_nhwc_hwcf {{strides = dense<{stride}> : tensor<2xi64>}}
          ins(%a, %b : tensor<{image}>, tensor<{window}>) outs(%1 : tensor<{result}>) -> tensor<{result}>
        return %2 : tensor<{result}>
      }}"""


def attention(b: int, m: int, d: int, s: int) -> str:
    query, key = f"{b}x{m}x{d}xf16", f"{b}x{s}x{d}xf16"
    dims = "(d0, d1, d2, d3, d4)"
    results = ["(d0, d1, d3)", "(d0, d4, d3)", "(d0, d4, d2)", "()", "(d0, d1, d2)"]
    maps = ", ".join(f"affine_map<{dims} -> {r}>" for r in results)
    return f"""
      func.func @main(%q: tensor<{query}>, %k: tensor<{key}>, %v: tensor<{key}>) -> tensor<{query}> {{
        %scale = arith.constant 1.250000e-01 : f16
        %0 = tensor.empty() : tensor<{query}>
        %1 = "iree_linalg_ext.attention"(%q, %k, %v, %scale, %0) <{{indexing_maps = [{maps}]}}> ({{
        ^bb0(%score: f32):
          iree_linalg_ext.yield %score : f32
        }}) : (tensor<{query}>, tensor<{key}>, tensor<{key}>, f16, tensor<{query}>) -> tensor<{query}>
        return %1 : tensor<{query}>
      }}"""


PROBLEMS: Mapping[str, Callable[..., str]] = {"gemm": gemm, "conv": conv, "attention": attention}

Emit = Callable[..., str]


@cache
def _emit(kind: str, target: str, *shape: int) -> str:
    flags = ["--compile-to=executable-configurations", "--iree-codegen-emit-pipeline-constraints"]
    flags += ["--iree-codegen-add-tuner-attributes"]
    done = subprocess.run(
        [Tools.find().iree_compile, "-", *TARGETS[target], *flags, "-o", "-"],
        input=PROBLEMS[kind](*shape),
        capture_output=True,
        text=True,
        timeout=ENOUGH,
        check=True,
    )
    return done.stdout


@pytest.fixture(scope="session")
def emit() -> Emit:
    """emit(kind, target, *shape): the constraints module of a problem."""
    return _emit


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
