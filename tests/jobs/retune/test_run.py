"""Specs retuned: proven by real compiles, raced on a device whose times are chosen, and written anew."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from iree.compiler import ir

import autotuner
from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.carrier import Said
from autotuner.carriers.flagfile import KERNELS, flagfile_text
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.carriers.outputs import WRITTEN
from autotuner.devices.device import Module, Timing
from autotuner.iree.run import Benchmark
from autotuner.iree.tools import Tools
from autotuner.jobs.buckets import plain_only
from autotuner.jobs.retune.origin import Memory, Origins, model_of_command
from autotuner.jobs.retune.unit import read_unit
from autotuner.problems import Conv, Gemm
from autotuner.specfiles.entries import read
from autotuner.specfiles.merge import merge
from autotuner.store.reader import Reader
from autotuner.store.rows import NewRun, RunKind, RunRow
from autotuner.store.store import Store
from autotuner.system.cache import Cache
from autotuner.system.progress import Stop
from autotuner.targets import Target, catalog
from autotuner.tuning.options import Options
from autotuner.tuning.plan import Plan
from tests.support.command_line import in_this_process
from tests.support.pretended_device import WARM, Pretended, pretend
from tests.support.spec_files import TIMED, make_spec

Retune = Callable[..., subprocess.CompletedProcess[str]]
CPU = Target.parse("cpu")
EXAMPLES = Path(__file__).parent / "examples"
SMALL, OTHER = (Gemm.parse(shape=shape, dtype="f32") for shape in ("64x32x48", "32x32x64"))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def specs(cache: Path) -> dict[str, str]:
    """A spec for each of two products, each with another configuration, and both as one."""
    tools = Tools.find()
    with BuildExecutor.local(Builder(tools, Cache(cache)), 2) as executor:
        texts = {}
        for problem in (SMALL, OTHER):
            plan = Plan.make(problem, plain_only(CPU), executor, timeout=60.0)
            made_by = " ".join(["autotune", *problem.arguments()])
            provenance = replace(TIMED, problem=problem.name, command=made_by)
            texts[problem.name] = make_spec(plan, provenance=provenance)
            texts[f"{problem.name}, otherwise"] = make_spec(plan, -1, provenance=provenance)
        texts["both"] = merge([texts[SMALL.name], texts[OTHER.name]], tools=tools).text
    return texts


@pytest.fixture
def write(tmp_path: Path, specs: dict[str, str]) -> Callable[..., Path]:
    """A spec with its flagfile, as a workspace has it."""

    def write(name: str, *, change: Callable[[str], str] = str) -> Path:
        path = tmp_path / "specs" / f"{name}.mlir"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"// Tuning spec {WRITTEN}\n" + change(specs[name]))
        flags = [*CPU.compile_flags, f"{CPU.spec_flag}={path}"]
        path.with_suffix(".flags").write_text(flagfile_text(flags))
        return path

    return write


@pytest.fixture
def retune(tmp_path: Path, cache: Path) -> Retune:
    return lambda *words: in_this_process("retune", *map(str, words), "-q", cwd=tmp_path, cache=cache)


def answered(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def states(document: dict[str, Any]) -> dict[str, str]:
    return {row["problem"]: row["state"] for row in document["entries"]}


def test_without_a_device_entries_are_proven_and_nothing_is_written(
    write: Callable[..., Path], retune: Retune, tmp_path: Path
) -> None:
    path = write(SMALL.name)
    before = path.read_text()
    document = answered(retune(path, "--device", "none", "--json"))
    assert document["verdict"] == "compile-only"
    assert "next       run the same command where the device is" in retune(path, "--device", "none").stdout
    (row,) = document["entries"]
    assert (row["state"], row["applied"], row["old"]["us"]) == ("kept", 1, TIMED.us)
    assert document["written"] == []
    assert path.read_text() == before
    assert not (tmp_path / "specs" / "retuned").exists()


def test_who_stops_it_waits_for_no_compile(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    result = autotuner.retune(write("both"), options=Options(workspace=tmp_path), stop=Stop(requested=True))
    assert (result.interrupted, result.details.rows) == (True, ())
    assert Cache(tmp_path / "cache").size()[0] == 0


def test_an_entry_that_applies_no_more_is_dropped_and_the_others_are_written(
    write: Callable[..., Path], retune: Retune, tmp_path: Path
) -> None:
    path = write("both", change=lambda text: text.replace('problem = "gemm_32x32x64', 'problem = "gemm_32x32x96'))
    text = path.read_text()
    new = tmp_path / "new.mlir"
    document = answered(retune(path, "--device", "none", "-o", new, "--json"))
    dropped = [row for row in document["entries"] if row["state"] == "dropped"]
    assert [row["reason"].partition(";")[0] for row in dropped] == ["it does not apply any more: nothing matches it"]
    left = read(new).entries
    assert len(left) == 1
    assert left[0].provenance is not None
    assert "IREE" in left[0].provenance.earlier
    assert left[0].provenance.verdict == "proven again"
    assert path.read_text() == text


def test_of_files_that_were_moved_those_beside_the_flagfile_are_meant(
    write: Callable[..., Path], retune: Retune, tmp_path: Path
) -> None:
    path = write(SMALL.name)
    flags = path.with_suffix(".flags")
    flags.write_text(flags.read_text().replace(str(path), f"gone/{path.name}"))
    document = answered(retune(path, "--device", "none", "-o", "new.mlir", "--json"))
    assert states(document) == {SMALL.name: "kept"}, document["entries"]
    assert document["written"][0]["spec"] == str(tmp_path / "new.mlir")


def test_what_still_wins_is_kept_and_after_kill_9_not_raced_again(
    write: Callable[..., Path], retune: Retune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    devices = pretend(monkeypatch, warm=0.5)
    path = write(SMALL.name)
    before = path.read_text()
    words = (path, "--budget", "20m", "--json")
    first = answered(retune(*words))
    assert (states(first), first["verdict"]) == ({SMALL.name: "kept"}, "win")
    assert path.read_text() == before, "the old spec is not written over"
    new = Path(str(first["spec"]))
    (entry,) = read(new).entries
    assert entry.provenance is not None
    assert entry.provenance.median == pytest.approx(2.0)
    assert entry.provenance.earlier.startswith(f"{SMALL.name}; cpu; IREE ")

    with sqlite3.connect(tmp_path / "results" / "autotune.db") as database:
        database.execute("UPDATE runs SET status = 'running', result = NULL WHERE kind = 'retune'")
    shutil.rmtree(new.parent)
    again = answered(retune(*words, "--resume"))
    assert (again["run"], again["entries"]) == (first["run"], first["entries"])
    assert not devices[1].taken, "nothing is timed again"
    assert new.is_file()

    answered(retune(*words, "--resume", "--in-place"))
    assert path.read_text().startswith("// Spec by autotune ")
    copies = tmp_path / "candidates" / str(first["run"]) / "old"
    assert (copies / path.name).read_text() == before
    assert (copies / path.with_suffix(".flags").name).is_file()


def test_a_configured_executable_is_kept_with_the_very_code_that_was_raced(
    retune: Retune, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A convolution of one image, which no spec carries on processors.

    Where the file has no locations, its own name and lines are part of the code.
    """
    problem = Conv.parse(shape="1x10x10x8", filter="3x3x16", dtype="f32")
    provenance = replace(TIMED, problem=problem.name, command=" ".join(["autotune", *problem.arguments()]))
    with BuildExecutor.local(Builder(Tools.find(), Cache(cache)), 2) as executor:
        plan = Plan.make(problem, plain_only(CPU), executor, timeout=60.0)
    candidate = plan.candidate(plan.space[0], id="c0")
    assert candidate.carrier.name == "substitution"
    path = tmp_path / "specs" / "conv.mlir"
    path.parent.mkdir()
    shipped = candidate.carrier.carried(Said((f"Configured executable {WRITTEN}",), provenance))
    path.write_text(shipped.spec or "")
    with ir.Context():
        path.write_text(str(ir.Module.parseFile(str(path))))
    path.with_suffix(".flags").write_text(flagfile_text([*CPU.compile_flags, f"{shipped.spec_flag}={path}"]))

    pretend(monkeypatch, warm=0.5)
    document = answered(retune(path, "--budget", "20m", "--json"))
    assert (states(document), document["verdict"]) == ({problem.name: "kept"}, "win")
    assert Path(str(document["spec"])).is_file()


@pytest.mark.parametrize("others", [(), (OTHER.name,)])
def test_a_file_that_would_give_other_code_fails_alone(
    write: Callable[..., Path],
    specs: dict[str, str],
    retune: Retune,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    others: tuple[str, ...],
) -> None:
    """Somebody edits a spec while it is raced."""
    pretend(monkeypatch, warm=0.5)
    monkeypatch.setattr(Pretended, "_is_default", lambda _, module: not any(CPU.spec_flag in w for w in module.command))
    path = write(SMALL.name)
    for name in others:
        write(name)
    edited = path.read_text().replace(specs[SMALL.name], specs[f"{SMALL.name}, otherwise"])
    timed = Pretended.time

    def edits(self: Pretended, module: Module, benchmark: Benchmark, **how: Any) -> Timing:
        if "64x48" in str(benchmark.invocation.inputs):
            path.write_text(edited)
        return timed(self, module, benchmark, **how)

    monkeypatch.setattr(Pretended, "time", edits)
    done = retune(tmp_path, "--budget", "20m", "--json")
    document = json.loads(done.stdout)
    rows = {row["problem"]: row for row in document["entries"]}
    assert (rows[SMALL.name]["state"], document["states"]["failed"]) == ("failed", 1)
    assert rows[SMALL.name]["reason"] == f"it is not written: {SMALL.name}: what is written gives it other code."
    assert [Path(one["from"]).stem for one in document["written"]] == [*others]
    assert all(rows[name]["state"] == "kept" for name in others)
    assert (done.returncode, document["verdict"]) == ((0, "win") if others else (5, "inconclusive"))


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler on this machine")
def test_a_kernels_objects_are_there_after_its_spec_was_written_in_place(
    retune: Retune, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, warm=0.5)
    words = ("ab", "sgemm_c", "--shape", "64x32x48", "--trials", "1", "--budget", "20m", "--json", "-q")
    spec = Path(answered(in_this_process(*words, cwd=tmp_path, cache=cache))["spec"])
    objects = {path.name: path.read_bytes() for path in spec.with_suffix(".objects").iterdir()}
    assert objects
    document = answered(retune(spec, "--in-place", "--budget", "20m", "--json"))
    assert [row["state"] for row in document["entries"]] == ["kept"]
    assert Path(document["spec"]) == spec
    assert spec.read_text().startswith("// Spec by autotune ")
    assert {path.name: path.read_bytes() for path in spec.with_suffix(".objects").iterdir()} == objects


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler on this machine")
def test_files_of_a_model_that_were_moved_together_are_raced_and_written(
    write: Callable[..., Path], retune: Retune, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A spec that tunes, one that calls a microkernel, and its objects."""
    pretend(monkeypatch, warm=0.5)
    words = ("ab", "sgemm_c", "--shape", "64x32x48", "--trials", "1", "--budget", "20m", "--json", "-q")
    kernel = Path(answered(in_this_process(*words, cwd=tmp_path, cache=cache))["spec"])
    spec, model = write(OTHER.name), tmp_path / "model.mlir"
    shutil.copy(EXAMPLES / "two.mlir", model)
    kernel.rename(spec.with_suffix(KERNELS))
    kernel.with_suffix(".objects").rename(spec.with_suffix(".objects"))
    carriers = [f"{CPU.spec_flag}={spec}", f"{SPEC_FLAG}={spec.with_suffix(KERNELS)}"]
    flags = flagfile_text([*CPU.compile_flags, *carriers, f"{OBJECTS_FLAG}={spec.with_suffix('.objects')}"])
    spec.with_suffix(".flags").write_text(flags.replace(str(spec.parent), str(tmp_path / "gone")))
    document = answered(retune(spec, "--model", model, "--budget", "20m", "--json"))
    reasons = [row["reason"] for row in document["entries"]]
    assert [row["state"] for row in document["entries"]] == ["kept", "kept"], reasons
    assert document["verdict"] == "win", reasons
    written = read_unit(Path(document["spec"]), trust=False)
    assert all(path.is_relative_to(tmp_path / "specs" / "retuned") for path in written.reads)
    assert len(written.files) == 2


def test_what_applies_no_more_is_searched_again_near_its_place(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cache: Path
) -> None:
    pretend(monkeypatch, warm=0.5)
    # Several problems on one device: each has a default of its own, which is compiled without a spec.
    monkeypatch.setattr(Pretended, "_is_default", lambda _, module: not any(CPU.spec_flag in w for w in module.command))
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(cache))
    path = write("both", change=lambda text: text.replace('problem = "gemm_32x32x64', 'problem = "gemm_32x32x32'))
    before = path.read_text()
    options = Options(budget=600.0, trials=3, workspace=tmp_path, command=("autotune", "retune"))
    result = autotuner.retune(path, target=plain_only(CPU), options=options)
    found = {row.problem: row for row in result.details.rows}
    new = found.pop("gemm_32x32x32_f32_f32_nn")
    assert (new.state, result.verdict) == ("replaced", "win"), new.reason
    assert new.reason.startswith("it does not apply any more: nothing matches it; a search near its place found")
    assert {name: row.state for name, row in found.items()} == {SMALL.name: "kept"}
    assert result.spec is not None
    problems = {entry.provenance.problem for entry in read(result.spec).entries if entry.provenance}
    assert problems == {"gemm_32x32x32_f32_f32_nn", SMALL.name}
    assert path.read_text() == before


def test_a_spec_in_a_model_is_raced_as_a_whole_and_what_is_for_another_model_stays(
    write: Callable[..., Path], retune: Retune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, warm=0.5)
    path = write("both")
    model = tmp_path / "model.mlir"
    shutil.copy(EXAMPLES / "one.mlir", model)
    document = answered(retune(path, "--model", model, "--budget", "20m", "--json"))
    assert states(document) == {SMALL.name: "kept", OTHER.name: "skipped"}
    assert document["verdict"] == "win", document["entries"][0]["reason"]
    found = {
        entry.provenance.problem: entry.provenance for entry in read(Path(document["spec"])).entries if entry.provenance
    }
    assert (found[SMALL.name].verdict, found[SMALL.name].us) == ("judged in the model", None)
    assert (found[OTHER.name].verdict, found[OTHER.name].us) == (TIMED.verdict, TIMED.us)


def test_an_entry_of_a_model_is_shown_with_what_the_whole_model_took_before(
    write: Callable[..., Path], retune: Retune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, warm=0.5)
    path, model = write("both"), tmp_path / "model.mlir"
    shutil.copy(EXAMPLES / "one.mlir", model)
    with Store.open(None, workspace=tmp_path) as store:
        words = ("autotune", "model", str(model))
        run = store.start_run(NewRun("model", "", words, {"name": "model"}, "cpu", "local-task", seed=0))
        took = {"best": {"us": 0.45 * WARM}, "baseline": {"us": 0.9 * WARM}, "speedup": None}
        won = {"verdict": "win", "spec": str(path), "flagfile": str(path.with_suffix(".flags"))}
        store.finish_run(run, "finished", result={**won, **took})
    document = answered(retune(path, "--model", model, "--budget", "20m", "--json"))
    rows = {row["problem"]: row for row in document["entries"]}
    own, other = rows[SMALL.name], rows[OTHER.name]
    assert (own["us"], own["before_us"], own["before_baseline_us"]) == (0.5 * WARM, 0.45 * WARM, 0.9 * WARM)
    assert own["old"]["us"] == TIMED.us, "what its dispatch took alone"
    assert (other["state"], other["us"], other["before_us"]) == ("skipped", None, TIMED.us), "it was not raced"


def test_a_default_that_has_become_as_fast_is_found_and_nothing_is_written(
    write: Callable[..., Path], retune: Retune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, warm=1.0)
    monkeypatch.setattr("autotuner.jobs.retune.races.LEAST_SEARCH", math.inf)
    path, model = write(SMALL.name), tmp_path / "model.mlir"
    shutil.copy(EXAMPLES / "one.mlir", model)
    document = answered(retune(path, "--model", model, "--budget", "20m", "--json"))
    (row,) = document["entries"]
    assert (row["state"], document["verdict"], document["written"]) == ("dropped", "no-winner", [])
    told = retune(path, "--model", model, "--budget", "20m")
    assert "next       compile without the spec" in told.stdout
    assert row["reason"].startswith("no longer faster than IREE's default: 1.000x")


def test_what_a_model_must_give_is_the_users_to_say(
    write: Callable[..., Path], retune: Retune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pretend(monkeypatch, warm=0.5)
    path, model = write("both"), tmp_path / "model.mlir"
    shutil.copy(EXAMPLES / "one.mlir", model)
    a, b = np.ones((64, 48), np.float32), np.ones((48, 32), np.float32)
    for name, array in {"a": a, "b": b, "right": a @ b, "wrong": 2 * (a @ b)}.items():
        np.save(tmp_path / f"{name}.npy", array)
    words = (path, "--model", model, "--input", "@a.npy", "--input", "@b.npy", "--budget", "20m", "--json")
    right = answered(retune(*words, "--expected", tmp_path / "right.npy"))
    assert states(right) == {SMALL.name: "kept", OTHER.name: "skipped"}
    assert right["verdict"] == "win"
    wrong = json.loads(retune(*words, "--expected", tmp_path / "wrong.npy").stdout)
    assert wrong["verdict"] == "inconclusive", "neither the default nor the spec gives that"
    reasons = {row["problem"]: row["reason"] for row in wrong["entries"]}
    assert "--expected" in reasons[SMALL.name]


def test_every_entry_of_a_spec_is_raced_on_its_own_problem(
    write: Callable[..., Path], retune: Retune, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend(monkeypatch)
    monkeypatch.setattr(Pretended, "_is_default", lambda _, module: not any(CPU.spec_flag in w for w in module.command))
    timed = Pretended.time

    def small_alone_gains(self: Pretended, module: Module, benchmark: Benchmark, **how: Any) -> Timing:
        self.warm = 0.5 if "64x48" in str(benchmark.invocation.inputs) else 1.0
        return timed(self, module, benchmark, **how)

    monkeypatch.setattr(catalog, "CPU_ROUTES", catalog.CPU_ROUTES[:1])
    monkeypatch.setattr(Pretended, "time", small_alone_gains)
    document = answered(retune(write("both"), "--budget", "20m", "--trials", "1", "--json"))
    rows = {row["problem"]: row for row in document["entries"]}
    assert (rows[SMALL.name]["state"], document["states"]["kept"]) == ("kept", 1), document["entries"]
    assert rows[SMALL.name]["speedup"]["median"] == pytest.approx(2.0)
    assert rows[OTHER.name]["state"] == "dropped"
    assert rows[OTHER.name]["reason"].startswith("no longer faster than IREE's default")
    (left,) = read(Path(document["spec"])).entries
    assert left.provenance is not None
    assert left.provenance.problem == SMALL.name


def test_a_suites_flagfile_is_retuned_for_the_problems_that_the_results_know(
    retune: Retune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    devices = pretend(monkeypatch, warm=0.5)
    tiled = "--iree-opt-level=O2"
    # Both have a default of their own.
    monkeypatch.setattr(Pretended, "_is_default", lambda _, module: tiled not in module.command)
    folder = tmp_path / "specs"
    folder.mkdir()
    files = {name: folder / f"{name}-cpu.flags" for name in (SMALL.name, OTHER.name, "mine")}
    for path in files.values():
        path.write_text(flagfile_text([*CPU.compile_flags, tiled]))
    with Store.open(None, workspace=tmp_path) as store:

        def ran(kind: RunKind, name: str, parent: str | None = None, **result: Any) -> str:
            run = store.start_run(
                NewRun(kind, "", ("autotune", kind), {"name": name}, "cpu", "local-task", seed=0, parent=parent)
            )
            won = {"verdict": "win", "flagfile": str(files[name]), **result}
            store.finish_run(run, "finished", result=won)
            return run

        names = [SMALL.name, OTHER.name]
        groups = [{"flagfile": str(files["mine"]), "problems": [*names, "lost"], "lost": {"lost": "other code"}}]
        problems: list[dict[str, str]] = [{}, {}]
        suite = ran("suite", "mine", seconds={"total": 300.0}, groups=groups, problems=problems)
        for name in names:
            ran("single", name, suite, seconds={"total": 200.0})
    plan = json.loads(retune(tmp_path, "--dry-run", "--json").stdout)
    assert plan["skipped"] == []
    document = answered(retune(tmp_path, "--budget", "20m", "--json"))
    rows = sorted((Path(row["spec"]).name, row["problem"], row["state"]) for row in document["entries"])
    mine = [("mine-cpu.flags", name, "kept") for name in sorted(names)]
    assert rows == sorted([*mine, *((files[name].name, name, "kept") for name in names)])
    assert {Path(one["flagfile"]).name for one in document["written"]} == {path.name for path in files.values()}
    with Store.open(None, workspace=tmp_path, create=False) as store:
        assert len(store.parts(document["run"])) == 4, "each file is raced for each of its problems"
    assert devices[0].taken


def test_a_workspace_says_of_each_file_what_cannot_be_retuned(
    write: Callable[..., Path], retune: Retune, tmp_path: Path
) -> None:
    write(SMALL.name)
    folder = tmp_path / "specs"
    (folder / "broken.mlir").write_text("module {")
    (folder / "strange-cpu.flags").write_text("--iree-opt-data-tiling\n")
    (folder / "gemm_4x4x4_f16_f32_nn-gfx942.flags").write_text("--iree-hal-target-device=hip\n")
    document = json.loads(retune(tmp_path, "--dry-run", "--json", "--target", "cpu").stdout)
    assert [part["problem"] for part in document["parts"]] == [SMALL.name]
    reasons = {Path(one["spec"]).name: one["reason"] for one in document["skipped"]}
    assert "not a spec that this IREE reads" in reasons["broken.mlir"]
    assert reasons["strange-cpu.flags"].startswith("flags alone do not say which problem they are for")
    assert reasons["gemm_4x4x4_f16_f32_nn-gfx942.flags"] == "it is for gfx942: --target gfx942 retunes it"


def test_several_targets_in_one_workspace_need_a_choice(
    write: Callable[..., Path], retune: Retune, tmp_path: Path
) -> None:
    write(SMALL.name)
    (tmp_path / "specs" / "gemm_4x4x4_f16_f32_nn-gfx942.flags").write_text("--iree-hal-target-device=hip\n")
    done = retune(tmp_path, "--dry-run")
    assert done.returncode == 2
    assert "the specs are for cpu, gfx942. Give --target" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.mlir",), "there is no file none.mlir"),
        (("specs/x.txt",), "there is no file"),
        ((".", "--in-place", "-o", "x.mlir"), "--in-place and -o name two places"),
        ((".", "--function", "main"), "--function is for a model"),
        ((".", "--flag=--iree-x"), "--flag is for one target"),
        ((".",), "there is no spec in"),
    ],
)
def test_what_cannot_be_meant_is_refused(retune: Retune, words: tuple[str, ...], said: str) -> None:
    done = retune(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_a_strangers_spec_does_not_say_which_errors_are_allowed(tmp_path: Path) -> None:
    model = tmp_path / "m.mlir"
    model.write_text("module {}")
    words = ["autotune", "model", str(model), "--tolerance", "9", "--input", "4xf32", "-o", "out.mlir"]
    found = model_of_command(words, [tmp_path])
    assert found is not None
    assert (found.path, found.inputs, found.tolerance) == (model, ("4xf32",), None)


def _run(id: str, kind: RunKind, *, parent: str | None = None, arm: str = "") -> RunRow:
    files = {"spec": None, "flagfile": f"/w/specs/{SMALL.name}-cpu.flags", "verdict": "win"}
    arms = {"arms": [{"kind": "default"}, {"kind": arm}]} if arm else {}
    return RunRow(
        id=id,
        kind=kind,
        parent=parent,
        key="",
        command=("autotune",),
        problem={"name": SMALL.name},
        target="cpu",
        device="local-task",
        seed=0,
        status="finished",
        started=datetime(2026, 1, 1, tzinfo=UTC),
        ended=None,
        space_size=None,
        result={**files, **arms},
    )


def test_a_race_of_the_files_is_not_taken_for_the_run_that_found_them(tmp_path: Path) -> None:
    class Runs:
        def runs(self) -> list[RunRow]:
            below = [_run("race", "ab", parent="again", arm="flagfile"), _run("near", "single", parent="again")]
            return [*below, _run("again", "retune"), _run("ab", "ab", arm="flagfile"), _run("first", "single")]

    memory = Memory.read(cast(Reader, Runs()))
    (tmp_path / f"{SMALL.name}-cpu.flags").write_text("--iree-opt-data-tiling\n")
    found, names = memory.shipped(read_unit(tmp_path / f"{SMALL.name}-cpu.mlir", trust=False))
    assert found is not None
    assert (found.id, names) == ("first", (SMALL.name,))
    tuned = memory.tuned(SMALL.name, "cpu")
    assert tuned is not None
    assert tuned.id == "first"


@pytest.mark.parametrize(
    ("before", "given", "accepted"),
    [("f16", None, "f16"), (None, None, ""), (None, "tf32", "tf32"), ("f16", "tf32", "tf32")],
)
def test_what_was_accepted_when_a_problem_was_tuned_is_accepted_again(
    tmp_path: Path, before: str | None, given: str | None, accepted: str
) -> None:
    row = _run("first", "single")
    row = replace(row, problem={**row.problem, **({"allow_precision": before} if before else {})})
    (tmp_path / f"{SMALL.name}-cpu.flags").write_text("--iree-opt-data-tiling\n")
    origins = Origins(Memory((row,)), (tmp_path,), allow=given)
    ((part,), left) = origins.parts(read_unit(tmp_path / f"{SMALL.name}-cpu.mlir", trust=False))
    assert left == []
    assert part.problem == SMALL.allowing(accepted)
