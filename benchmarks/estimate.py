"""How well the static score ranks, on candidates recorded on an NVIDIA H200: `python -m benchmarks.estimate`."""

from __future__ import annotations

import json
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pandas as pd

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.iree.figures import Isa
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.space import Config
from autotuner.system.cache import Cache
from autotuner.targets import Target
from autotuner.tuning.estimate import estimate
from autotuner.tuning.plan import Plan

RECORDED = Path("results/reference/h200/candidates.json")
"""`autotune export --json` of four runs."""
PROBLEMS: tuple[Problem, ...] = (
    Gemm.parse(shape="2048x2048x2048"),
    Conv.parse(shape="2x32x32x1280", filter="3x3x1280", pad="1x1"),
    Attention.parse(shape="1x16x2048x2048x64"),
    Attention.parse(shape="1x8x1024x1024x64", causal=True),
)
TOP = 5


def scored(problem: Problem, rows: list[dict[str, Any]], builder: Builder) -> pd.DataFrame:
    """Measured µs beside the score of every candidate that today's space still has."""
    target = Target.parse("sm_80")
    with ThreadPoolExecutor(2) as executor:
        plan = Plan.make(problem, target, BuildExecutor.on(executor, builder), timeout=120)
    found = []
    for row in rows:
        config = Config.of(row["config"])
        if row["problem"] != problem.name or row["kind"] != "codegen" or config not in plan.space:
            continue
        candidate = plan.candidate(config, id="recorded")
        if candidate.info is not None and candidate.dispatch is not None:
            losses = estimate(target, candidate.dispatch, candidate.info, Isa.from_json(row["isa"]))
            found.append({"us": row["us"], "score": losses.score})
    return pd.DataFrame(found)


def main() -> None:
    rows = json.loads(RECORDED.read_text())
    with tempfile.TemporaryDirectory() as folder:
        builder = Builder(Tools.find(), Cache(Path(folder)))
        for problem in PROBLEMS:
            frame = scored(problem, rows, builder)
            # Spearman's coefficient is Pearson's of the ranks.
            agreement = frame["score"].rank().corr(frame["us"].rank())
            times = frame["us"] / frame["us"].min()
            top = times[frame.nsmallest(TOP, "score").index].min()
            print(
                f"{problem.name}: {len(frame)} candidates, rank correlation {agreement:.2f}, "
                f"best of the top {TOP} by score {top:.2f}x the best, median {times.median():.2f}x"
            )


if __name__ == "__main__":
    main()
