"""Whole suites: the compiler and the check are real, the benchmark reports chosen times."""

from __future__ import annotations

import csv
import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from autotuner import Gemm, Options, Target
from autotuner.errors import DeviceError, StorageError, UsageError
from autotuner.iree.folder import hash_binaries
from autotuner.iree.tools import Tools
from autotuner.jobs.suite import result as suite_result
from autotuner.jobs.suite.load import load
from autotuner.jobs.suite.result import SuiteResult
from autotuner.jobs.suite.run import Selection, tune_suite
from autotuner.measure.clock import Clock
from autotuner.problems.render import problem_mlir
from autotuner.store.store import Store
from autotuner.system.settings import cache_dir
from autotuner.tuning.options import Effort
from autotuner.tuning.printer import Printer
from tests.support.command_line import in_this_process
from tests.support.contract import COUNTS, ENVIRONMENT, FAILED, KEYS, SECONDS
from tests.support.fake_tools import DATA_TILING, ONE_ROUTE, SPEC, TWO_ROUTES, FakeTools, StopAt
from tests.support.patience import ENOUGH

EFFORT = Effort(trials=2, budget=1200.0, compile_only_trials=2, race_entrants=2)
LARGE, SMALL = "gemm_96x64x128_f32_f32_nn", "gemm_64x32x48_f32_f32_nn"
SHAPES = "op,shape,dtype,calls\ngemm,96x64x128,f32,3\ngemm,64x32x48,f32,1\n"
OF_LARGE = '*"match_gemm_96x64x128"*'
"""The pattern of modules that were built with a spec of the first problem."""


def fake_tools(folder: Path, **settings: Any) -> FakeTools:
    return FakeTools(folder / "fake", cache_dir().parent / "labels", **settings)


def write(folder: Path, text: str = SHAPES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "shapes.csv"
    file.write_text(text)
    return file


def run(file: Path, fake: FakeTools | None, *, target: Target = ONE_ROUTE, **more: Any) -> SuiteResult:
    own = {name: more.pop(name) for name in ("threshold", "sample", "reporter", "stop") if name in more}
    options = Options(
        effort=EFFORT,
        workspace=file.parent / "workspace",
        command=("autotune", "suite"),
        **{"microkernels": (), **more},
    )
    wanted = Selection(load(str(file)), **{name: own.pop(name) for name in ("threshold", "sample") if name in own})
    return tune_suite(wanted, target, options=options, tools=fake.tools if fake else None, **own)


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Won:
    """A suite whose two problems both take half the time with a spec."""

    file: Path
    fake: FakeTools
    result: SuiteResult
    document: dict[str, Any]

    @property
    def folder(self) -> Path:
        return self.result.details.folder


@pytest.fixture(scope="module")
def won(tmp_path_factory: pytest.TempPathFactory, warm: Path) -> Iterator[Won]:
    folder = tmp_path_factory.mktemp("suite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(warm / "cache"))
        fake = fake_tools(folder, rules=[(SPEC, 50.0)])
        file = write(folder)
        result = run(file, fake)
        yield Won(file, fake, result, json.loads(json.dumps(result.to_json())))


def test_the_document_has_the_contracts_keys_and_totals_by_calls(won: Won) -> None:
    document = won.document
    assert document.keys() >= KEYS | {"problems", "uplift"}
    assert document["counts"].keys() >= COUNTS
    assert document["counts"]["failed"].keys() >= FAILED
    assert document["seconds"].keys() >= SECONDS
    assert document["environment"].keys() >= ENVIRONMENT | {"flags", "compiler"}
    assert (document["schema"], document["problem"]["op"], document["verdict"]) == (1, "suite", "win")
    assert document["problem"]["flops"] == 3 * 2 * 96 * 64 * 128 + 2 * 64 * 32 * 48
    # Three calls and one of 100 ms each by default; 50 ms each tuned.
    assert (document["baseline"]["us"], document["best"]["us"]) == pytest.approx((400e3, 200e3))
    assert document["speedup"]["median"] == pytest.approx(2.0)
    assert document["speedup"]["low"] <= document["speedup"]["median"] <= document["speedup"]["high"]
    assert [(p["problem"], p["calls"], p["share"], p["kept"]) for p in document["problems"]] == [
        (LARGE, 3, pytest.approx(75.0), True),
        (SMALL, 1, pytest.approx(25.0), True),
    ]
    uplift = document["uplift"]
    assert (uplift["weighted"], uplift["average"], uplift["coverage"]) == pytest.approx((50.0, 50.0, 100.0))
    assert (uplift["geometric_mean"], uplift["us_saved"], uplift["estimate"]) == (pytest.approx(2.0), 200e3, False)


def test_counts_and_runs_are_those_of_the_store(won: Won) -> None:
    with Store.open(None, workspace=won.file.parent / "workspace", create=False) as store:
        runs = {run.problem["name"]: run for run in store.parts(won.result.run)}
        suite = store.run(won.result.run)
        defaults = store.candidates(suite.id)
        rows = [row for run in runs.values() for row in store.candidates(run.id)]
        errors = {run.id: {row.error for row in store.candidates(run.id)} for run in runs.values()}
    assert runs.keys() == {LARGE, SMALL}
    assert (suite.kind, suite.status, suite.problem) == ("suite", "finished", won.document["problem"])
    assert suite.result == won.document
    assert {(row.kind, row.config.as_dict()["problem"], row.us) for row in defaults} == {
        ("default", LARGE, 100e3),
        ("default", SMALL, 100e3),
    }
    assert won.document["counts"]["asked"] == len(rows)
    for problem in won.document["problems"]:
        assert problem["run"] == runs[problem["problem"]].id
        assert problem["error"] in errors[problem["run"]]
        assert 0 < problem["error"] < 1e-5


def test_both_csv_files_say_the_same_as_the_document(won: Won) -> None:
    raw, final = (table(won.folder / name) for name in ("raw_results.csv", "final_results.csv"))
    assert raw == final
    assert [row["problem"] for row in raw] == [LARGE, SMALL]
    for row, problem in zip(raw, won.document["problems"], strict=True):
        assert float(row["reference_us"]) == problem["reference_us"] == 100e3
        assert float(row["tuned_us"]) == 50e3
        assert (row["verdict"], row["carrier"], row["spec"]) == ("win", "spec", problem["spec"])
        assert float(row["low"]) <= float(row["ratio"]) <= float(row["high"])
    weighted = sum(float(row["share"]) * (1 - 1 / float(row["ratio"])) for row in final)
    assert weighted == pytest.approx(won.document["uplift"]["weighted"])
    environment = json.loads((won.folder / "environment.json").read_text())
    assert environment["input_sha256"] == won.document["problem"]["sha256"]


@pytest.mark.long
def test_the_merged_spec_gives_both_problems_their_winning_binaries(won: Won, tmp_path: Path) -> None:
    document = won.document
    (group,) = document["groups"]
    assert (group["problems"], group["lost"], group["carrier"]) == ([LARGE, SMALL], {}, "spec")
    assert (document["spec"], document["flagfile"]) == (group["spec"], group["flagfile"])
    assert Path(document["spec"]).name == "shapes-cpu.mlir"
    own = {p["problem"]: p["flagfile"] for p in document["problems"]}
    for gemm in (Gemm.parse(shape="96x64x128", dtype="f32"), Gemm.parse(shape="64x32x48", dtype="f32")):
        binaries = []
        for name, flagfile in (("merged", document["flagfile"]), ("own", own[gemm.name]), ("default", None)):
            if (name, gemm.name) == ("default", SMALL):
                continue
            folder = tmp_path / gemm.name / name
            folder.mkdir(parents=True)
            (folder / "problem.mlir").write_text(problem_mlir(gemm))
            words = [f"@{flagfile}"] if flagfile else ONE_ROUTE.compile_flags
            dump = f"--iree-hal-dump-executable-binaries-to={folder / 'binaries'}"
            command = [Tools.find().iree_compile, "problem.mlir", *words, dump, "--compile-to=hal", "-o", "x"]
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
            binaries.append(hash_binaries(folder / "binaries"))
        assert binaries[0] == binaries[1] not in binaries[2:]


def test_a_resumed_suite_runs_nothing_that_is_finished(won: Won) -> None:
    before = won.fake.timed()
    again = run(won.file, won.fake, resume=True)
    assert won.fake.timed() == before
    assert again.run == won.result.run
    assert [row.listed() for row in again.details.rows] == won.document["problems"]
    assert again.details.uplift == won.result.details.uplift


@pytest.mark.long
def test_a_suite_is_not_gone_on_with_when_what_it_asks_or_read_is_another(here: Path) -> None:
    file, fake = write(here, SHAPES.splitlines(keepends=True)[0] + "gemm,8x8x8,f32,2\n"), fake_tools(here)
    flags = replace(Target.parse("cpu", flags=["--iree-opt-level=O1"]), knobs=())

    def again(fake: FakeTools = fake, **more: Any) -> SuiteResult:
        return run(file, fake, device="none", trials=1, resume=True, **more)

    def refused(**more: Any) -> None:
        found = again(**more)
        assert found.run not in runs
        assert "is not continued: it had other options, or IREE or a file" in " ".join(found.notes)
        runs.append(found.run)

    runs = [again().run]
    assert again().run == runs[0]
    refused(sample=1)
    refused(seed=1)
    refused(seed=1, target=flags)
    for program in ("iree-benchmark-module", "iree-compile"):
        path = fake.folder / program
        path.write_text(f"{path.read_text()}\n# another build\n")
        other = copy(fake)
        other.tools = replace(fake.tools)  # as in another process, which has not looked at the programs
        refused(fake=other)
    file.write_text(file.read_text() + "gemm,16x8x8,f32,1\n")
    refused(fake=other)


@pytest.fixture
def here(tmp_path: Path, warm: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(warm / "cache"))
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def test_winners_that_need_different_flags_are_grouped_and_the_better_group_is_the_spec(here: Path) -> None:
    """And flags that a database brings are those of a flagfile."""
    # A spec helps the large one most; the small one, which has most of the calls, only a stock route.
    file = write(here, SHAPES.replace("f32,1", "f32,9"))
    fake = fake_tools(here, rules=[(OF_LARGE, 20.0), (DATA_TILING, 50.0)])
    result = run(file, fake, target=TWO_ROUTES)
    document = result.to_json()
    # 3·100·(1 − 1/5) = 240 ms of the large one, 9·100·(1 − 1/2) = 450 ms of the small one.
    by_flags, by_spec = document["groups"]
    assert (by_flags["problems"], by_flags["us_saved"]) == ([SMALL], pytest.approx(450e3))
    assert (by_spec["problems"], by_spec["us_saved"]) == ([LARGE], pytest.approx(240e3))
    assert (document["carrier"], document["spec"], by_spec["carrier"]) == ("flags", None, "spec")
    assert document["flagfile"] == by_flags["flagfile"] != by_spec["flagfile"]
    assert "--iree-opt-data-tiling" in Path(document["flagfile"]).read_text()
    assert "--iree-opt-data-tiling" not in Path(by_spec["flagfile"]).read_text()
    # Of 1200 ms; a compile has the flags of one group.
    assert result.reason == (
        "2 of 2 tuned problems gain 3 % or more; one compile saves 37.50 % of the workload's time "
        "(57.50 % if each had flags of its own)"
    )
    assert (document["best"]["us"], document["speedup"]["median"]) == pytest.approx((750e3, 1.6))
    assert document["one_compile"] == {"problems": 1, "us_saved": pytest.approx(450e3), "saved": pytest.approx(37.5)}
    assert "1200.000 ms by default, 750.000 ms by one compile" in str(result)
    printed = Printer.of(result).text(verbose=True)
    assert "510.000 ms if each problem had flags of its own: 2 compiles" in printed
    assert "1 winner, 450.000 ms saved" in printed
    assert any("2 sets of flags" in note for note in result.notes)
    again = run(file, fake, target=TWO_ROUTES, resume=True)
    assert again.to_json()["problems"] == document["problems"]
    with closing(sqlite3.connect(here / "workspace" / "results" / "autotune.db")) as connection, connection:
        connection.execute("UPDATE runs SET result = replace(result, '--iree-opt-data-tiling', '--load=x.so')")
    with pytest.raises(StorageError, match=r"holds flags for gemm_.* that autotune does not write"):
        run(file, fake, target=TWO_ROUTES, resume=True)


def test_a_problem_that_fails_is_a_row_and_the_others_go_on(here: Path) -> None:
    fake = fake_tools(here)
    refuse = 'case "$*" in *48x32xf32*) echo "the device is lost" >&2; exit 1 ;; esac\nexec'
    fake.tools.iree_run_module.write_text(fake.tools.iree_run_module.read_text().replace("exec", refuse))
    file = write(here, SHAPES + "gemm,8x8x8,f8,1\n")
    no_f8 = replace(ONE_ROUTE, types=(("f32", "f32"),))
    result = run(file, fake, target=no_f8)
    assert {row.name: row.verdict for row in result.details.rows} == {
        LARGE: "no-winner",
        SMALL: "failed",
        "gemm_8x8x8_f8_f32_nn": "skipped",
    }
    failed = next(row for row in result.details.rows if row.name == SMALL)
    assert "the device is lost" in failed.reason
    assert failed.share == pytest.approx(25.0)
    assert (result.verdict, result.details.exit_code) == ("inconclusive", 0)
    raw = {row["problem"]: row for row in table(result.details.folder / "raw_results.csv")}
    assert "cannot tune gemm of f8" in raw["gemm_8x8x8_f8_f32_nn"]["reason"]
    assert table(result.details.folder / "final_results.csv") == []


def test_a_device_that_is_not_there_is_told_before_any_problem_is_compiled(here: Path) -> None:
    with pytest.raises(DeviceError, match="device 'nonesuch' does not open"):
        run(write(here), None, device="nonesuch")


def test_when_every_problem_fails_the_exit_code_is_theirs(won: Won) -> None:
    details = won.result.details
    lost = [replace(row, verdict="failed", exit_code=5, reason="it is lost") for row in details.rows]
    failed = replace(details, rows=tuple(lost))
    assert failed.exit_code == 5
    why = suite_result._reason(failed, "inconclusive")
    assert why == f"{len(lost)} problems failed and none was tuned; the first: it is lost"
    one_ended = replace(failed, rows=(replace(failed.rows[0], verdict="no-winner"), *failed.rows[1:]))
    assert one_ended.exit_code == 0


def test_what_the_budget_does_not_suffice_for_and_what_contributes_little_is_left_out_and_said(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[float, int]] = []

    def first_alone(clock: Clock, shares: list[float], *, before: float, least: float, first: bool) -> float:
        asked.append((clock.until(before), len(shares)))
        return least if first else 0.0

    monkeypatch.setattr("autotuner.jobs.suite.run.LEAST_SECONDS", ENOUGH)
    monkeypatch.setattr(Clock, "turn", first_alone)
    file = write(here, SHAPES.replace("f32,3", "f32,400") + "gemm,32x32x32,f32,3\ngemm,16x16x16,f32,1\n")
    result = run(file, fake_tools(here), budget=2 * ENOUGH, threshold=0.5)
    (first, both), (second, one) = asked
    assert (both, one, 0 < second < first < 0.9 * 2 * ENOUGH) == (2, 1, True), "what one leaves the others have"
    rows = {row.name: row for row in result.details.rows}
    assert rows[LARGE].verdict == "no-winner"
    assert rows["gemm_32x32x32_f32_f32_nn"].verdict == "left-out"
    assert "--budget" in rows["gemm_32x32x32_f32_f32_nn"].reason
    assert rows[SMALL].verdict == rows["gemm_16x16x16_f32_f32_nn"].verdict == "below-threshold"
    assert any("leaves out 1 problem (" in note for note in result.notes)
    assert result.verdict == "inconclusive"


def test_without_a_device_shares_are_an_estimate_by_flops(here: Path) -> None:
    result = run(write(here), fake_tools(here), device="none")
    flops = 3 * 96 * 64 * 128, 64 * 32 * 48
    assert [row.share for row in result.details.rows] == pytest.approx([100 * f / sum(flops) for f in flops])
    document = result.to_json()
    assert (document["verdict"], document["uplift"]["estimate"]) == ("compile-only", True)
    assert document["baseline"]["us"] is document["best"] is document["speedup"] is None
    assert {row.verdict for row in result.details.rows} == {"compile-only"}
    assert any("estimate" in note for note in result.notes)


def test_an_interrupted_suite_goes_on_with_the_same_run_and_history_counts_its_parts(here: Path) -> None:
    file, fake, watch = write(here), fake_tools(here), StopAt(f"{SMALL}: searching")
    first = run(file, fake, reporter=watch, stop=watch.stop)
    assert first.interrupted
    assert {row.name: row.verdict for row in first.details.rows} == {LARGE: "no-winner", SMALL: "inconclusive"}
    again = run(file, fake, resume=True)
    assert (again.run, {row.verdict for row in again.details.rows}) == (first.run, {"no-winner"})
    with Store.open(None, workspace=here / "workspace", create=False) as store:
        assert sorted(one.problem["name"] for one in store.parts(again.run)) == [SMALL, LARGE]
        assert len(store.runs()) == 3
    listed = in_this_process("history", cwd=here / "workspace").stdout
    assert again.run in listed
    assert "suite of 2 runs: 2 finished" in listed


def test_the_table_says_what_was_gained_and_how_to_use_it(won: Won) -> None:
    printed = Printer.of(won.result).text(verbose=True)
    assert printed.startswith("verdict    win: 2 of 2 tuned problems")
    assert "weighted 50.00 %, average 50.00 %" in printed
    assert "400.000 ms by default, 200.000 ms tuned" in printed
    assert printed.count("win, kept") == 2
    assert f"iree-compile your_program.mlir @{won.document['flagfile']} -o your_program.vmfb" in printed


def test_a_table_that_autotune_did_not_write_is_never_written_over(tmp_path: Path) -> None:
    file, name = write(tmp_path), "final_results.csv"
    folder = tmp_path / "workspace" / "results" / "suites" / "shapes-cpu"
    folder.mkdir(parents=True)
    (folder / name).write_text("problem,mine\n1,2\n")
    with pytest.raises(UsageError, match=f"{name} is there and was not written by autotune") as caught:
        run(file, fake_tools(tmp_path))
    assert "--workspace" in caught.value.remedy
    assert (folder / name).read_text() == "problem,mine\n1,2\n"
    assert [path.name for path in folder.iterdir()] == [name]
