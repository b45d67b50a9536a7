"""Whole models: the compiler and the comparison of outputs are real, the benchmark reports chosen times."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from iree.runtime import ParameterIndex

from autotuner import Options, Target
from autotuner.devices.device import Device
from autotuner.devices.process import ProcessDevice
from autotuner.errors import DeviceError, UsageError
from autotuner.iree.run import DispatchTime
from autotuner.jobs.model.rehearse import rehearse_model
from autotuner.jobs.model.result import ModelResult
from autotuner.jobs.model.route_search import routes_that_won
from autotuner.programs.model import Model
from autotuner.programs.reproducer import LONGEST
from autotuner.specfiles.entries import read
from autotuner.store.store import Store
from autotuner.system.progress import LOG
from autotuner.tuning.printer import Printer
from tests.support.contract import COUNTS, KEYS
from tests.support.fake_tools import CPU, ONE_ROUTE, SPEC, FakeTools, StopAt
from tests.support.models import EFFORT, EXAMPLES, fake_tools, iree_compile, run

SUBSTITUTED = "*substitute-executable-configuration*"


def compiles(flagfile: Path, model: str, folder: Path) -> None:
    iree_compile([EXAMPLES / f"{model}.mlir", f"@{flagfile}", "-o", folder / "again.vmfb"])


def statistics(_device: Device, vmfb: Path, *_: object, **__: object) -> dict[str, DispatchTime]:
    """Chosen: the first and the last dispatch gain in the model, the second loses."""
    sizes = ("0_matmul_64x128x96", "1_matmul_64x64x128", "2_matmul_64x32x64")
    us = (5.0, 13.0, 2.0) if "tuned-" in str(vmfb) else (10.0, 9.0, 3.0)
    return {f"main_dispatch_{n}_f32": DispatchTime(t) for n, t in zip(sizes, us, strict=True)}


@pytest.fixture(scope="module")
def fake(tmp_path_factory: pytest.TempPathFactory, warm: Path) -> FakeTools:
    """Every spec doubles the speed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(warm / "cache"))
        return fake_tools(tmp_path_factory.mktemp("won"), rules=[(SPEC, 50.0)])


@pytest.fixture(scope="module")
def won(fake: FakeTools, warm: Path) -> ModelResult:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(warm / "cache"))
        patch.setattr(ProcessDevice, "dispatch_times", statistics)
        return run("three", fake.folder.parent, fake)


def test_a_model_is_tuned_by_entries_that_are_proven_and_shipped_but_one_that_is_slower_there(
    won: ModelResult, tmp_path: Path
) -> None:
    result = won
    assert result.verdict == "win"
    assert result.carrier == "spec"
    assert result.speedup is not None
    assert result.speedup.median == pytest.approx(2.0)
    assert result.spec is not None
    assert result.flagfile is not None
    entries = read(result.spec).entries
    assert len(entries) == len(result.details.entries) == result.details.applied == 2
    assert sorted(row.applied for row in result.details.rows) == [0, 1, 1]
    (dropped,) = [row for row in result.details.rows if row.state == "dropped"]
    assert (dropped.label, dropped.reason) == (
        "matmul_64x64x128_f32",
        "within the model it takes 13.0 µs, without it 9.0 µs",
    )
    assert {entry.provenance.target for entry in entries if entry.provenance} == {"cpu"}
    assert result.details.error is not None
    assert result.details.error < 1e-5
    compiles(result.flagfile, "three", tmp_path)
    document = json.loads(json.dumps(result.to_json()))
    assert set(document) >= KEYS
    assert set(document["counts"]) == COUNTS
    assert document["entries"] == {"shipped": 2, "applied": 2, "carriers": {"spec": 2}}
    assert document["timing"]["cache"] == "warm"
    # Too little time to race each of them alone: the model was the judge of the others.
    assert {row["state"] for row in document["dispatches"]} <= {"ahead", "tuned", "dropped"}
    assert sum(row["share"] for row in document["dispatches"]) + document["other_share"] == pytest.approx(1.0)
    for side, us in (("before", 22.0), ("after", 20.0)):
        told = document["time"][side]
        assert [part["kind"] for part in told["parts"]] == ["gemm", "launch and waiting"]
        assert told["parts"][0]["us"] == pytest.approx(us)
        assert sum(part["us"] for part in told["parts"]) == pytest.approx(told["us"])
    assert "by the runtime's statistics" in Printer.of(result).text(verbose=True)
    workspace = result.flagfile.parents[1]
    folder = workspace / "candidates" / result.run
    assert {path.name for path in folder.iterdir()} >= {"inputs", "tuned-plain", LOG}
    commands = (folder / "tuned-plain" / "command.txt").read_text().splitlines()
    assert [Path(line.split()[0]).name for line in commands] == ["iree-compile", "iree-benchmark-module"]
    with Store.open(None, workspace=workspace) as store:
        rows = store.candidates(result.run)
        assert [row.kind for row in rows][:2] == ["baseline", "codegen"]
        assert result.run in [row.id for row in store.runs()]


def test_what_is_not_faster_is_not_shipped(tmp_path: Path) -> None:
    result = run("three", tmp_path, fake_tools(tmp_path), model={"top": 1})
    assert result.verdict == "no-winner"
    assert result.spec is None
    assert result.flagfile is None
    assert [row.state for row in result.details.rows] == ["no-gain", "left-out", "left-out"]
    assert "--top" in result.details.rows[1].reason
    assert not list((tmp_path / "workspace" / "specs").iterdir())
    shown = Printer.of(result).text(verbose=True)
    assert all(row.reason and row.reason in shown for row in result.details.rows)


def test_the_best_product_of_knobs_is_found_and_ships_its_flags(tmp_path: Path) -> None:
    """Each of two settings gains alone, both gain more; in the race a slow default is timed once a time."""
    fake = fake_tools(tmp_path, rules=[("*im2col*data-tiling*", 50.0), ("*im2col*", 300.0), ("*", 900.0)])
    wanted = ("im2col", "data-tiling")
    knobs = tuple(
        replace(knob, settings=(setting,)) for knob in CPU.knobs for setting in knob.settings if setting.name in wanted
    )
    result = run("conv", tmp_path, fake, target=replace(ONE_ROUTE, knobs=knobs), model={"min_share": 100.0})
    assert result.verdict == "win"
    assert result.carrier == "flags"
    assert result.spec is None
    assert result.stock.route == "im2col+data-tiling"
    assert result.flagfile is not None
    assert {"--iree-global-opt-use-im2col-for-convs", "--iree-opt-data-tiling"} <= {
        *result.flagfile.read_text().splitlines()
    }
    assert {tried.route.name for tried in result.details.routes} == {"plain", "im2col+data-tiling", *wanted}
    with Store.open(None, workspace=tmp_path / "workspace") as store:
        routes = {row.id: row.route for row in store.candidates(result.run)}
        repetitions: dict[str, set[int]] = {}
        for timing in store.timings(result.run):
            repetitions.setdefault(routes[timing.candidate], set()).add(len(timing.repetitions_us))
        # Data tiling alone leaves a convolution as it is: the module is the default's.
        assert repetitions == {"plain": {1, 3}, "im2col+data-tiling": {3}, "im2col": {3}}
        assert [row.route for row in store.candidates(result.run) if row.state == "duplicate"] == ["data-tiling"]
        problem = store.run(result.run).problem
        name = store.environment(result.run)["device_name"]
        assert routes_that_won(store, problem, target="cpu", device_name=name, but="") == ["im2col+data-tiling"]
        assert (
            routes_that_won(store, {**problem, "sha256": "", "ops": ["gemm"]}, target="cpu", device_name=name, but="")
            == []
        )
        assert routes_that_won(store, problem, target="cpu", device_name="another", but="") == []


def test_a_route_that_computes_something_else_is_a_row_and_never_wins(tmp_path: Path) -> None:
    """Winograd's way rounds differently: more than the tolerance that is asked for here."""
    passes = "util.func(iree-linalg-ext-convert-conv2d-to-winograd{replace-all-convs=true})"
    wrong = f"mine='--iree-preprocessing-pass-pipeline=builtin.module({passes})'"
    fake = fake_tools(tmp_path, rules=[("*winograd*", 10.0)])
    result = run("conv", tmp_path, fake, model={"routes": (wrong,), "tolerance": 1e-9, "top": 1})
    route = next(tried for tried in result.details.routes if tried.route.name == "mine")
    assert route.failure == "wrong-result"
    assert result.verdict == "no-winner"
    with Store.open(None, workspace=tmp_path / "workspace") as store:
        assert [row.failure for row in store.candidates(result.run)] == ["", "wrong-result"]


def test_what_no_spec_reaches_is_shipped_as_an_executable(tmp_path: Path) -> None:
    fake = fake_tools(tmp_path, rules=[(SUBSTITUTED, 50.0)])
    result = run("conv", tmp_path, fake)
    assert result.verdict == "win"
    assert result.carrier == "substitution"
    assert result.spec is None
    assert result.details.executables is not None
    assert [path.name for path in result.details.executables.iterdir()] == ["main_dispatch_0.mlir"]
    assert result.details.applied == 1
    assert result.flagfile is not None
    compiles(result.flagfile, "conv", tmp_path)


@pytest.mark.long
def test_a_dynamic_dispatch_is_tuned_at_the_sizes_of_the_inputs(tmp_path: Path) -> None:
    fake = fake_tools(tmp_path, rules=[(SPEC, 50.0)])
    result = run("dynamic", tmp_path, fake, model={"inputs": ("48x96xf32", "96x128xf32")})
    assert result.verdict == "win"
    assert [row.label for row in result.details.rows] == ["matmul_Dx128x96_f32"]
    assert result.details.applied == 1


@pytest.mark.long
def test_a_dispatch_that_adds_to_an_operand_is_not_repeated(tmp_path: Path) -> None:
    fake = fake_tools(tmp_path, rules=[(SPEC, 5.0), ("*", 10.0)])
    result = run("accumulate", tmp_path, fake)
    assert result.verdict == "win"
    assert result.details.applied == 1
    assert fake.compiled() > 0
    # At these times a dispatch would be repeated, and its check would fail for what it adds up.
    assert "repeat-count" not in (fake.folder / "compiled.log").read_text()


def test_a_pooling_is_no_convolution_and_has_no_knobs(tmp_path: Path) -> None:
    result = run("pool", tmp_path, fake_tools(tmp_path))
    assert result.verdict == "no-winner"
    assert [(row.group.root.kind, row.state) for row in result.details.rows] == [("convolution", "no-knobs")]
    why = "its root operation has no tile sizes that a spec could set"
    assert result.details.rows[0].reason == why
    assert result.reason == f"nothing to choose: {why}"


def test_where_the_default_does_not_compile_the_flags_that_do_are_the_baseline(tmp_path: Path) -> None:
    """Data tiling needs a stack that is not there; what packs operands earlier does not."""
    flags = ("--iree-opt-data-tiling", "--iree-llvmcpu-stack-allocation-limit=64")
    wanted = {"routes": ("global-data-tiling",), "min_share": 100.0}
    result = run("three", tmp_path, fake_tools(tmp_path), target=Target.parse("cpu", flags=flags), model=wanted)
    first, second = result.details.routes[:2]
    assert (first.failure, first.us) == ("compile-error", None)
    assert (second.route.name, second.failure) == ("global-data-tiling", None)
    assert result.baseline.route == "global-data-tiling"
    assert result.reason.startswith("IREE's default does not compile: ")
    assert (result.verdict, result.flagfile is not None) == ("win", True)
    document = result.to_json()
    assert (document["cause"], document["reference"]["source"]) == ("default-fails", "first")
    assert "stack allocation limit" in document["reference"]["failed"]
    assert "default    does not compile" in str(result)
    (told,) = (note for note in document["notes"] if "a part that fails alike" in note)
    assert Path(told.rpartition(": ")[2]).read_text().count("\n") <= LONGEST


@pytest.mark.long
def test_parameters_stay_in_their_file(tmp_path: Path) -> None:
    index = ParameterIndex()
    index.add_buffer("weight", np.random.default_rng(0).normal(size=(96, 128)).astype(np.float32))
    index.create_archive_file(str(tmp_path / "weights.irpa"))
    fake = fake_tools(tmp_path, rules=[(SPEC, 50.0)])
    result = run("weights", tmp_path, fake, model={"parameters": (f"model={tmp_path / 'weights.irpa'}",)})
    assert result.verdict == "win"
    assert result.details.applied == 1


def test_a_model_without_its_parameters_is_told_how_to_give_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lacking = (
        "weights loads parameters of the scope 'model', and no file gives them. Give --parameters model=FILE.irpa."
    )
    with pytest.raises(UsageError) as refused:
        run("weights", tmp_path, None)
    assert str(refused.value) == lacking
    index = ParameterIndex()
    index.add_buffer("other", np.zeros((96, 128), np.float32))
    index.create_archive_file("other.irpa")
    with pytest.raises(UsageError) as refused:
        run("weights", tmp_path, None, model={"parameters": ("other.irpa",)})
    assert str(refused.value) == lacking
    with pytest.raises(UsageError, match=r"model=none\.irpa: there is no file none\.irpa\."):
        run("weights", tmp_path, None, model={"parameters": ("model=none.irpa",)})
    # A relative path is found whoever reads it, and of what the runtime says the first words are told.
    with pytest.raises(DeviceError, match=r"default does not run: NOT_FOUND; no parameter found .* key 'weight'"):
        run("weights", tmp_path, None, model={"parameters": ("model=other.irpa",)})


@pytest.mark.long
def test_a_finished_dispatch_is_not_run_again(
    won: ModelResult, fake: FakeTools, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ProcessDevice, "dispatch_times", statistics)
    compiled = fake.compiled()
    again = run("three", fake.folder.parent, fake, resume=True)
    assert again.verdict == "win"
    parts = [[row.result and row.result.run for row in one.details.rows] for one in (won, again)]
    assert parts[0] == parts[1]
    assert None not in parts[0]
    # Only the tuned model is compiled anew, with and without what is dropped: the dispatches are recalled.
    assert compiled < fake.compiled() <= compiled + 2


def test_an_interrupted_run_keeps_its_rows_and_ships_nothing(tmp_path: Path) -> None:
    watch = StopAt("searching")
    result = run("three", tmp_path, fake_tools(tmp_path, rules=[(SPEC, 50.0)]), reporter=watch, stop=watch.stop)
    assert result.interrupted
    assert result.verdict == "inconclusive"
    assert not list((tmp_path / "workspace" / "specs").iterdir())
    with Store.open(None, workspace=tmp_path / "workspace") as store:
        assert {row.status for row in store.runs()} == {"interrupted"}


@pytest.mark.long
@pytest.mark.parametrize("target", ["gfx942", "sm_80"])
def test_without_a_device_what_promises_more_than_the_default_is_proven_in_the_model(
    tmp_path: Path, target: str
) -> None:
    chip, output, model = Target.parse(target), tmp_path / "twice.mlir", {"function": "twice"}
    result = run("twice", tmp_path, None, target=chip, model=model, output=output, device="none", trials=4)
    (row,) = result.details.rows
    assert (result.verdict, result.speedup) == ("compile-only", None)
    assert row.result is not None
    assert row.result.best is not None
    assert row.result.best.measured.estimate is not None
    assert row.result.baseline.estimate is not None
    if row.result.best.measured.estimate["score"] > row.result.baseline.estimate["score"]:
        assert row.state == "no-gain"
        assert "the estimate prefers IREE's default" in row.reason
        assert (result.flagfile, output.exists()) == (None, False)
        return
    assert result.reason == "1 entry by an estimate proven in the model, never timed"
    assert (len(result.details.entries), result.details.applied) == (1, 1)
    assert (row.state, row.applied) == ("estimated", 2)
    assert result.flagfile is not None
    compiles(result.flagfile, "twice", tmp_path)
    (entry,) = read(output).entries
    assert entry.provenance is not None
    assert entry.provenance.verdict == "compile-only: an estimate, never timed"
    if target != "gfx942":
        return
    unasked = run("twice", tmp_path, None, target=chip, model=model, device="none", trials=4)
    assert (unasked.spec, unasked.flagfile) == (None, None)
    folder = unasked.workspace / "candidates" / unasked.run / "tuned-plain"
    assert f"{folder.name} (spec.mlir); with -o FILE.mlir it is written there" in str(unasked)
    assert (folder / "spec.mlir").is_file()


def test_a_dynamic_dispatch_on_a_gpu_has_no_knobs_and_the_reason_names_the_inputs(tmp_path: Path) -> None:
    chip, inputs = Target.parse("gfx942"), ("48x96xf32", "96x128xf32")
    result = run("dynamic", tmp_path, None, target=chip, model={"inputs": inputs}, device="none", trials=2)
    (row,) = result.details.rows
    why = (
        "iree-compile emits no pipeline constraints for this dispatch on this target: its sizes are dynamic, whatever "
    )
    why += "--input says of one call. Static sizes in the program can be tuned"
    assert (row.state, row.reason) == ("no-knobs", why)
    assert (result.verdict, result.reason) == ("no-winner", f"nothing to choose: {why}")


def test_the_result_is_printed_with_what_to_do_next(won: ModelResult, tmp_path: Path) -> None:
    words = str(won)
    assert "verdict    win" in words
    assert "route plain, 2 entries" in words
    (use,) = [line.removeprefix("use").strip() for line in words.splitlines() if line.startswith("use ")]
    model = str(EXAMPLES / "three.mlir")
    use = use.replace(os.path.relpath(model), model)  # below the current folder paths are relative
    assert use == f"iree-compile {model} @{won.flagfile} -o three-cpu.vmfb"
    program, *words_of_use = shlex.split(use)
    assert program == "iree-compile"
    iree_compile(words_of_use, folder=tmp_path)
    assert (tmp_path / "three-cpu.vmfb").stat().st_size > 0


# --- a rehearsal ------------------------------------------------------------------------------------------------------


def test_a_rehearsal_names_dynamic_sizes_as_the_inputs_tell_them(tmp_path: Path) -> None:
    wanted = Model(EXAMPLES / "dynamic.mlir", inputs=("48x96xf32", "96x128xf32"))
    options = Options(effort=EFFORT, workspace=tmp_path, microkernels=())
    told = rehearse_model(wanted, Target.parse("cpu"), options=options)
    assert "1 dispatch, 1 different root" in told.text()
    assert "1 call of linalg.matmul 48x128x96" in told.text()
    assert told.to_json()["dispatches"][0]["loops"] == [48, 128, 96]
    assert len(told.text().splitlines()) <= 40
    unknown = rehearse_model(replace(wanted, inputs=()), Target.parse("cpu"), options=options)
    assert "1 call of linalg.matmul Dx128x96" in unknown.text()
    assert unknown.to_json()["dispatches"][0]["loops"] == [None, 128, 96]
