"""What is said where no variant of a microkernel takes a problem."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.microkernels.expressions import Expression
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.manifest import DoesNotFitError
from autotuner.microkernels.variants import Variants
from autotuner.problems import Attention, Gemm, Problem


@pytest.mark.parametrize(
    ("kernel", "problem", "says"),
    [
        ("gemm_cuda", Gemm.parse(shape="384x512x64", batch=24), "it needs k >= 256, and here k = 64."),
        ("gemm_cuda", Gemm.parse(shape="16x128x4096"), "and here batch = 1, k = 4096, m = 16, n = 128, norm = 0."),
        ("gemm_hopper", Gemm.parse(shape="512x512x4168", batch=3), "none of its variants takes batch = 3, k = 4168."),
        ("attention_hopper", Attention.parse(shape="1x32x2048x2072x128"), "none of its variants takes keys = 2072."),
    ],
)
def test_a_refusal_speaks_of_the_problem_and_of_no_knob(kernel: str, problem: Problem, says: str) -> None:
    manifest = load(shipped_folder() / kernel / FILE)
    with pytest.raises(DoesNotFitError) as refused:
        Variants.of(manifest, problem, "sm_90", workspace=Path())
    assert refused.value.message.endswith(says)
    for name in manifest.chosen:
        assert f"{name} = " not in refused.value.message


def test_a_choice_of_parameters_that_was_given_is_refused_by_what_it_breaks() -> None:
    manifest = load(shipped_folder() / "gemm_cuda" / FILE)
    with pytest.raises(DoesNotFitError, match="it needs groups < 3 or bn >= 96, and here bn = 64, groups = 3"):
        manifest.fit(Gemm.parse(shape="1024x1024x1024"), "sm_90", parameters={"bm": 192, "bn": 64})


def test_what_depends_on_a_choice_is_known_through_values_and_a_single_value_is_no_choice() -> None:
    manifest = load(shipped_folder() / "gemm_hopper" / FILE)
    assert {"bm", "tiles", "split"} <= manifest.chosen
    assert not {"m", "group", "units"} & manifest.chosen


def test_a_condition_is_asked_before_values_that_it_does_not_need() -> None:
    """Of a guard, the last value would divide by zero; and what no choice changes is known before any is made."""
    manifest = load(shipped_folder() / "gemm_cuda" / FILE)
    values = {**manifest.values, "last": Expression("1 // (bm - 192)")}
    guarded = replace(manifest, values=values, conditions=(*manifest.conditions, Expression("bm != 192")))
    problem = Gemm.parse(shape="1024x1024x1024")
    given = guarded.given(problem, "sm_90")
    assert (given["m"], given["deep"]) == (1024, 1024)
    assert "tiles" not in given
    assert guarded.choose(given, {"bm": 128, "bn": 128}) == guarded.fit(
        problem, "sm_90", parameters={"bm": 128, "bn": 128}
    )
    with pytest.raises(DoesNotFitError, match="bm != 192"):
        guarded.choose(given, {"bm": 192, "bn": 128})
    with pytest.raises(DoesNotFitError, match="k >= 256"):
        guarded.given(Gemm.parse(shape="1024x1024x64"), "sm_90")
