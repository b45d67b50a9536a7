"""Which dispatches only one of two arms has: executables are known by what they compute."""

from __future__ import annotations

import pytest

from autotuner.jobs.ab.shares import own_exports
from autotuner.programs.structure import Shares

ROUTINE = """
func.func @{name}(%x: tensor<4x8xf32>) -> tensor<8x4xf32> {{
  {before}
  %sums = linalg.map {{ math.{operation} }} ins(%x : tensor<4x8xf32>) outs(%here : tensor<4x8xf32>)
  {behind}
  %turned = linalg.transpose ins(%sums : tensor<4x8xf32>) outs(%there : tensor<8x4xf32>) permutation = [1, 0]
  return %turned : tensor<8x4xf32>
}}
"""
HERE, THERE = "%here = tensor.empty() : tensor<4x8xf32>", "%there = tensor.empty() : tensor<8x4xf32>"
FIRST = ROUTINE.format(name="main_dispatch_4", operation="exp", before=HERE, behind=THERE)


@pytest.mark.parametrize(
    ("other", "own"),
    [
        (ROUTINE.format(name="main_dispatch_3", operation="exp", before=f"{THERE}\n  {HERE}", behind=""), []),
        (ROUTINE.format(name="main_dispatch_3", operation="log", before=HERE, behind=THERE), ["main_dispatch_4_exp"]),
    ],
    ids=["another number, and its memory named in another order", "another operation"],
)
def test_a_dispatch_is_the_same_whatever_its_number_and_where_its_memory_is_named(other: str, own: list[str]) -> None:
    shares = Shares({"main_dispatch_4_exp": 1.0}, "test")
    assert own_exports(shares, {"main_dispatch_4": FIRST}, {"main_dispatch_3": other}) == own
