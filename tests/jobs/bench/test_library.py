"""A library in its own process: it computes what the reference says, refuses in words, and may crash without harm."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from autotuner.devices.device import Computed
from autotuner.errors import EnvironmentFailure
from autotuner.iree.run import Invocation
from autotuner.jobs.bench.backends import LIBRARIES, Library
from autotuner.jobs.bench.given import Given, Task, given_problem
from autotuner.jobs.bench.library import LibraryProcess, open_library
from autotuner.jobs.bench.sides import Manner, NoSideError
from autotuner.measure.check import Check
from autotuner.problems import Gemm, Problem
from autotuner.problems.epilogue import Epilogue
from tests.support.bare_device import BareDevice

CALL = Invocation("main", (), ("f32",))
MANNER = Manner(BareDevice(), seconds=0.001, timeout=60.0, on_host=True)


def asked(task: Task) -> Given:
    """A task of no inputs."""
    return Given(task, CALL, (), ("f32",), lambda *_: Check(None, 0.0))


@dataclass(frozen=True)
class _Own(Library):
    """A library whose script a test writes."""

    path: Path = Path()

    @property
    def script(self) -> Path:
        return self.path


def opened(library: Library, folder: Path) -> Iterator[LibraryProcess]:
    with open_library(
        library,
        python=Path(sys.executable),
        device="local-task",
        on_host=True,
        folder=folder,
    ) as process:
        yield process


@pytest.fixture(scope="module")
def numpy_process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibraryProcess]:
    yield from opened(LIBRARIES["numpy"], tmp_path_factory.mktemp("numpy"))


@pytest.mark.parametrize(
    "problem",
    [
        Gemm(16, 24, 8, dtype="f32"),
        Gemm(16, 24, 8, dtype="f32", layout="tt", batch=2),
        Gemm(16, 24, 8, dtype="f32", epilogue=Epilogue(bias=True, residual=True, low=0.0)),
    ],
    ids=lambda problem: problem.name,
)
def test_numpy_computes_what_the_reference_says(
    problem: Problem, numpy_process: LibraryProcess, tmp_path: Path
) -> None:
    given = given_problem(problem, tmp_path, seed=3)
    side = numpy_process.prepare(given, MANNER)
    computed = side.computed
    assert given.check(computed, ["f32"]).ok
    wrong = replace(computed, arrays=(computed.arrays[0] + np.float32(0.1),))
    assert given.check(wrong, ["f32"]).failure == "wrong-result"
    warm, cold = side.time(2), numpy_process.timed(MANNER, 1, sets=3)
    assert len(warm.us) == 2
    assert len(cold.us) == 1
    assert warm.conditions is not None
    assert cold.conditions is not None
    assert (warm.conditions.cache, cold.conditions.cache) == ("warm", "cold")


def test_a_result_of_a_narrower_type_may_be_off_by_its_last_rounding(tmp_path: Path) -> None:
    problem = Gemm(16, 24, 8, dtype="f32")
    given = given_problem(problem, tmp_path, seed=3)
    inputs = problem.inputs(3)
    rounded = problem.reference(inputs).astype(np.float16)
    assert given.check(Computed((rounded,)), ["f16"]).ok
    assert not given.check(Computed((rounded.astype(np.float32),)), ["f32"]).ok


SCRIPT = """
import os, time
import numpy as np
class Library:
    title, version = "own", "1"
    def __init__(self, device, threads): {opening}
    def timer(self, call, sets, plain): return lambda: (call["compute"](), (0.001, 2))[1]
    def work(self, task, arrays): return {"how": "by hand", "compute": lambda: np.zeros(1, np.float32), "inputs": ()}
    def crash(self, task, arrays): return {**self.work(task, arrays), "compute": Later(os.abort)}
    def hang(self, task, arrays): return {**self.work(task, arrays), "compute": Later(lambda: time.sleep(60))}
    def broken(self, task, arrays): raise ValueError("not today")
class Later:
    def __init__(self, then): self.then, self.calls = then, 0
    def __call__(self):
        self.calls += 1
        return np.zeros(1, np.float32) if self.calls == 1 else self.then()
"""


def own(folder: Path, opening: str = "pass") -> Library:
    script = folder / "own_library.py"
    script.write_text(SCRIPT.replace("{opening}", opening))
    return _Own("own", "pip install own", path=script)


def test_a_library_that_crashes_hangs_or_raises_is_a_failure_and_the_next_problem_is_computed(tmp_path: Path) -> None:
    for process in opened(own(tmp_path), tmp_path / "own"):
        with pytest.raises(NoSideError, match="ValueError: not today") as raised:
            process.prepare(asked({"op": "broken"}), MANNER)
        assert raised.value.failure == "run-error"
        crashed = process.prepare(asked({"op": "crash"}), MANNER).time(1)
        assert (crashed.failure, "SIGABRT" in crashed.detail) == ("run-error", True)
        hangs = process.prepare(asked({"op": "hang"}), replace(MANNER, timeout=0.5))
        assert hangs.time(1).failure == "run-timeout"
        works = process.prepare(asked({"op": "work"}), replace(MANNER, on_host=False))
        assert works.time(1).us == (500.0,)


def test_a_library_that_finds_no_device_says_so(tmp_path: Path) -> None:
    broken = own(tmp_path, "raise RuntimeError('there is no GPU')")
    with pytest.raises(EnvironmentFailure, match=r"own does not start on cpu .*there is no GPU"):
        next(opened(broken, tmp_path / "own"))
