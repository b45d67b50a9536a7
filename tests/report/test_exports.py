"""What is stored, for other programs: Parquet, T4, and studies that Optuna's dashboard opens."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import optuna
import pyarrow
import pytest
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState
from pyarrow import parquet

from autotuner.devices.device import Timing
from autotuner.errors import UsageError
from autotuner.iree.compile import FAILURE_CLASSES
from autotuner.report.exports import INVALID, export_parquet, export_records, export_t4, flat_records
from autotuner.report.study import export_studies
from autotuner.space.table import ABSENT, Config
from autotuner.store.store import NewRun, Store
from tests.support.command_line import complaint, in_this_process
from tests.support.won_run import won_run

T4: dict[str, Any] = {
    "type": "object",
    "required": ["schema_version", "metadata", "results"],
    "properties": {
        "schema_version": {"pattern": r"^\d+\.\d+\.\d+$"},
        "metadata": {
            "type": "object",
            "properties": {"timeunit": {"enum": ["nanoseconds", "microseconds", "milliseconds", "seconds"]}},
            "additionalProperties": {"type": "string"},
        },
        "results": {
            "type": "array",
            "items": {
                "required": ["configuration", "times", "invalidity", "correctness"],
                "properties": {
                    "timestamp": {"type": "string"},
                    "configuration": {"type": "object"},
                    "objectives": {"type": "array", "items": {"type": "string"}},
                    "times": {
                        "properties": {
                            "compilation_time": {"type": "number"},
                            "runtimes": {"type": "array", "items": {"type": "number"}},
                        }
                    },
                    "invalidity": {"enum": ["timeout", "compile", "runtime", "correctness", "constraints", "correct"]},
                    "correctness": {"enum": [0, 1]},
                    "measurements": {
                        "items": {
                            "properties": {
                                "name": {"type": "string"},
                                "value": {"type": ["number", "string", "array"]},
                                "unit": {"type": "string"},
                            }
                        }
                    },
                },
            },
        },
    },
}
"""What the format demands, in our words."""


def add(store: Store, run: str, ordinal: int, config: dict[str, int | str | bool]) -> None:
    candidate = store.add_candidate(run, ordinal=ordinal, config=Config.of(config))
    store.set_us(candidate, 5.0)


# Parquet


def test_parquet_has_the_flat_records_in_columns_of_one_type_each(store: Store, tmp_path: Path) -> None:
    run = won_run(store)
    add(store, run, 7, {"tile": "whole"})
    file = tmp_path / "out" / "timings.parquet"
    done = in_this_process("export", "--parquet", "-o", str(file), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    table = parquet.read_table(file)
    records = flat_records(export_records(store))
    assert table.num_rows == len(records) == 4
    assert table["us"].to_pylist() == [20.0, 10.0, 12.0, 5.0]
    assert table["config.tile"].to_pylist() == [None, "16", "32", "whole"], "a number here and a word there is text"
    assert table["config.pad"].to_pylist() == [None, False, True, None]
    kinds = {table.schema.field(name).type for name in ("run_facts.flops", "ordinal")}
    assert kinds == {pyarrow.int64()}


def test_parquet_of_nothing_is_a_table_without_rows(store: Store) -> None:
    assert parquet.read_table(io.BytesIO(export_parquet(export_records(store)))).num_rows == 0


def test_parquet_without_pyarrow_says_what_to_install(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    won_run(store)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = complaint(in_this_process("export", "--parquet", "-o", "a.parquet", cwd=tmp_path), 5)
    assert 'pip install "autotune-iree[parquet]"' in said
    assert not (tmp_path / "a.parquet").exists()


# Which form


@pytest.mark.parametrize("forms", [(), ("--csv", "--json"), ("--parquet", "--t4")])
def test_an_export_has_one_form(store: Store, tmp_path: Path, forms: tuple[str, ...]) -> None:
    won_run(store)
    assert "export needs one of --csv, --json" in complaint(in_this_process("export", *forms, cwd=tmp_path), 2)


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_a_file_has_what_would_be_printed(store: Store, tmp_path: Path, form: str) -> None:
    won_run(store)
    printed = in_this_process("export", form, cwd=tmp_path).stdout
    in_this_process("export", form, "-o", "out", cwd=tmp_path)
    assert (tmp_path / "out").read_text() == printed != ""


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


# T4


def test_a_run_as_t4_says_what_each_configuration_came_to(store: Store, tmp_path: Path) -> None:
    run = won_run(store)
    done = in_this_process("export", run, "--t4", cwd=tmp_path)
    document = json.loads(done.stdout)
    jsonschema.validate(document, T4)
    assert document["metadata"]["timeunit"] == "microseconds"
    assert (document["metadata"]["device"], document["metadata"]["platform"]) == ("H200", "IREE 3.13.0")
    results = document["results"]
    assert [one["invalidity"] for one in results] == ["correct"] * 4 + ["correctness", "compile"]
    assert [one["correctness"] for one in results] == [1, 1, 1, 1, 0, 0]
    first, twin = results[1], results[3]
    assert first["configuration"] == {"tile": 16, "pipeline": "p1", "pad": False, "kind": "codegen", "route": "plain"}
    assert first["times"] == {"compilation_time": 5e5, "runtimes": [10.0, 10.0, 12.5, 12.5, 7.5, 7.5]}
    assert first["measurements"][0] == {"name": "time", "value": 10.0, "unit": "us"}
    assert twin["configuration"]["tile"] == 64
    assert twin["times"]["runtimes"] == first["times"]["runtimes"], "the same binary"
    assert results[4]["measurements"] == []


def test_t4_leaves_out_knobs_that_a_candidate_does_not_have(store: Store) -> None:
    run = won_run(store)
    add(store, run, 7, {"tile": 4, "stages": ABSENT})
    assert "stages" not in json.loads(export_t4(store, run))["results"][-1]["configuration"]


def test_every_class_of_failures_has_a_word_in_t4() -> None:
    assert INVALID.keys() == {*FAILURE_CLASSES}


def test_t4_is_of_one_run_that_has_candidates(store: Store, tmp_path: Path) -> None:
    assert "--t4 is a document of one run" in complaint(in_this_process("export", "--t4", cwd=tmp_path), 2)
    suite = store.start_run(NewRun("suite", "s", [], {"op": "suite", "name": "s"}, "cpu", "local-task", 0))
    with pytest.raises(UsageError, match="name one of them"):
        export_t4(store, suite)


# Optuna


def test_a_study_has_a_trial_for_each_candidate_that_came_to_something(store: Store, tmp_path: Path) -> None:
    run = won_run(store)
    store.add_candidate(run, ordinal=9, config=Config.of({"tile": 1}))
    (tmp_path / "journal").write_bytes(export_studies(store, run))
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "journal")))
    name = f"gemm_512x512x1024_f16_f32_nn {run}"
    assert optuna.get_all_study_names(storage) == [name, f"{name} knobs of plain"]
    study = optuna.load_study(study_name=name, storage=storage)
    states = [trial.state for trial in study.trials]
    assert states == [TrialState.COMPLETE] * 3 + [TrialState.PRUNED] + [TrialState.FAIL] * 2
    assert [trial.params["route"] for trial in study.trials] == ["default"] + ["plain"] * 5
    assert study.best_trial.user_attrs["speedup"] == 2.0
    assert study.trials[4].user_attrs["failure"] == "wrong-result"
    assert study.trials[4].user_attrs["stderr"] == "off by 3"
    knobs = optuna.load_study(study_name=f"{name} knobs of plain", storage=storage)
    assert [trial.state for trial in knobs.trials] == states[1:], "the default has no knobs"
    assert (knobs.best_value, knobs.best_params) == (10.0, {"tile": 16, "pipeline": "p1", "pad": "False"})
    assert study.user_attrs["verdict"] == "win"
    assert study.user_attrs["speedup_interval"] == [1.9, 2.1]


def test_a_store_without_candidates_has_no_study(tmp_path: Path) -> None:
    Store.open(None, workspace=tmp_path).close()
    said = complaint(in_this_process("export", "--optuna", "-o", "a", cwd=tmp_path), 2)
    assert "no candidate to export" in said


def test_optuna_tells_which_knob_of_a_run_matters(store: Store, tmp_path: Path) -> None:
    """As its dashboard shows it."""
    _one_knob_matters(store, won_run(store))
    _without_knobs(store)
    done = in_this_process("export", "--optuna", "-o", "study.journal", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    storage = JournalStorage(JournalFileBackend(str(tmp_path / "study.journal")))
    names = optuna.get_all_study_names(storage)
    assert len(names) == 3
    for name in names:
        study = optuna.load_study(study_name=name, storage=storage)
        assert study.metric_names == ["µs"]
        found = get_param_importances(study, evaluator=PedAnovaImportanceEvaluator())
        if "knobs" in name:
            assert found["tile"] > 2 * found["pad"], "the default, which has no knobs, is no trial of theirs"
            assert (len(study.trials), study.best_value) == (45, 10.0)
        else:
            assert [*found] == ["route"]


def _one_knob_matters(store: Store, run: str) -> None:
    for ordinal in range(40):
        knobs: dict[str, int | str | bool] = {"tile": 8 << ordinal % 5, "pipeline": "p1", "pad": ordinal % 2 == 0}
        row = store.add_candidate(run, ordinal=10 + ordinal, config=Config.of(knobs), route="plain")
        us = 100.0 * 2.0 ** (ordinal % 5) + ordinal / 100
        store.record_timing(row, Timing((us, us)), phase="screen", block=0)


def _without_knobs(store: Store) -> None:
    """A comparison of two backends: its candidates have routes and nothing else."""
    new = NewRun(kind="bench", key="k", command=(), problem={"name": "p"}, target="cpu", device="local-task", seed=0)
    run = store.start_run(new)
    for ordinal, (route, us) in enumerate({"iree": 20.0, "numpy": 30.0}.items()):
        row = store.add_candidate(run, ordinal=ordinal, config=Config(()), kind="library", route=route)
        store.record_timing(row, Timing((us, us)), phase="bench", block=0)
    store.finish_run(run, "finished", result={"verdict": "measured"})
