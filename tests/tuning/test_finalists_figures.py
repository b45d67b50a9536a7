"""NVIDIA's assembler is asked about what enters a race, once, and about nothing else of a search."""

from __future__ import annotations

import stat
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.store.rows import NewRun
from autotuner.store.store import Store
from autotuner.system.cache import Cache
from autotuner.tuning.contest import Finalists
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.plan import Candidate, Plan
from tests.support.patience import ENOUGH

GEMM = Gemm.parse(shape="256x256x256", dtype="f16")
PTXAS = """#!/bin/sh
for last; do :; done
name=$(sed -n 's/.*\\.entry \\([A-Za-z0-9_]*\\)(.*/\\1/p' "$last")
echo "$name" >> "{calls}"
echo "ptxas info    : Compiling entry function '$name' for 'sm_80'
    8 bytes stack frame, 16 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 42 registers" >&2
"""


class Measuring(Evaluator):
    """One whose builds are to be timed."""

    @property
    def measures(self) -> bool:
        return True

    def repeats(self, candidate: Candidate) -> int:
        del candidate
        return 3


@pytest.fixture
def calls(tmp_path: Path) -> Path:
    return tmp_path / "calls"


@pytest.fixture
def asking(tools: Tools, tmp_path: Path, calls: Path) -> Builder:
    """With an assembler that says of every kernel the same, and an empty cache."""
    ptxas = tmp_path / "ptxas"
    ptxas.write_text(PTXAS.format(calls=calls))
    ptxas.chmod(stat.S_IRWXU)
    return Builder(replace(tools, ptxas=ptxas), Cache(tmp_path / "own"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(None, workspace=tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("repeat", [3, 5])
def test_registers_are_read_of_a_finalist_and_not_of_what_is_screened(
    make_plan: Callable[[Gemm, str], Plan],
    asking: Builder,
    store: Store,
    executor: Executor,
    calls: Path,
    tmp_path: Path,
    repeat: int,
) -> None:
    plan, run = make_plan(GEMM, "sm_80"), store.start_run(NewRun("single", "", (), {}, "sm_80", "cuda", seed=0))
    evaluator = Measuring(plan, asking, store, run, tmp_path, frozenset(), ENOUGH)
    builds = BuildExecutor.on(executor, asking)
    outcome, future = evaluator.submit(plan.candidate(plan.first[0], id="c0000"), builds)
    assert evaluator.settle_build(outcome, future.result())
    screened = store.isa(run)[outcome.row]
    assert (screened.source, screened.registers, calls.exists()) == ("ptx", None, False)

    again = evaluator.start_build(outcome.candidate, builds, repeat=repeat, figured=True)
    finalists = Finalists(("c0000",), {}, {"c0000": again}).collect(evaluator)
    assert finalists["c0000"].repeat == repeat
    assert outcome.build is not None
    assert finalists["c0000"].binary == outcome.build.binary
    known = store.isa(run)[outcome.row]
    assert known == outcome.build.isa == finalists["c0000"].isa
    assert known == replace(screened, registers=42, spill_bytes=40, stack_bytes=8, source="ptxas")
    assert len(calls.read_text().splitlines()) == 1


def test_what_is_not_timed_has_its_registers_at_once(
    make_plan: Callable[[Gemm, str], Plan], asking: Builder, store: Store, tmp_path: Path
) -> None:
    plan = make_plan(GEMM, "sm_80")
    evaluator = Evaluator(plan, asking, store, "", tmp_path, frozenset(), ENOUGH, elsewhere=True)
    candidate = plan.candidate(plan.first[0], id="c0000")
    assert evaluator.job(candidate).figures == "ptxas"
    assert asking.build(evaluator.job(candidate)).isa.registers == 42
