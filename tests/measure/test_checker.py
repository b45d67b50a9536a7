"""What the checker makes of results: both sets of inputs count, and what is not there is never right."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from autotuner.devices.device import Computed
from autotuner.iree.run import Invocation
from autotuner.measure.check import RANDOM, WHOLE, Check, Checker, Data
from autotuner.problems import Array, Gemm, Operand
from tests.support.bare_device import BareDevice

PROBLEM = Gemm.parse(shape="6x10x16", dtype="f32")
MODULE = Path("module.vmfb")


@dataclass
class Prepared(BareDevice):
    """A device whose modules compute what is prepared, by the set of inputs; none: they do not run."""

    outputs: dict[str, Array] = field(default_factory=dict)
    several: dict[str, tuple[Array, ...]] = field(default_factory=dict)
    """The same where there is more than one result."""

    def check(self, vmfb: Path, invocations: Sequence[Invocation], *, timeout: float) -> tuple[Computed, ...]:
        assert (vmfb, timeout) == (MODULE, 60)
        names = [next(name for name in (RANDOM, WHOLE) if f"/{name}0.bin" in one.inputs[0]) for one in invocations]
        failed = Computed(failure="run-error", detail="out of luck")
        known = {name: (out,) for name, out in self.outputs.items()} | self.several
        return tuple(Computed(known[name]) if name in known else failed for name in names)


@pytest.fixture
def checker(tmp_path: Path) -> Checker:
    """Its module computes whatever `prepare` says."""
    return Checker(Prepared(), Data.write(PROBLEM, tmp_path / "data", seed=1), timeout=60)


def right(checker: Checker) -> dict[str, Array]:
    found = {name: PROBLEM.reference(inputs).astype(np.float32) for name, inputs in checker.data.inputs.items()}
    assert list(found) == [RANDOM, WHOLE]
    return found


def prepare(checker: Checker, outputs: dict[str, Array]) -> None:
    assert isinstance(checker.device, Prepared)
    checker.device.outputs = outputs


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
    assert len(out) == 1
    assert np.array_equal(out[0], outputs[RANDOM])


@pytest.mark.parametrize("wrong", [RANDOM, WHOLE])
def test_a_result_that_is_wrong_on_one_set_is_refused_and_says_on_which(checker: Checker, wrong: str) -> None:
    outputs = right(checker)
    prepare(checker, {**outputs, wrong: changed(outputs[wrong])})
    out, check = checker.answer(MODULE)
    assert check.failure == "wrong-result"
    assert check.detail.startswith("on whole numbers: relative error" if wrong == WHOLE else "relative error")
    assert "element (2, 3)" in check.detail
    assert len(out) == 1


def test_whole_numbers_must_come_out_as_they_are_stored(checker: Checker) -> None:
    outputs = right(checker)
    last = outputs[WHOLE].copy()
    last[0, 0] = np.nextafter(last[0, 0], np.float32(np.inf))
    prepare(checker, {**outputs, WHOLE: last})
    assert checker.check(MODULE).failure == "wrong-result"


def test_a_module_that_does_not_run_has_no_result(checker: Checker) -> None:
    out, check = checker.answer(MODULE)
    assert out == ()
    assert (check.failure, check.error, check.detail) == ("run-error", math.inf, "out of luck")


def test_a_trusting_checker_takes_the_modules_results_for_the_right_ones(checker: Checker) -> None:
    outputs = {name: changed(out) for name, out in right(checker).items()}
    prepare(checker, outputs)
    assert not checker.check(MODULE).ok
    trusting, check = checker.trusting(MODULE)
    assert (check, trusting.data.knows) == (Check(None, 0.0), True)
    assert trusting.check(MODULE).ok
    for name in (RANDOM, WHOLE):
        prepare(checker, {**outputs, name: changed(outputs[name])})
        assert trusting.check(MODULE).failure == "wrong-result", name


def test_nothing_is_learnt_from_a_module_that_does_not_run_or_computes_no_numbers(checker: Checker) -> None:
    outputs = right(checker)
    prepare(checker, {**outputs, RANDOM: outputs[RANDOM] * np.float32(np.nan)})
    same, check = checker.trusting(MODULE)
    assert same is checker
    assert (check.failure, check.error, check.detail) == ("wrong-result", math.inf, "its result is not finite")
    # Whole numbers may overflow where random ones do not: then only the random ones are held against it.
    prepare(checker, {**outputs, WHOLE: outputs[WHOLE] * np.float32(np.inf)})
    trusting, check = checker.trusting(MODULE)
    assert check.ok
    assert list(trusting.data.inputs) == [RANDOM]
    prepare(checker, {})
    same, check = checker.trusting(MODULE)
    assert same is checker
    assert check.failure == "run-error"


class Twice(Gemm):
    """A product that is computed and written twice."""

    results = 2

    @property
    def operands(self) -> tuple[Operand, ...]:
        return (*super().operands, self.output)

    @property
    def output(self) -> Operand:
        return super().operands[-1]

    def inputs(self, seed: int) -> tuple[Array, ...]:
        return super().inputs(seed)[:2]

    def whole_inputs(self, seed: int) -> tuple[Array, ...] | None:
        whole = super().whole_inputs(seed)
        return whole and whole[:2]


def test_every_result_is_poisoned_learnt_and_compared(tmp_path: Path) -> None:
    problem = Twice.parse(shape="6x10x16", dtype="f32")
    device = Prepared()
    data = Data.write(problem, tmp_path, seed=1)
    one = problem.reference(data.inputs[RANDOM]).astype(np.float32)
    assert [Path(text.partition("@")[2]).name for text in data.invocation().inputs[2:]] == ["poison.bin", "poison1.bin"]
    assert data.invocation().results == ("f32", "f32")
    device.several = {RANDOM: (one, 2 * one), WHOLE: (one, one)}
    trusting, check = Checker(device, data, timeout=60).trusting(MODULE)
    assert check.ok
    assert trusting.check(MODULE).ok
    device.several = {**device.several, RANDOM: (one, changed(2 * one))}
    check = trusting.check(MODULE)
    assert check.failure == "wrong-result"
    assert check.detail.startswith("result 1: relative error")
    device.several = {RANDOM: (one,), WHOLE: (one,)}
    assert trusting.check(MODULE).detail == "1 results came out, not 2"


def test_seeded_inputs_are_the_ones_that_are_written(tmp_path: Path) -> None:
    given = PROBLEM.inputs(1)
    folder = tmp_path / "new" / "data"
    for _ in range(2):
        data = Data.write(PROBLEM, folder, seed=1)
    first, _, poisoned = data.paths(RANDOM)
    assert np.array_equal(np.fromfile(first, np.float32), given[0].ravel())
    assert np.isnan(np.fromfile(poisoned, np.float32)).all()
    whole = PROBLEM.whole_inputs(1)
    assert whole is not None
    assert np.array_equal(np.fromfile(data.paths(WHOLE)[0], np.float32), whole[0].ravel())
