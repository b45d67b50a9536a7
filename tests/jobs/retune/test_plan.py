"""What a retuning is of: the time that it may take goes by what finding it took."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.jobs.retune.origin import Part
from autotuner.jobs.retune.plan import BESIDE, LEAST_SECONDS, STARTING, Plan
from autotuner.jobs.retune.unit import Unit
from autotuner.problems import Gemm
from autotuner.targets import Target
from autotuner.tuning.options import Options


def part(file: str, *, shape: str, seconds: float | None) -> Part:
    return Part(Unit(Path(file)), problem=Gemm.parse(shape=shape, dtype="f32"), seconds=seconds)


def plan(*parts: Part) -> Plan:
    return Plan(Target.parse("cpu"), parts, (), ())


def test_what_one_tuning_found_counts_once_in_however_many_files_it_stands() -> None:
    own = part("a.mlir", shape="8x8x8", seconds=40.0)
    merged = part("suite.mlir", shape="8x8x8", seconds=40.0)
    other = part("suite.mlir", shape="8x8x16", seconds=40.0)
    later = part("b.mlir", shape="8x8x8", seconds=30.0)
    assert plan(own, merged).first_seconds == 40.0
    assert plan(own, merged, other).first_seconds == 80.0, "another problem, in as long"
    assert plan(own, merged, later).first_seconds == 70.0, "two tunings of one problem"
    assert plan(own, part("c.mlir", shape="8x16x8", seconds=None)).first_seconds is None
    assert plan().first_seconds is None


def test_all_of_it_is_a_tenth_from_the_start_of_the_process_to_its_end() -> None:
    own = part("a.mlir", shape="8x8x8", seconds=400.0)
    other = part("b.mlir", shape="8x8x16", seconds=200.0)
    assert plan(own, other).seconds(Options()) == pytest.approx(60.0 - BESIDE)
    assert plan(own, other).seconds(Options(budget=7.0)) == 7.0
    unknown = part("c.mlir", shape="8x16x8", seconds=None)
    assert plan(unknown).seconds(Options()) == pytest.approx(0.1 * Options().effort.budget - BESIDE)


def test_the_least_is_for_starting_once_and_for_each_race_once() -> None:
    small = [part(f"{n}.mlir", shape=f"8x8x{n}", seconds=10.0) for n in (8, 16, 32)]
    assert plan(small[0]).seconds(Options()) == STARTING + LEAST_SECONDS
    assert plan(*small).seconds(Options()) == STARTING + 3 * LEAST_SECONDS
    merged = replace(small[0], unit=Unit(Path("suite.mlir")))
    whole = plan(*small, merged)
    assert whole.seconds(Options()) == plan(*small).seconds(Options()), "it is raced in the other file"
    assert [whole.share(one, Options()) for one in whole.parts] == [LEAST_SECONDS] * 3 + [0.0]


@pytest.mark.parametrize("seconds", [20.0, 80.0, 400.0])
@pytest.mark.parametrize("budget", [None, 7.0])
def test_a_rehearsal_gives_one_program_the_time_of_the_whole(seconds: float, budget: float | None) -> None:
    options = Options(budget=budget)
    own = plan(part("a.mlir", shape="8x8x8", seconds=seconds))
    told = own.rehearsal(options)
    assert told.to_json()["parts"][0]["seconds"] == told.to_json()["seconds"] == own.seconds(options)
    first, second = told.text().splitlines()
    whole = f"{own.seconds(options):.0f} s"
    assert first == f"1 program on cpu, at most {whole}"
    assert second == f"a.mlir: {own.parts[0].name}, {whole}: flags alone"


def test_a_rehearsal_divides_the_time_as_the_run_does() -> None:
    own = part("a.mlir", shape="8x8x8", seconds=400.0)
    other = part("b.mlir", shape="8x8x16", seconds=200.0)
    told = plan(own, other).rehearsal(Options()).to_json()
    assert [one["seconds"] for one in told["parts"]] == pytest.approx([told["seconds"] * 2 / 3, told["seconds"] / 3])
