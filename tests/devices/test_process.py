"""What iree-benchmark-module prints becomes µs per execution; what it does not print becomes a failure."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.build import Compiled
from autotuner.devices.device import INVOCATION_US, MAX_REPEAT, Timing, choose_repeat, more_often, screen
from autotuner.devices.process import ProcessDevice
from autotuner.iree.run import Benchmark, DispatchTime, Invocation, read_statistics
from autotuner.iree.tools import Tools
from autotuner.system.confine import supported

HOW = Benchmark(Invocation("main", ("4xf32=1",), ("f32",)), seconds=0.03, timeout=60)
Printing = Callable[..., ProcessDevice]


def module(repeat: int = 1) -> Compiled:
    return Compiled(None, "", 1.0, (), Path("module.vmfb"), repeat)


def run(time: float, unit: str = "ms", **more: Any) -> dict[str, Any]:
    return {"name": "BM_main", "run_type": "iteration", "real_time": time, "time_unit": unit, **more}


def document(runs: Sequence[dict[str, Any]]) -> str:
    mean = {"name": "mean", "run_type": "aggregate", "real_time": 12345.0, "time_unit": "ms"}
    return json.dumps({"context": {}, "benchmarks": [*runs, mean]})


@pytest.fixture
def printing(tools: Tools, tmp_path: Path) -> Printing:
    """printing(texts): a device whose iree-benchmark-module prints these, one a call; `calls` counts them."""

    def make(*texts: str, code: int = 0, stderr: str = "") -> ProcessDevice:
        for i, text in enumerate(texts):
            (tmp_path / f"answer{i}").write_text(text)
        script = tmp_path / "iree-benchmark-module"
        script.write_text(
            f'#!/bin/sh\ncd "{tmp_path}"\necho "$*" >> calls\nn=$(($(wc -l < calls) - 1))\n'
            f"echo '{stderr}' >&2\ncat answer$n\nexit {code}\n"
        )
        script.chmod(0o755)
        return ProcessDevice(replace(tools, iree_benchmark_module=script), "local-task", tmp_path)

    return make


@pytest.mark.skipif(supported() < 3, reason="this system has no Landlock")
def test_programs_of_ones_own_build_write_to_their_folder_alone(printing: Printing, tmp_path: Path) -> None:
    (scratch := tmp_path / "scratch").mkdir()
    device = replace(printing(document([run(1.0)])), scratch=scratch)
    assert device.time(module(), HOW).failure == "run-error"
    assert not (tmp_path / "calls").exists()


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize(("unit", "factor"), [("ns", 1e-3), ("us", 1.0), ("ms", 1e3), ("s", 1e6)])
def test_every_unit_becomes_microseconds(printing: Printing, unit: str, factor: float) -> None:
    timing = printing(document([run(2.5, unit), run(3.5, unit), run(30.0, unit)])).time(module(), HOW, repetitions=3)
    assert timing.ok
    assert timing.us == pytest.approx((2.5 * factor, 3.5 * factor, 30.0 * factor))
    assert timing.median == pytest.approx(3.5 * factor)


def test_the_time_is_divided_by_the_repeats_of_the_module(printing: Printing) -> None:
    timing = printing(document([run(64.0)])).time(module(repeat=64), HOW, repetitions=1)
    assert timing.us == pytest.approx((1000.0,))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no JSON",
        "[]",
        '{"benchmarks": null}',
        document([]),
        document([run(1.0, "fortnights")]),
        document([{"run_type": "iteration"}]),
        document([run(1.0), run(0.0, error_occurred=True, error_message="the device is lost")]),
        document([run(0.0, error_occurred=True)]),
        *(document([run(1.0), run(time)]) for time in (0.0, -1.0, math.nan, math.inf)),
    ],
)
def test_output_without_times_is_a_run_error(printing: Printing, text: str) -> None:
    timing = printing(text, stderr="what the tool said").time(module(), HOW, repetitions=2)
    assert timing.failure == "run-error"
    assert not timing.ok
    assert timing.us == ()
    assert timing.median == math.inf
    assert "what the tool said" in timing.detail
    assert ("the device is lost" in timing.detail) == ("the device is lost" in text)


def test_a_benchmark_that_fails_is_a_run_error_with_its_words(printing: Printing) -> None:
    timing = printing(document([run(1.0)]), code=1, stderr="no such device").time(module(), HOW, repetitions=1)
    assert timing.failure == "run-error"
    assert timing.detail == "no such device"


@pytest.mark.parametrize("best_us", [math.inf, 1.0])
def test_screening_takes_three_repetitions_in_one_process(printing: Printing, tmp_path: Path, best_us: float) -> None:
    timing = screen(printing(document([run(29.0), run(31.0), run(30.0)])), module(), HOW, best_us=best_us)
    assert timing.us == pytest.approx((29_000.0, 31_000.0, 30_000.0))
    (call,) = calls(tmp_path)
    assert "--benchmark_repetitions=3" in call


def test_the_benchmark_is_told_how_long_and_on_what(printing: Printing, tmp_path: Path) -> None:
    printing(document([run(1.0)])).time(module(), HOW, repetitions=1)
    words = calls(tmp_path)[0].split()
    assert "--benchmark_min_time=0.03s" in words
    assert {"--module=module.vmfb", "--function=main", "--device=local-task", "--input=4xf32=1"} <= set(words)


@pytest.mark.parametrize("text", ["", "{}", document([run(1.0)])])
def test_output_without_statistics_tells_of_no_dispatch(printing: Printing, text: str) -> None:
    assert printing(text).dispatch_times(Path("module.vmfb"), HOW.invocation, timeout=60) is None


def test_statistics_are_us_of_one_call() -> None:
    one = {"percent": 75.0, "calls": 2.0, "real_time": 1.5, "cpu_time": 2.5, "time_unit": "ms"}
    other = {"percent": 25.0, "calls": 1.0, "real_time": 500.0, "time_unit": "us"}
    rows = [run(2.0), {"name": "BM_main/a", **one}, {"name": "BM_main/b/c", **other}]
    found = {"a": DispatchTime(1500.0, 2.0), "b/c": DispatchTime(500.0)}
    assert read_statistics(json.dumps({"benchmarks": rows})) == found


def test_a_timing_without_repetitions_is_infinitely_slow() -> None:
    assert Timing(()).median == math.inf
    assert Timing((3.0, 1.0, 2.0)).median == 2.0


@pytest.mark.parametrize(
    ("us", "repeat"), [(math.inf, 40), (80.0, 40), (75.0, 40), (74.0, 80), (14.0, 320), (1e-3, 1280), (0.0, 1280)]
)
def test_what_may_be_faster_repeats_more_often(us: float, repeat: int) -> None:
    assert more_often(40, us, invocation_us=3000.0) == repeat
    assert more_often(3 * MAX_REPEAT, us, invocation_us=3000.0) == 3 * MAX_REPEAT


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


RUN = """#!/bin/sh
for word in "$@"; do
  case "$word" in --output=@*) out="${word#--output=@}" ;; esac
done
"""


@pytest.mark.parametrize(
    ("ending", "words"),
    [
        ('cp prepared.npy "$out"; echo out of luck >&2; exit 3', "out of luck"),
        ("exit 0", "exit code 0"),
        ('echo no array > "$out"', "cannot be read"),
    ],
    ids=["ends badly", "writes nothing", "writes no array"],
)
def test_only_a_run_that_ends_well_with_a_result_has_one(tools: Tools, tmp_path: Path, ending: str, words: str) -> None:
    np.save(tmp_path / "prepared.npy", np.ones(4, np.float32))
    script = tmp_path / "iree-run-module"
    device = ProcessDevice(replace(tools, iree_run_module=script), "local-task", tmp_path)
    for last in ('cp prepared.npy "$out"', ending):
        script.write_text(f"{RUN}cd {tmp_path}\n{last}\n")
        script.chmod(0o755)
        (computed,) = device.check(Path("module.vmfb"), [HOW.invocation], timeout=60)
        assert (computed.failure is None) == (last != ending)
    assert (computed.failure, computed.arrays) == ("run-error", ())
    assert words in computed.detail
