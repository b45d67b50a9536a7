"""What becomes of an entry: rules on what was proven and timed; and what a rehearsal says."""

from pathlib import Path

import pytest

from autotuner.jobs.retune.plan import SECONDS, Part, Plan
from autotuner.jobs.retune.races import Searched, decide, standing
from autotuner.jobs.retune.result import EntryRow, Raced, RetuneDetails, State
from autotuner.jobs.retune.unit import Unit
from autotuner.measure.blocks import Interval
from autotuner.problems import Gemm
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.result import Files

WIN = Raced("win", "fresh blocks", us=100.0, baseline_us=150.0, speedup=Interval(1.5, 1.4, 1.6))
EQUAL = Raced("no-winner", "not faster", us=100.0, baseline_us=100.0, speedup=Interval(1.0, 0.99, 1.005))
OPEN = Raced("inconclusive", "not raced: --budget 35s would do", us=100.0, baseline_us=150.0)
BROKEN = Raced("inconclusive", "wrong", failure="it computes wrong results")
FOUND, NOTHING = (
    Searched("1.6x over the default", Files(Path("new.mlir"), Path("new.flags"))),
    Searched("no-winner, none is faster"),
)


@pytest.mark.parametrize(
    ("lost", "raced", "searched", "state", "words"),
    [
        ("", WIN, None, "kept", "still faster than IREE's default: 1.50x (1.40x to 1.60x)"),
        ("", None, None, "kept", "nothing was timed"),
        ("", OPEN, None, "kept", "the race has no verdict (not raced: --budget 35s would do)"),
        ("", EQUAL, NOTHING, "dropped", "no longer faster than IREE's default: 1.00x (0.99x to 1.00x)"),
        ("", EQUAL, FOUND, "replaced", "found a faster one: 1.6x over the default"),
        ("", BROKEN, NOTHING, "dropped", "it computes wrong results"),
        ("nothing matches it", None, None, "dropped", "nothing matches it"),
        ("nothing matches it", None, NOTHING, "dropped", "nothing matches it; a search: no-winner"),
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


def test_a_rehearsal_names_each_program_and_divides_the_time() -> None:
    problems = [Gemm.parse(shape=f"8x8x{k}", dtype="f32") for k in (8, 16)]
    parts = [Part(Unit(Path(f"{one.k}.mlir"), None, {}), {}, one) for one in problems]
    plan = Plan(Target.parse("cpu"), tuple(parts), (), ())
    for_all = plan.rehearsal(Options(budget=7.0)).to_json()
    assert [for_all["seconds"], *(one["seconds"] for one in for_all["parts"])] == [7.0, 3.5, 3.5]
    told = plan.rehearsal(Options())
    assert [one["seconds"] for one in told.to_json()["parts"]] == [SECONDS, SECONDS]
    lines = [f"{one.unit.spec}: {one.name}: " for one in parts]
    assert told.text().splitlines() == ["2 programs on cpu, at most 120 s", *lines]


@pytest.mark.parametrize(
    ("states", "code"),
    [(["failed", "skipped"], 5), (["failed", "kept"], 0), (["skipped"], 0), ([], 0)],
)
def test_the_exit_code_tells_that_all_failed(states: list[State], code: int) -> None:
    details = RetuneDetails(tuple(EntryRow(Path("a.mlir"), "a", "p", state, "why") for state in states))
    assert details.exit_code == code
