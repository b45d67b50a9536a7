"""What iree-benchmark-module prints becomes µs per execution; what it does not print becomes a failure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.carriers.render import problem_mlir
from autotuner.devices.timer import INVOCATION_US, MAX_REPEAT, Timer, Timing, choose_repeat
from autotuner.iree.tools import Tools
from autotuner.measure.check import Data
from autotuner.problems import Gemm
from autotuner.targets import Target

SMALL = Gemm.parse(shape="16x16x16", dtype="f32")
Printing = Callable[..., Timer]


def module(repeat: int = 1) -> Compiled:
    return Compiled(None, "", 1.0, (), Path("module.vmfb"), repeat)


def run(time: float, unit: str = "ms", **more: Any) -> dict[str, Any]:
    return {"name": "BM_main", "run_type": "iteration", "real_time": time, "time_unit": unit, **more}


def document(runs: Sequence[dict[str, Any]]) -> str:
    mean = {"name": "mean", "run_type": "aggregate", "real_time": 12345.0, "time_unit": "ms"}
    return json.dumps({"context": {}, "benchmarks": [*runs, mean]})


@pytest.fixture
def printing(tools: Tools, tmp_path: Path) -> Printing:
    """printing(texts): a timer whose iree-benchmark-module prints these, one a call; `calls` counts them."""

    def make(*texts: str, code: int = 0, stderr: str = "") -> Timer:
        for i, text in enumerate(texts):
            (tmp_path / f"answer{i}").write_text(text)
        script = tmp_path / "iree-benchmark-module"
        script.write_text(
            f'#!/bin/sh\ncd "{tmp_path}"\necho "$*" >> calls\nn=$(($(wc -l < calls) - 1))\n'
            f"echo '{stderr}' >&2\ncat answer$n\nexit {code}\n"
        )
        script.chmod(0o755)
        data = Data(SMALL, tmp_path / "data", 0)
        return Timer(replace(tools, iree_benchmark_module=script), data, "local-task", timeout=60)

    return make


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize(("unit", "factor"), [("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)])
def test_every_unit_becomes_microseconds(printing: Printing, unit: str, factor: float) -> None:
    timing = printing(document([run(2.5, unit), run(3.5, unit), run(30.0, unit)])).time(module(), repetitions=3)
    assert timing.ok
    assert timing.us == pytest.approx((2.5 * factor, 3.5 * factor, 30.0 * factor))
    assert timing.median == pytest.approx(3.5 * factor)


def test_the_time_is_divided_by_the_repeats_of_the_module(printing: Printing) -> None:
    timing = printing(document([run(64.0)])).time(module(repeat=64), repetitions=1)
    assert timing.us == pytest.approx((1000.0,))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "{}",
        "[]",
        '{"benchmarks": []}',
        '{"benchmarks": null}',
        document([]),
        document([run(1.0, "fortnights")]),
        document([{"run_type": "iteration"}]),
        document([run(1.0), run(0.0, error_occurred=True, error_message="the device is lost")]),
        document([run(0.0, error_occurred=True, error_message="")]),
        document([run(0.0, error_occurred=True)]),
    ],
)
def test_output_without_times_is_a_run_error(printing: Printing, text: str) -> None:
    timing = printing(text, stderr="what the tool said").time(module(), repetitions=2)
    assert timing.failure == "run-error"
    assert not timing.ok
    assert timing.us == ()
    assert timing.median == math.inf
    assert "what the tool said" in timing.detail


def test_the_benchmarks_own_error_is_told(printing: Printing) -> None:
    text = document([run(0.0, error_occurred=True, error_message="the device is lost")])
    assert "the device is lost" in printing(text).time(module(), repetitions=1).detail


def test_a_benchmark_that_fails_is_a_run_error_with_its_words(printing: Printing) -> None:
    timing = printing(document([run(1.0)]), code=1, stderr="no such device").time(module(), repetitions=1)
    assert timing.failure == "run-error"
    assert timing.detail == "no such device"


def test_screening_takes_three_repetitions(printing: Printing, tmp_path: Path) -> None:
    timer = printing(document([run(29.0)]), document([run(31.0), run(30.0)]))
    timing = timer.screen(module(), best_us=10_000.0)
    assert timing.us == pytest.approx((29_000.0, 31_000.0, 30_000.0))
    assert not timing.aborted
    assert ["--benchmark_repetitions=1" in c for c in calls(tmp_path)] == [True, False]
    assert "--benchmark_repetitions=2" in calls(tmp_path)[1]


def test_screening_stops_at_three_times_the_best(printing: Printing, tmp_path: Path) -> None:
    timing = printing(document([run(31.0)])).screen(module(), best_us=10_000.0)
    assert timing.ok
    assert timing.aborted
    assert timing.us == pytest.approx((31_000.0,))
    assert len(calls(tmp_path)) == 1


def test_nothing_is_slow_before_there_is_a_best(printing: Printing, tmp_path: Path) -> None:
    timing = printing(document([run(1e6)]), document([run(1e6), run(1e6)])).screen(module(), best_us=math.inf)
    assert len(timing.us) == 3
    assert len(calls(tmp_path)) == 2


def test_a_failure_while_screening_is_a_failure(printing: Printing, tmp_path: Path) -> None:
    first = printing("no JSON").screen(module(), best_us=math.inf)
    assert first.failure == "run-error"
    assert not first.aborted
    (tmp_path / "calls").unlink()
    second = printing(document([run(1.0)]), "no JSON").screen(module(), best_us=math.inf)
    assert second.failure == "run-error"


def test_a_timing_without_repetitions_is_infinitely_slow() -> None:
    assert Timing(()).median == math.inf
    assert Timing((3.0, 1.0, 2.0)).median == 2.0


@pytest.mark.parametrize(
    ("us", "repeat"), [(INVOCATION_US, 1), (INVOCATION_US * 9, 1), (INVOCATION_US / 2, 2), (INVOCATION_US / 2.5, 3)]
)
def test_repeats_fill_an_invocation(us: float, repeat: int) -> None:
    assert choose_repeat(us) == repeat


@given(st.floats(0.0, 1e9))
def test_repeats_stay_within_bounds_and_are_enough(us: float) -> None:
    repeat = choose_repeat(us)
    assert 1 <= repeat <= MAX_REPEAT
    assert repeat == MAX_REPEAT or repeat * us >= INVOCATION_US * (1 - 1e-9)


def test_real_times_are_positive_and_do_not_depend_on_the_repeats(
    builder: Builder, tools: Tools, tmp_path: Path
) -> None:
    problem = Gemm.parse(shape="256x256x256", dtype="f32")
    job = BuildJob(problem_mlir(problem), Target.parse("cpu").compile_flags, timeout=120)
    once, often = (builder.build(replace(job, repeat=repeat)) for repeat in (1, 8))
    timer = Timer(tools, Data.write(problem, tmp_path / "data", seed=0), "local-sync", timeout=120)
    times = {build.repeat: timer.time(build, repetitions=5) for build in (once, often)}
    assert all(t.ok and len(t.us) == 5 and min(t.us) > 0 for t in times.values())
    assert 1 / 3 < min(times[8].us) / min(times[1].us) < 3
    # 2·256³ operations in less than 10 µs would be 3 TFLOP/s from one core.
    assert min(times[1].us) > 10


def test_a_real_module_that_is_missing_is_a_run_error(tools: Tools, tmp_path: Path) -> None:
    timer = Timer(tools, Data.write(SMALL, tmp_path / "data", seed=0), "local-sync", timeout=120)
    timing = timer.time(replace(module(), vmfb=tmp_path / "missing.vmfb"), repetitions=1)
    assert timing.failure == "run-error"
    assert "missing.vmfb" in timing.detail


def test_a_run_that_takes_too_long_is_a_time_out(tools: Tools, tmp_path: Path) -> None:
    hanging = tmp_path / "iree-benchmark-module"
    hanging.write_text("#!/bin/sh\nsleep 300\n")
    hanging.chmod(0o755)
    data = Data(SMALL, tmp_path / "data", 0)
    timer = Timer(replace(tools, iree_benchmark_module=hanging), data, "local-sync", timeout=0.2)
    timing = timer.screen(module(), best_us=math.inf)
    assert timing.failure == "run-timeout"
    assert "killed after" in timing.detail
