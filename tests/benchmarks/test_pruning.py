"""The rule that leaves working configurations out, judged by recorded times."""

from __future__ import annotations

from concurrent.futures import Executor
from pathlib import Path

import benchmarks
from autotuner.build import Builder
from autotuner.problems import Gemm
from benchmarks.learning import read
from benchmarks.pruning import BEHIND, recorded_copies


def test_no_good_candidate_copies_too_much(builder: Builder, executor: Executor) -> None:
    recorded = [
        one for one in read([Path(benchmarks.__file__).parent / "replay/iree"]) if isinstance(one.problem, Gemm)
    ]
    judged = [recorded_copies(one, "sm_80", builder, executor) for one in recorded]
    assert len(judged) == 3
    assert all(slow.rejected > 40 and slow.ratio >= BEHIND for slow in judged)
