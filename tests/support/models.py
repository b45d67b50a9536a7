"""Small models, and runs over them with chosen times."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotuner import Options, Target
from autotuner.iree.program import ONE_THREAD
from autotuner.iree.tools import Tools
from autotuner.jobs.model.result import ModelResult
from autotuner.jobs.model.tuner import tune_model
from autotuner.programs.model import Model
from autotuner.system import process
from autotuner.system.settings import cache_dir
from autotuner.tuning.options import Effort
from tests.support.fake_tools import ONE_ROUTE, FakeTools
from tests.support.patience import ENOUGH

EXAMPLES = Path(__file__).parents[1] / "jobs" / "model" / "examples"
EFFORT = Effort(trials=2, budget=1500.0, compile_only_trials=2, race_entrants=2)
"""The trials end it: the time is far more than it needs on any machine, and too little to race dispatches alone."""


def fake_tools(folder: Path, **settings: Any) -> FakeTools:
    return FakeTools(folder / "fake", cache_dir().parent / "labels", **settings)


def iree_compile(words: Sequence[str | Path], *, folder: Path | None = None) -> None:
    """As a user compiles, but with one thread: with several, IREE may wait for itself while it reads a tuning spec."""
    done = process.run([Tools.find().iree_compile, *words, ONE_THREAD], timeout=ENOUGH, cwd=folder)
    assert done.ok, done.why()


def run(
    name: str,
    folder: Path,
    fake: FakeTools | None,
    *,
    target: Target = ONE_ROUTE,
    model: dict[str, Any] | None = None,
    **more: Any,
) -> ModelResult:
    """Tunes an example; `model` says more of what is asked, `more` are options."""
    watch = {key: more.pop(key) for key in ("reporter", "stop") if key in more}
    usual = {"effort": EFFORT, "workspace": folder / "workspace", "command": ("autotune", "model", name)}
    settings: dict[str, Any] = {**usual, "microkernels": (), **more}
    wanted = Model(EXAMPLES / f"{name}.mlir", **(model or {}))
    return tune_model(wanted, target, options=Options(**settings), tools=fake.tools if fake else None, **watch)
