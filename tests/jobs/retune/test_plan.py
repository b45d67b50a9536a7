"""What a retuning is of: the time that it may take goes by what finding it took."""

from __future__ import annotations

from pathlib import Path

from autotuner.jobs.retune.origin import Part
from autotuner.jobs.retune.run import Plan
from autotuner.jobs.retune.unit import Unit
from autotuner.problems import Gemm
from autotuner.targets import Target


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
