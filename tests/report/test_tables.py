"""Tables, records and CSV of what a results database holds."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path

import pytest
from rich.console import Console

from autotuner.build import Isa
from autotuner.devices.conditions import Conditions, Sample
from autotuner.devices.device import Timing
from autotuner.report.history import history_records, run_table, run_tables, runs_table
from autotuner.report.tables import Table
from autotuner.space.table import Config
from autotuner.store.exports import export_csv, export_records
from autotuner.store.rows import BuildRow, NewRun
from autotuner.store.store import Store
from tests.support.command_line import complaint, in_this_process
from tests.support.won_run import won_run

RESULT = {
    "verdict": "win",
    "baseline": {"us": 20.0, "flags": []},
    "best": {"us": 10.0, "config": {"tile": 8}, "kind": "codegen"},
    "speedup": {"median": 2.0, "low": 1.95, "high": 2.05, "confidence": 0.95},
    "spec": "specs/gemm-cpu.mlir",
}


def a_run(store: Store, *, name: str = "gemm_a", knob: str = "tile", parent: str | None = None) -> str:
    """A baseline, a candidate twice as fast, one that failed and one that is only asked for."""
    problem = {"op": "gemm", "name": name}
    run = store.start_run(NewRun("single", name, ["autotune", "gemm"], problem, "cpu", "local-task", 0, parent))
    baseline = store.add_candidate(run, ordinal=0, config=Config(()), kind="baseline")
    store.record_timing(baseline, Timing((20.0,)), phase="screen", block=0)
    fast = store.add_candidate(run, ordinal=1, config=Config.of({knob: 8}))
    store.record_check(fast, error=1e-7)
    store.record_timing(fast, Timing((10.0,)), phase="screen", block=0)
    failed = store.add_candidate(run, ordinal=2, config=Config.of({knob: 16}))
    store.record_failure(failed, "compile-error", stderr="[red]no[/red]")
    store.add_candidate(run, ordinal=3, config=Config.of({knob: 32}))
    return run


def table_of(store: Store, limit: int) -> Table:
    return runs_table(history_records(store, limit))


def text(table: Table, *, width: int | None = None) -> str:
    """As in a file; with a width, as on a terminal of that many columns."""
    console = Console(width=width, file=io.StringIO(), color_system=None, force_terminal=width is not None)
    console.print(table.listing(), soft_wrap=True)
    output = console.file
    assert isinstance(output, io.StringIO)
    return output.getvalue()


def test_history_shows_a_finished_run_with_verdict_and_interval(store: Store) -> None:
    run = a_run(store)
    store.finish_run(run, "finished", result=RESULT)
    (record,) = history_records(store, 10)
    assert (record["run"], record["problem"], record["verdict"]) == (run, "gemm_a", "win")
    assert (record["baseline_us"], record["best_us"], record["speedup"]) == (20.0, 10.0, RESULT["speedup"])
    assert (record["asked"], record["timed"], record["failed"]) == (4, 2, 1)
    assert record["spec"] == "specs/gemm-cpu.mlir"
    shown = text(table_of(store, 10))
    for word in (run, "gemm_a", "local-task", "win", "2.000x", "(1.950 to 2.050)", "specs/gemm-cpu.mlir"):
        assert word in shown


def test_history_of_a_run_that_was_cut_short_tells_how_far_it_came(store: Store) -> None:
    a_run(store)
    (record,) = history_records(store, 10)
    assert (record["status"], record["verdict"], record["speedup"]) == ("running", None, None)
    assert (record["baseline_us"], record["best_us"]) == (20.0, 10.0)
    assert "running" in text(table_of(store, 10))


def test_history_counts_the_parts_of_a_run_and_lists_them_when_it_is_asked_for(store: Store) -> None:
    suite = store.start_run(
        NewRun("suite", "s", ["autotune", "suite"], {"op": "suite", "name": "shapes"}, "cpu", "local-task", 0)
    )
    parts = [a_run(store, name=name, parent=suite) for name in ("gemm_a", "gemm_b")]
    other = a_run(store, name="gemm_c")
    store.finish_run(parts[0], "finished", result=RESULT)
    alone, whole = history_records(store, 10)
    assert (alone["run"], alone["kind"], alone["runs"]) == (other, "single", [])
    assert (whole["run"], whole["kind"], whole["status"]) == (suite, "suite", "running")
    assert [(r["run"], r["parent"], r["status"]) for r in whole["runs"]] == [
        (parts[0], suite, "finished"),
        (parts[1], suite, "running"),
    ]
    assert [r["run"] for r in history_records(store, 1)] == [other], "parts do not count as runs"
    shown = text(table_of(store, 10))
    assert "suite of 2 runs: 1 finished, 1 running" in shown
    assert not any(part in shown for part in parts)
    assert text(runs_table(history_records(store, 10))) == shown
    (listed,) = run_tables(store, suite)
    assert all(word in text(listed) for word in (*parts, "gemm_a", "gemm_b", "win"))
    assert [(r["run"], r["parent"]) for r in export_records(store, suite)] == [
        (part, suite) for part in parts for _ in range(2)
    ]


def test_export_has_one_object_per_timed_candidate(store: Store) -> None:
    run = a_run(store)
    baseline, fast = export_records(store, run)
    assert (baseline["kind"], baseline["speedup"], baseline["config"]) == ("baseline", 1.0, {})
    assert fast["config"] == {"tile": 8}
    assert (fast["us"], fast["speedup"], fast["error"], fast["failure"]) == (10.0, 2.0, 1e-7, "")
    assert (fast["problem"], fast["op"], fast["target"], fast["device"]) == ("gemm_a", "gemm", "cpu", "local-task")


def test_export_is_valid_json_even_for_an_infinite_error(store: Store) -> None:
    run = a_run(store)
    candidate = store.add_candidate(run, ordinal=9, config=Config.of({"tile": 1}))
    store.record_check(candidate, error=math.inf)
    store.record_timing(candidate, Timing((5.0,)), phase="screen", block=0)
    exported = json.dumps(export_records(store, None), allow_nan=False)
    assert json.loads(exported)[-1]["error"] is None


def test_csv_gives_each_knob_a_column_and_leaves_it_empty_where_a_run_lacks_it(store: Store) -> None:
    a_run(store, knob="tile_m")
    a_run(store, knob="tile_n")
    rows = list(csv.DictReader(io.StringIO(export_csv(export_records(store, None)))))
    assert [(r["config.tile_m"], r["config.tile_n"]) for r in rows] == [("", ""), ("8", ""), ("", ""), ("", "8")]
    assert [float(r["us"]) for r in rows] == [20.0, 10.0, 20.0, 10.0]


def test_a_run_is_shown_fastest_first_with_its_failures_after(store: Store) -> None:
    lines = text(run_table(store, a_run(store))).splitlines()
    assert "gemm_a on cpu" in lines[0]
    cells = [" ".join(line.split()) for line in lines[2:]]
    assert cells == [
        "1 codegen tile=8 10 2.000x 1.0e-07 timed",
        "0 baseline 20 1.000x timed",
        "2 codegen tile=16 compile-error",
        "3 codegen tile=32 asked",
    ]


def test_of_a_long_run_the_fastest_are_shown_and_it_says_where_the_rest_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autotuner.report.history.MOST", 2)
    run = a_run(store)
    for ordinal in (4, 5, 6):
        timed = store.add_candidate(run, ordinal=ordinal, config=Config.of({"tile": ordinal}))
        store.record_timing(timed, Timing((ordinal * 1.0,)), phase="screen", block=0)
    title, _, *lines = text(run_table(store, run)).splitlines()
    assert title.endswith(f"; the first 2 of 7: `autotune export --csv {run}` has all")
    assert [(line.split()[0], line.split()[-1]) for line in lines] == [("4", "timed"), ("5", "timed")]


def test_figures_are_shown_and_exported_where_there_are_any(store: Store) -> None:
    run = a_run(store)
    assert "isa" not in text(run_table(store, run))
    isa = Isa(vgpr=128, vgpr_spills=0, lds_bytes=51_900, occupancy=2, mma=64)
    for candidate in store.candidates(run)[1:]:
        # A build sets the state back; here it is the figures that count.
        store.record_build(BuildRow(candidate.id, 1.0, False, "x", 1, (), "", isa))
    shown = text(run_table(store, run)).splitlines()
    assert shown[1].split() == ["#", "kind", "route", "configuration", "isa", "µs", "speedup", "error", "state"]
    assert sum("vgpr 128, spills 0, lds 50.7k, occ 2" in line for line in shown) == 3
    baseline, fast = export_records(store, run)
    assert (baseline["isa"], fast["isa"]) == ({}, isa.to_json())
    rows = list(csv.DictReader(io.StringIO(export_csv(export_records(store, run)))))
    assert [(r["isa.vgpr"], r["isa.mma"]) for r in rows] == [("", ""), ("128", "64")]


def test_the_devices_state_and_cold_times_are_exported_where_there_are_any(store: Store) -> None:
    run = a_run(store)
    fast = store.candidates(run)[1].id
    conditions = Conditions("sustained", after=Sample(1410, 690, 61))
    store.record_timing(fast, Timing((10.0,), conditions=conditions), phase="race", block=0)
    store.record_timing(fast, Timing((12.5,)), phase="cold", block=0)
    records = export_records(store, run)
    assert [r["device_state"] for r in records] == [{}, {"mhz": 1410, "watts": 690, "celsius": 61}]
    assert [r["cold_us"] for r in records] == [None, 12.5]
    rows = list(csv.DictReader(io.StringIO(export_csv(export_records(store, run)))))
    assert [(r["device_state.mhz"], r["cold_us"]) for r in rows] == [("", ""), ("1410", "12.5")]


def test_history_is_a_line_a_run_in_a_file_and_a_block_a_run_on_a_narrow_terminal(store: Store) -> None:
    runs = [a_run(store, name=f"gemm_4096x4096x{k}_f16_f32_nn") for k in (1024, 2048)]
    for run in runs:
        store.finish_run(run, "finished", result={**RESULT, "spec": f"/{'long/' * 30}spec.mlir"})
    in_a_file = text(table_of(store, 10)).splitlines()
    assert len(in_a_file) == 3, "the titles, and a line for each run"
    assert all(line == line.rstrip() for line in in_a_file)
    narrow = text(table_of(store, 10), width=60).splitlines()
    heads = [line for line in narrow if not line.startswith(" ")]
    assert [line.split()[0] for line in heads if line.startswith("20")] == runs[::-1]
    assert all(len(line) <= 60 or " " not in line.strip() for line in narrow)
    assert not any("…" in line for line in narrow)
    assert sum(f"/{'long/' * 30}spec.mlir" in line for line in narrow) == 2, "no name is broken"


def test_a_knob_that_a_candidate_does_not_have_is_not_shown(store: Store) -> None:
    run = a_run(store)
    store.add_candidate(run, ordinal=9, config=Config.of({"route": "plain", "vector_m": -1, "workgroup_m": 2}))
    shown = text(run_table(store, run))
    assert "route=plain, workgroup_m=2" in shown
    assert "vector_m" not in shown


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forms", [(), ("--csv", "--json")])
def test_an_export_has_one_form(store: Store, tmp_path: Path, forms: tuple[str, ...]) -> None:
    won_run(store)
    assert "export needs one of --csv, --json" in complaint(in_this_process("export", *forms, cwd=tmp_path), 2)


@pytest.mark.parametrize(("form", "printed"), [("--csv", "run,parent,started,"), ("--json", "[]")])
def test_of_a_run_without_times_the_form_stays_and_it_is_said(
    store: Store, tmp_path: Path, form: str, printed: str
) -> None:
    new = NewRun("single", "k", ["autotune"], {"op": "gemm", "name": "gemm_a"}, "cpu", "local-task", 0)
    run = store.start_run(new, space_size=1)
    done = in_this_process("export", run, form, cwd=tmp_path)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.startswith(printed)
    assert done.stderr == f"note: nothing of run {run} was timed: `autotune history {run}` says why\n"
