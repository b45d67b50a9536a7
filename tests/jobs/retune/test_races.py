"""What becomes of an entry: rules on what was proven and timed; and how long all of it may take."""

from pathlib import Path

import pytest

from autotuner.jobs.retune.origin import Part
from autotuner.jobs.retune.plan import LEAST_SECONDS, Plan
from autotuner.jobs.retune.races import Raced, Searched, decide, standing
from autotuner.jobs.retune.unit import Unit
from autotuner.measure.blocks import Interval
from autotuner.problems import Gemm
from autotuner.targets import Target
from autotuner.tuning.options import Options

WIN = Raced("win", "fresh blocks", us=100.0, baseline_us=150.0, speedup=Interval(1.5, 1.4, 1.6))
EQUAL = Raced("no-winner", "not faster", us=100.0, baseline_us=100.0, speedup=Interval(1.0, 0.99, 1.005))
OPEN = Raced("inconclusive", "not raced: --budget 35s would do", us=100.0, baseline_us=150.0)
BROKEN = Raced("inconclusive", "wrong", failure="it computes wrong results")
FOUND, NOTHING = Searched("1.6x over the default", Path("new.flags")), Searched("no-winner, none is faster")


@pytest.mark.parametrize(
    ("lost", "raced", "searched", "state", "words"),
    [
        ("", WIN, None, "kept", "still faster than IREE's default: 1.500x (1.400 to 1.600)"),
        ("", None, None, "kept", "nothing was timed"),
        ("", OPEN, None, "kept", "the race has no verdict (not raced: --budget 35s would do)"),
        ("", EQUAL, NOTHING, "dropped", "no longer faster than IREE's default: 1.000x (0.990 to 1.005)"),
        ("", EQUAL, FOUND, "replaced", "found a faster one: 1.6x over the default"),
        ("", BROKEN, NOTHING, "dropped", "it computes wrong results"),
        ("nothing matches it", None, None, "dropped", "nothing matches it"),
        ("nothing matches it", None, NOTHING, "dropped", "nothing matches it; a search near its place: no-winner"),
        ("nothing matches it", None, FOUND, "replaced", "nothing matches it; a search"),
    ],
)
def test_an_entry_is_kept_replaced_or_dropped_with_its_reason(
    lost: str, raced: Raced | None, searched: Searched | None, state: str, words: str
) -> None:
    found, reason = decide(lost=lost, raced=raced, searched=searched)
    assert found == state
    assert words in reason
    assert standing(lost=lost, raced=raced)[0] == (state == "kept"), "what works is not searched again"


def part(file: str, *, shape: str, seconds: float | None) -> Part:
    return Part(Unit(Path(file)), problem=Gemm.parse(shape=shape, dtype="f32"), seconds=seconds)


def plan(*parts: Part) -> Plan:
    return Plan(Target.parse("cpu"), parts, (), ())


def test_all_of_it_is_a_tenth_of_the_first_tuning_and_at_least_what_a_comparison_takes() -> None:
    own = part("a.mlir", shape="8x8x8", seconds=400.0)
    other = part("b.mlir", shape="8x8x16", seconds=200.0)
    assert plan(own, other).first_seconds == 600.0
    assert plan(own, other).seconds(Options()) == pytest.approx(60.0)
    assert plan(own, other).seconds(Options(budget=7.0)) == 7.0
    unknown = part("c.mlir", shape="8x16x8", seconds=None)
    assert plan(own, unknown).first_seconds is None
    assert plan(unknown).seconds(Options()) == pytest.approx(0.1 * Options().effort.budget)
    assert plan(*[part("d.mlir", shape="8x8x8", seconds=1.0)] * 3).seconds(Options()) == 3 * LEAST_SECONDS


def test_a_rehearsal_names_each_program_and_divides_the_time() -> None:
    own = part("a.mlir", shape="8x8x8", seconds=400.0)
    other = part("b.mlir", shape="8x8x16", seconds=200.0)
    told = plan(own, other).rehearsal(Options())
    assert [one["seconds"] for one in told.to_json()["parts"]] == pytest.approx([30.0, 30.0])
    lines = [f"{one.unit.path}: {one.name}: flags alone" for one in (own, other)]
    assert told.text().splitlines() == ["2 programs on cpu, at most 60 s", *lines]
