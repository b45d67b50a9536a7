"""What the checker makes of results: both sets of inputs count, and what is not there is never right."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotuner.iree.tools import Tools
from autotuner.measure.check import RANDOM, WHOLE, Check, Checker, Data
from autotuner.problems import Array, Gemm

PROBLEM = Gemm.parse(shape="6x10x16", dtype="f32")
MODULE = Path("module.vmfb")
SCRIPT = """#!/bin/sh
for word in "$@"; do
  case "$word" in --output=@*) out="${word#--output=@}" ;; esac
done
cp "$out.prepared" "$out"
"""


@pytest.fixture
def checker(tools: Tools, tmp_path: Path) -> Checker:
    """Its module computes whatever `prepare` says."""
    script = tmp_path / "iree-run-module"
    script.write_text(SCRIPT)
    script.chmod(0o755)
    data = Data.write(PROBLEM, tmp_path / "data", seed=1)
    return Checker(replace(tools, iree_run_module=script), data, "local-sync", timeout=60)


def right(checker: Checker) -> dict[str, Array]:
    found = {name: PROBLEM.reference(inputs).astype(np.float32) for name, inputs in checker.data.inputs.items()}
    assert list(found) == [RANDOM, WHOLE]
    return found


def prepare(checker: Checker, outputs: dict[str, Array]) -> None:
    for name, out in outputs.items():
        out.tofile(checker.data.folder / f"output-{name}.bin.prepared")


def changed(array: Array) -> Array:
    other = array.copy()
    other[2, 3] += 1
    return other


def test_a_result_that_is_right_on_both_sets_passes(checker: Checker) -> None:
    outputs = right(checker)
    prepare(checker, outputs)
    out, check = checker.answer(MODULE)
    assert check.ok
    assert check.detail == ""
    assert out is not None
    assert np.array_equal(out, outputs[RANDOM])


@pytest.mark.parametrize("wrong", [RANDOM, WHOLE])
def test_a_result_that_is_wrong_on_one_set_is_refused_and_says_on_which(checker: Checker, wrong: str) -> None:
    outputs = right(checker)
    prepare(checker, {**outputs, wrong: changed(outputs[wrong])})
    out, check = checker.answer(MODULE)
    assert check.failure == "wrong-result"
    assert check.detail.startswith("on whole numbers: relative error" if wrong == WHOLE else "relative error")
    assert "element (2, 3)" in check.detail
    assert out is not None


def test_whole_numbers_must_come_out_as_they_are_stored(checker: Checker) -> None:
    outputs = right(checker)
    last = outputs[WHOLE].copy()
    last[0, 0] = np.nextafter(last[0, 0], np.float32(np.inf))
    prepare(checker, {**outputs, WHOLE: last})
    assert checker.check(MODULE).failure == "wrong-result"


def test_a_program_that_ends_badly_has_no_result_even_if_it_wrote_one(checker: Checker) -> None:
    prepare(checker, right(checker))
    script = Path(checker.tools.iree_run_module)
    script.write_text(SCRIPT + "echo out of luck >&2\nexit 3\n")
    out, check = checker.answer(MODULE)
    assert out is None
    assert (check.failure, check.error) == ("run-error", math.inf)
    assert "out of luck" in check.detail


def test_a_program_that_writes_nothing_has_no_result(checker: Checker) -> None:
    Path(checker.tools.iree_run_module).write_text("#!/bin/sh\nexit 0\n")
    assert checker.check(MODULE).failure == "run-error"


def test_a_taught_checker_takes_the_modules_results_for_the_right_ones(checker: Checker) -> None:
    outputs = {name: changed(out) for name, out in right(checker).items()}
    prepare(checker, outputs)
    assert not checker.check(MODULE).ok
    taught, check = checker.taught(MODULE)
    assert (check, taught.data.knows) == (Check(None, 0.0), True)
    assert taught.check(MODULE).ok
    for name in (RANDOM, WHOLE):
        prepare(checker, {**outputs, name: changed(outputs[name])})
        assert taught.check(MODULE).failure == "wrong-result", name


def test_nothing_is_learnt_from_a_module_that_does_not_run_or_computes_no_numbers(checker: Checker) -> None:
    outputs = right(checker)
    prepare(checker, {**outputs, RANDOM: outputs[RANDOM] * np.float32(np.nan)})
    same, check = checker.taught(MODULE)
    assert same is checker
    assert (check.failure, check.error, check.detail) == ("wrong-result", math.inf, "its result is not finite")
    # Whole numbers may overflow where random ones do not: then only the random ones are held against it.
    prepare(checker, {**outputs, WHOLE: outputs[WHOLE] * np.float32(np.inf)})
    taught, check = checker.taught(MODULE)
    assert check.ok
    assert list(taught.data.inputs) == [RANDOM]
    Path(checker.tools.iree_run_module).write_text("#!/bin/sh\nexit 1\n")
    same, check = checker.taught(MODULE)
    assert same is checker
    assert check.failure == "run-error"


def test_inputs_of_ones_own_are_the_ones_that_are_written(tmp_path: Path) -> None:
    given = tuple(np.full(operand.shape, 0.5, np.float32) for operand in PROBLEM.operands[:-1])
    folder = tmp_path / "new" / "data"
    for _ in range(2):
        data = Data.write(PROBLEM, folder, seed=1, given=given)
    first, _, poisoned = data.paths(RANDOM)
    assert np.array_equal(np.fromfile(first, np.float32), given[0].ravel())
    assert np.isnan(np.fromfile(poisoned, np.float32)).all()
    whole = PROBLEM.whole_inputs(1)
    assert whole is not None
    assert np.array_equal(np.fromfile(data.paths(WHOLE)[0], np.float32), whole[0].ravel())
