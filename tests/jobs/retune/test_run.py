"""Specs retuned: proven by real compiles, raced on a device whose times are chosen, and written anew."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iree.compiler import ir

import autotuner
from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.carrier import FileHeader
from autotuner.carriers.flagfile import KERNELS, flagfile_text
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.carriers.provenance import WRITTEN
from autotuner.devices.device import Module, Timing
from autotuner.iree.run import Benchmark
from autotuner.iree.tools import Tools
from autotuner.jobs.buckets import plain_only
from autotuner.jobs.retune.plan import Wanted, read_plan
from autotuner.jobs.retune.result import RetuneResult
from autotuner.jobs.retune.unit import read_unit
from autotuner.problems import Gemm
from autotuner.problems.conv import Conv
from autotuner.programs.model import Model
from autotuner.specfiles.entries import read
from autotuner.specfiles.merge import merge
from autotuner.system.cache import Cache
from autotuner.system.progress import Stop
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.plan import Plan
from tests.support.command_line import in_this_process
from tests.support.pretended_device import WARM, Pretended, pretend
from tests.support.spec_files import TIMED, make_spec
from tests.support.wrapped import BELIEVED

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


@pytest.fixture
def from_python(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., RetuneResult]:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(cache))

    def call(path: Path, *, target: Target | None = None, model: Model | None = None, **more: Any) -> RetuneResult:
        options = Options(budget=1200.0, workspace=tmp_path, command=("autotune", "retune"), **more)
        return autotuner.retune(path, target=target, model=model, options=options)

    return call


def test_nothing_is_raced_on_an_emulated_device(retune: Retune, write: Callable[..., Path]) -> None:
    done = retune(write(SMALL.name), "--emulated")
    assert done.returncode == 2
    assert "retune races entries, and this device is emulated" in done.stderr


@pytest.fixture
def by_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several problems on one device: each has a default of its own, which is compiled without a spec."""
    monkeypatch.setattr(Pretended, "_is_default", lambda _, module: not any(CPU.spec_flag in w for w in module.command))


def answered(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def states(document: dict[str, Any]) -> dict[str, str]:
    return {row["problem"]: row["state"] for row in document["entries"]}


def test_without_a_device_entries_are_proven_and_nothing_is_written(
    write: Callable[..., Path], from_python: Callable[..., RetuneResult], tmp_path: Path
) -> None:
    path = write(SMALL.name)
    before = path.read_text()
    result = from_python(path, device="none")
    assert (result.verdict, result.details.written) == ("compile-only", ())
    assert "next       run the same command where the device is" in str(result)
    (row,) = result.to_json()["entries"]
    assert (row["state"], row["applied"], row["old"]["us"]) == ("kept", 1, TIMED.us)
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
    """Files that were moved: those beside the flagfile are meant."""
    path = write("both", change=lambda text: text.replace('problem = "gemm_32x32x64', 'problem = "gemm_32x32x96'))
    flags = path.with_suffix(".flags")
    flags.write_text(flags.read_text().replace(str(path), f"gone/{path.name}"))
    text = path.read_text()
    new = tmp_path / "new.mlir"
    document = answered(retune(path, "--device", "none", "-o", new, "--json"))
    dropped = [row for row in document["entries"] if row["state"] == "dropped"]
    assert [row["reason"].partition(";")[0] for row in dropped] == ["it does not apply any more: nothing matches it"]
    assert [one["spec"] for one in document["written"]] == [str(new)]
    left = read(new).entries
    assert len(left) == 1
    assert left[0].provenance is not None
    assert "IREE" in left[0].provenance.earlier
    assert left[0].provenance.verdict == "proven again"
    assert path.read_text() == text


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
    shipped = candidate.carrier.carried(FileHeader((f"Configured executable {WRITTEN}",), provenance))
    path.write_text(shipped.spec or "")
    with ir.Context():
        path.write_text(str(ir.Module.parseFile(str(path))))
    path.with_suffix(".flags").write_text(flagfile_text([*CPU.compile_flags, f"{shipped.spec_flag}={path}"]))

    pretend(monkeypatch, warm=0.5)
    document = answered(retune(path, "--budget", "20m", "--json"))
    assert (states(document), document["verdict"]) == ({problem.name: "kept"}, "win")
    assert Path(str(document["spec"])).is_file()


@pytest.mark.usefixtures("by_spec")
def test_a_file_that_would_give_other_code_fails_alone(
    write: Callable[..., Path],
    specs: dict[str, str],
    retune: Retune,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Somebody edits a spec while it is raced."""
    pretend(monkeypatch, warm=0.5)
    path = write(SMALL.name)
    write(OTHER.name)
    edited = path.read_text().replace(specs[SMALL.name], specs[f"{SMALL.name}, otherwise"])
    timed = Pretended.time

    def edits(self: Pretended, module: Module, benchmark: Benchmark, **how: Any) -> Timing:
        if "64x48" in str(benchmark.invocation.inputs):
            path.write_text(edited)
        return timed(self, module, benchmark, **how)

    monkeypatch.setattr(Pretended, "time", edits)
    document = answered(retune(tmp_path, "--budget", "20m", "--json"))
    assert (states(document), document["verdict"]) == ({SMALL.name: "failed", OTHER.name: "kept"}, "win")
    failed = next(row for row in document["entries"] if row["state"] == "failed")
    assert failed["reason"] == f"it is not written: {SMALL.name}: what is written gives it other code."
    assert [Path(one["from"]).stem for one in document["written"]] == [OTHER.name]


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler on this machine")
@pytest.mark.long
def test_files_of_a_model_that_were_moved_together_are_raced_and_written(
    write: Callable[..., Path], retune: Retune, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A spec that tunes, one that calls a microkernel, and its objects: these are held to their time as strangers'."""
    monkeypatch.setattr(Pretended, "live_calls", lambda *_: BELIEVED)
    pretend(monkeypatch, warm=0.5)
    words = ("ab", "sgemm_c", "--shape", "64x32x48", "--trials", "1", "--budget", "20m", "--json", "-q")
    kernel = Path(answered(in_this_process(*words, cwd=tmp_path, cache=cache))["spec"])
    spec, model = write(OTHER.name), tmp_path / "model.mlir"
    shutil.copy(EXAMPLES / "two.mlir", model)
    kernel.rename(spec.with_suffix(KERNELS))
    folder = kernel.with_suffix(".objects").rename(spec.with_suffix(".objects"))
    carriers = [f"{CPU.spec_flag}={spec}", f"{SPEC_FLAG}={spec.with_suffix(KERNELS)}"]
    flags = flagfile_text([*CPU.compile_flags, *carriers, f"{OBJECTS_FLAG}={folder}"])
    spec.with_suffix(".flags").write_text(flags.replace(str(spec.parent), str(tmp_path / "gone")))
    document = answered(retune(spec, "--model", model, "--budget", "20m", "--json"))
    reasons = [row["reason"] for row in document["entries"]]
    assert [row["state"] for row in document["entries"]] == ["kept", "kept"], reasons
    assert document["verdict"] == "win", reasons
    written = read_unit(Path(document["spec"]), trust=False)
    assert all(path.is_relative_to(tmp_path / "specs" / "retuned") for path in written.reads)
    assert len(written.files) == 2


@pytest.mark.usefixtures("by_spec")
def test_what_applies_no_more_is_searched_again(
    write: Callable[..., Path],
    from_python: Callable[..., RetuneResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pretend(monkeypatch, warm=0.5)
    path = write("both", change=lambda text: text.replace('problem = "gemm_32x32x64', 'problem = "gemm_32x32x32'))
    before = path.read_text()
    result = from_python(path, target=plain_only(CPU), trials=3)
    found = {row.problem: row for row in result.details.rows}
    new = found.pop("gemm_32x32x32_f32_f32_nn")
    assert (new.state, result.verdict) == ("replaced", "win"), new.reason
    assert new.reason.startswith("it does not apply any more: nothing matches it; a search found")
    (kept,) = found.values()
    assert (kept.problem, kept.state, kept.raced and kept.raced.us) == (SMALL.name, "kept", 0.5 * WARM)
    written = [one.files.spec for one in result.details.written if one.files.spec is not None]
    assert [spec.name for spec in written] == ["both-gemm_32x32x32_f32_f32_nn.mlir", "both.mlir"]
    problems = [[entry.provenance.problem for entry in read(spec).entries if entry.provenance] for spec in written]
    assert problems == [["gemm_32x32x32_f32_f32_nn"], [SMALL.name]]
    assert path.read_text() == before


def test_a_spec_in_a_model_is_raced_as_a_whole_without_what_is_for_another_model(
    write: Callable[..., Path], retune: Retune, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What the model must give is the user's to say."""
    pretend(monkeypatch, warm=0.5)
    path, model = write("both"), tmp_path / "model.mlir"
    shutil.copy(EXAMPLES / "one.mlir", model)
    a, b = np.ones((64, 48), np.float32), np.ones((48, 32), np.float32)
    for name, array in {"a": a, "b": b, "right": a @ b, "wrong": 2 * (a @ b)}.items():
        np.save(tmp_path / f"{name}.npy", array)
    words = (path, "--model", model, "--input", "@a.npy", "--input", "@b.npy", "--budget", "20m", "--json")
    document = answered(retune(*words, "--expected", tmp_path / "right.npy"))
    assert states(document) == {SMALL.name: "kept", OTHER.name: "dropped"}
    assert document["verdict"] == "win", document["entries"][0]["reason"]
    row = next(row for row in document["entries"] if row["state"] == "kept")
    assert (row["us"], row["old"]["us"], row["before_us"]) == (0.5 * WARM, TIMED.us, None), "its dispatch took that"
    (entry,) = read(Path(document["spec"])).entries
    assert entry.provenance is not None
    assert (entry.provenance.problem, entry.provenance.us) == (SMALL.name, None)
    assert entry.provenance.verdict == "judged in the model"
    wrong = json.loads(retune(*words, "--expected", tmp_path / "wrong.npy").stdout)
    assert wrong["verdict"] == "inconclusive", "neither the default nor the spec gives that"
    reasons = {row["problem"]: row["reason"] for row in wrong["entries"]}
    assert "--expected" in reasons[SMALL.name]


def test_a_default_that_has_become_as_fast_is_found_and_nothing_is_written(
    write: Callable[..., Path],
    from_python: Callable[..., RetuneResult],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    pretend(monkeypatch, warm=1.0)
    model = tmp_path / "model.mlir"
    shutil.copy(EXAMPLES / "one.mlir", model)
    result = from_python(write(SMALL.name), model=Model(model))
    (row,) = result.details.rows
    assert (row.state, result.verdict, result.details.written) == ("dropped", "no-winner", ())
    assert row.reason.startswith("no longer faster than IREE's default: 1.00x")
    assert row.reason.endswith("a model is not searched here, tune it again with its own command")
    assert "next       compile without the spec" in str(result)


def test_a_workspace_says_of_each_file_what_cannot_be_retuned(
    write: Callable[..., Path], retune: Retune, tmp_path: Path
) -> None:
    write(SMALL.name)
    write(OTHER.name, change=lambda text: text.replace('target = "cpu"', 'target = "gfx942"'))
    write(f"{SMALL.name}, otherwise", change=lambda text: text.replace(f'problem = "{SMALL.name}"', 'problem = "mine"'))
    folder = tmp_path / "specs"
    (folder / "broken.mlir").write_text("module {")
    (folder / "flags.flags").write_text("--iree-opt-data-tiling\n")
    document = json.loads(retune(tmp_path, "--dry-run", "--json", "--target", "cpu").stdout)
    assert [part["problem"] for part in document["parts"]] == [SMALL.name]
    reasons = {Path(one["spec"]).stem: one["reason"] for one in document["skipped"]}
    assert "not a spec that this IREE reads" in reasons["broken"]
    assert "flags.flags names no spec. Flags alone have no entries" in reasons["flags"]
    assert reasons[OTHER.name] == "it is for gfx942: --target gfx942 retunes it"
    assert reasons[f"{SMALL.name}, otherwise"].startswith("it does not name one problem that it is for")
    done = retune(tmp_path, "--dry-run")
    assert done.returncode == 2
    assert "the specs are for cpu, gfx942. Give --target" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("none.mlir",), "there is no file none.mlir"),
        (("specs/x.txt",), "there is no file"),
        ((".", "--function", "main"), "--function is for a model"),
        ((".", "--flag=--iree-x"), "--flag is for one target"),
        ((".",), "there is no spec in"),
    ],
)
def test_what_cannot_be_meant_is_refused(retune: Retune, words: tuple[str, ...], said: str) -> None:
    done = retune(*words)
    assert done.returncode == 2
    assert said in done.stderr


def test_an_accuracy_that_the_user_accepts_is_accepted_of_each_problem(write: Callable[..., Path]) -> None:
    wanted = Wanted(write("both"), allow="tf32")
    assert [part.problem for part in read_plan(wanted, Options()).parts] == [
        SMALL.allowing("tf32"),
        OTHER.allowing("tf32"),
    ]
