"""A default that is wrong is timed and told, never shipped; what is right can win.

IREE's own fault is real here: its attention for processors is wrong for heads wider than 128, and the targets of these
tests know no way around it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import pytest

from autotuner import Attention, Gemm, Result
from autotuner.devices.many import Devices
from autotuner.errors import WrongResultError
from autotuner.measure.reference import Reference
from autotuner.measure.standing import Standing
from autotuner.problems import Array
from autotuner.report import sections
from autotuner.report.history import history_records, run_tables, runs_table
from autotuner.report.reading import read
from autotuner.store.rows import CandidateRow
from autotuner.store.store import Store
from autotuner.targets import PLAIN
from autotuner.targets.base import decomposed_attention
from autotuner.targets.knobs import named_route
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import BASELINE, Candidate, Plan
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import read_result
from tests.support.fake_tools import BASE_MS, CPU, ONE_ROUTE, PROBLEM, SPEC, FakeTools, candidates, run

Fake = Callable[..., FakeTools]
WIDE = Attention.parse(shape="1x1x8x8x256", dtype="f32")
DECOMPOSED = named_route(CPU.knobs, "decomposed")
TWO_WAYS = replace(CPU, knobs=tuple(knob for knob in CPU.knobs if knob.name == "attention"))
RIGHT = "*decompose-attention*"


def wrong(result: Result) -> str:
    """That the default is, and by how much: that is another number on another processor."""
    assert result.reference is not None
    assert result.reference.default_error is not None
    assert 0.5 < result.reference.default_error < 1
    error = f"{result.reference.default_error:.3g}"
    return f"IREE's default gives wrong results for this problem (relative error {error} against numpy)"


def test_a_right_route_wins_over_a_wrong_default(fake: Fake, workspace: Path) -> None:
    result = run(fake(rules=[(RIGHT, BASE_MS / 2)]), workspace, target=TWO_WAYS, problem=WIDE, trials=1)
    assert result.reason.startswith(f"{wrong(result)}; what wins is right, and faster than it: ")
    assert (result.verdict, result.carrier) == ("win", "flags")
    assert result.flagfile is not None
    assert set(decomposed_attention()) <= {*result.flagfile.read_text().splitlines()}
    assert re.search(r"default    100.000 ms .*  with wrong results\n", Printer.of(result).text())
    document = json.loads(json.dumps(result.to_json()))
    assert document["baseline"]["us"] == pytest.approx(1000 * BASE_MS)
    assert document["reference"]["source"] == "numpy"
    assert document["reference"]["default_is_right"] is False
    assert document["reference"]["default_us"] == pytest.approx(1000 * BASE_MS)
    assert wrong(result) in document["notes"]
    (default,) = [row for row in candidates(workspace, result.run) if row.kind == "baseline"]
    assert (default.state, default.failure, default.us) == ("timed", "wrong-result", 1000 * BASE_MS)
    assert resumed(default) == ("wrong-result", 1000 * BASE_MS, default.error)
    counts = document["counts"]
    assert counts["timed"] + counts["duplicate"] + sum(counts["failed"].values()) == counts["asked"]
    again = read_result(document, workspace=workspace, storage=None)
    assert (again.default_is_wrong, again.reference) == (True, result.reference)
    with Store.open(None, workspace=workspace) as store:
        (record,) = history_records(store)
        (table,) = run_tables(store, result.run)
        failed = sections.failures(read(store, store.run(result.run)))
    assert record["default_is_right"] is False
    assert "win, default is wrong" in runs_table([record]).rows[0]
    assert table.caption.endswith(": IREE's default gives wrong results")
    assert failed is not None
    assert failed.tables[0].rows[0][:2] == ("wrong-result", "1"), "it has a time, and it is no less wrong"


def resumed(row: CandidateRow) -> tuple[str | None, float | None, float | None]:
    """What an interrupted run that goes on knows of its default."""
    plan, not_asked = Plan.bare(WIDE, CPU), cast(Any, None)
    evaluator = Evaluator(plan, not_asked, not_asked, "", Path(), frozenset(), 1.0, Devices(()))
    assert evaluator.restore([row], {}) == []
    found = evaluator.outcomes[BASELINE]
    return found.failure, found.us, found.error


def test_a_wrong_default_is_not_kept_where_all_that_is_right_is_slower(fake: Fake, workspace: Path) -> None:
    slower = run(fake(rules=[(SPEC, 2 * BASE_MS)]), workspace, target=ONE_ROUTE, problem=WIDE, trials=1)
    assert (slower.verdict, slower.flagfile) == ("no-winner", None)
    assert slower.reason.startswith(f"{wrong(slower)}; ")
    assert slower.reason.endswith("; the best that is right takes 2.00 times as long")
    assert (slower.stock.us, slower.best.us if slower.best else None) == (None, 2000 * BASE_MS)
    text = str(slower)
    (folder,) = [line.split()[1] for line in text.splitlines() if line.startswith("candidate  ")]
    assert (Path(folder) / "spec.mlir").is_file()
    assert "next       do not use IREE's default; compile with" in text


class Shifted(Gemm):
    """Of which nothing that IREE makes is right."""

    def reference(self, inputs: tuple[Array, ...]) -> Array:
        return super().reference(inputs) + 1


def test_where_nothing_right_is_found_the_run_ends_with_wrong_results(fake: Fake, workspace: Path) -> None:
    problem = Shifted(**{one.name: getattr(PROBLEM, one.name) for one in fields(PROBLEM) if one.init})
    found = r"\(relative error .* against numpy\), and nothing right was found: all 2 candidates failed \(wrong-result"
    with pytest.raises(WrongResultError, match=found) as caught:
        run(fake(rules=[(SPEC, BASE_MS / 2)]), workspace, problem=problem, trials=2)
    assert caught.value.exit_code == 4
    assert "report it to IREE" in str(caught.value)
    assert not [*(workspace / "specs").glob("*")]
    with Store.open(None, workspace=workspace) as store:
        (row,) = store.runs()
    assert (row.status, "wrong results" in (row.result or {})["reason"]) == ("failed", True)


# --- without a run ---------------------------------------------------------------------------------------------------


def outcome(name: str, us: float | None, *, failure: str | None = None, error: float | None = 0.5) -> Outcome:
    kind = "baseline" if name == BASELINE else "stock" if name == "stock-1" else "codegen"
    route = PLAIN if name == BASELINE else DECOMPOSED
    candidate = Candidate(name, kind, route, complexity=0)  # type: ignore[arg-type]
    return Outcome(candidate, 0, failure=failure, us=us, error=error)  # type: ignore[arg-type]


def standing(*outcomes: Outcome) -> Standing[Outcome]:
    return Standing({one.candidate.id: one for one in outcomes})


WRONG_ONE = outcome(BASELINE, 10.0, failure="wrong-result")


@pytest.mark.parametrize(
    ("default", "route_us", "base"),
    [(WRONG_ONE, 9.0, BASELINE), (WRONG_ONE, 11.0, "stock-1"), (outcome(BASELINE, 10.0), 11.0, BASELINE)],
)
def test_a_win_is_over_a_wrong_default_only_where_a_right_route_is_faster(
    default: Outcome, route_us: float, base: str
) -> None:
    found = standing(default, outcome("stock-1", route_us))
    assert found.base is not None
    assert found.base.candidate.id == base


def test_only_a_slower_right_route_is_named_with_what_it_costs() -> None:
    found = standing(WRONG_ONE, outcome("stock-1", 12.5))
    assert found.alone() == "route decomposed gives right ones, and takes 1.25 times as long"
    assert standing(WRONG_ONE, outcome("stock-1", 9.0)).alone() == ""
    assert standing(WRONG_ONE, outcome("c0001", 5.0)).stock is None, "a wrong default is no route"
    nan = outcome(BASELINE, 10.0, failure="wrong-result", error=None)
    assert "gives wrong results for this problem (not all of them are numbers)" in standing(nan).words


def test_a_right_default_changes_no_reason() -> None:
    found = standing(outcome(BASELINE, 10.0), outcome("stock-1", 12.5))
    assert (found.explained("win", "so it is"), found.words) == ("so it is", "")
    assert found.reference == Reference("numpy", True, 0.5, 10.0)
    assert replace(found, knows=False).reference == Reference("default", True, 0.5, 10.0)
    assert Standing({}).reference is None, "it is not timed yet"
