"""A run ends in a verdict that its rows, its counts and its files agree with."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner import Gemm, Options, Result
from autotuner.carriers.render import MARKER
from autotuner.cli.app import main
from autotuner.iree.folder import PROBLEM as MLIR
from autotuner.iree.tools import Tools
from autotuner.measure.cache_timer import NO_TIME
from autotuner.store.store import Store
from autotuner.tuning.options import Effort
from autotuner.tuning.printer import Printer
from autotuner.tuning.result import read_result
from tests.support.contract import hold_contract
from tests.support.fake_tools import (
    DATA_TILING,
    PROBLEM,
    SHAPE,
    SPEC,
    TWO_ROUTES,
    FakeTools,
    candidates,
    codegen,
    run,
)
from tests.support.simulated_time import SimulatedTime

Fake = Callable[..., FakeTools]


def test_a_run_with_real_timing_ends_in_a_verdict_and_what_is_kept_can_be_pasted(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The microseconds are real; how many pairs there is time for does not depend on the machine."""
    SimulatedTime(lambda words: 1.0 if words[0].endswith("iree-compile") else 0.3).rule(monkeypatch)
    problem = Gemm.parse(shape="192x192x256", dtype="f32")
    quick = Effort(trials=3, budget=20, compile_only_trials=3, race_entrants=2)
    result = run(None, workspace, problem=problem, target=TWO_ROUTES, effort=quick, keep=("all",))
    document = result.to_json()
    hold_contract(document, workspace, in_time=False)
    assert document["verdict"] in ("win", "no-winner", "inconclusive")
    assert document["environment"]["iree"] == Tools.find().release
    assert document["counts"]["space"] > 1000
    assert len(codegen(workspace, result.run)) <= 3
    assert 0 < document["best"]["us"] <= document["baseline"]["us"] or document["verdict"] != "win"
    with Store.open(None, workspace=workspace) as store:
        screens = [t for t in store.timings(result.run) if t.phase == "screen"]
        assert store.run(result.run).status == "finished"
        assert store.run(result.run).result == document
    assert all(len(t.repetitions_us) in (1, 3) for t in screens)
    assert any(len(set(t.repetitions_us)) == 3 for t in screens)
    assert all(t.conditions is not None and t.conditions.state == "sustained" for t in screens)
    assert document["timing"] == {"state": "sustained", "cache": "warm"}
    if document["verdict"] != "inconclusive" and NO_TIME not in document["notes"]:
        assert document["cold"]["baseline_us"] > 0
        assert document["warm"]["baseline_us"] > 0
    built = {f"c{row.ordinal:04d}" for row in codegen(workspace, result.run) if row.state != "asked"}
    assert {"baseline", *built} <= folders(workspace, result)
    pasted(workspace / "candidates" / result.run / "baseline", tmp_path)


def pasted(folder: Path, elsewhere: Path) -> None:
    """The command of a kept folder builds and times what is there."""
    words = ["bash", "-e", str(folder / "command.txt")]
    done = subprocess.run(words, cwd=elsewhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "module.vmfb").is_file()
    times = json.loads(done.stdout)["benchmarks"]
    assert sum(b["run_type"] == "iteration" for b in times) == 3


# --- win -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def won(tmp_path_factory: pytest.TempPathFactory, warm: Path) -> Result:
    """Every spec takes a fifth of what all routes take."""
    folder = tmp_path_factory.mktemp("won")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_CACHE_DIR", str(warm / "cache"))
        fake = FakeTools(folder / "fake", warm / "labels", rules=[(SPEC, 20.0)])
        return run(fake, folder / "workspace", target=TWO_ROUTES)


def test_a_kernel_that_wins_is_told_beside_the_best_of_the_compiler(workspace: Path, fake: Fake) -> None:
    """Kernels join by default; whoever works on the compiler sees what its own code came to."""
    tools = fake(rules=[("*transform-spec-filename*", 20.0), (DATA_TILING, 50.0)])
    result = run(tools, workspace, target=TWO_ROUTES, microkernels=Options().microkernels, trials=1)
    document = result.to_json()
    hold_contract(document, workspace)
    assert (document["verdict"], document["carrier"]) == ("win", "microkernel")
    assert (document["best"]["kind"], document["best"]["us"]) == ("microkernel", 20e3)
    assert (document["best_codegen"]["kind"], document["best_codegen"]["us"]) == ("codegen", 50e3)
    assert document["best_codegen"]["route"] == "data-tiling"
    assert "without microkernels: data-tiling" in Printer.of(result).text(verbose=True)
    assert "--microkernels" not in (workspace / "specs" / f"{PROBLEM.name}-cpu.mlir").read_text()
    assert read_result(document, workspace=workspace, storage=None).best_codegen == result.best_codegen


def test_a_spec_that_beats_all_routes_is_shipped_with_its_flagfile(won: Result) -> None:
    document, workspace = won.to_json(), won.workspace
    hold_contract(document, workspace)
    assert (document["verdict"], document["carrier"]) == ("win", "spec")
    assert (document["baseline"]["us"], document["stock"]["us"], document["best"]["us"]) == (100e3, 100e3, 20e3)
    assert document["best"]["kind"] == "codegen"
    assert document["best"]["config"]["route"] == "plain"
    assert all(document[name]["isa"]["code_bytes"] > 0 for name in ("baseline", "stock", "best"))
    for name in ("speedup", "speedup_over_stock"):
        ratio = document[name]
        assert (ratio["low"], ratio["median"], ratio["high"]) == pytest.approx((5.0, 5.0, 5.0))
    assert document["speedup"]["confidence"] == 0.95
    assert won.spec == workspace / "specs" / f"{PROBLEM.name}-cpu.mlir"
    assert won.flagfile == won.spec.with_suffix(".flags")
    assert sorted(p.name for p in (workspace / "specs").iterdir()) == [won.flagfile.name, won.spec.name]

    header = []
    for line in won.spec.read_text().splitlines():
        if not line.startswith("//"):
            break
        header.append(line)
    text = "\n".join(header)
    assert PROBLEM.name in text
    assert f"cpu; IREE {document['environment']['iree']} ({document['environment']['compiler']})" in text
    assert re.search(r"win\b.*5\.00x faster than IREE's default \(95 % confidence: 5\.00x to 5\.00x\)", text)
    assert re.search(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", text)
    asked = " --seed 0 --trials 4 --budget 1200s --device local-task"
    (again,) = [line for line in header if "autotune gemm" in line]
    assert f"autotune {' '.join(PROBLEM.arguments())} --target cpu" in again
    assert all(word in again.split() for word in asked.split())
    assert f"iree-compile your_program.mlir @{won.flagfile} -o your_program.vmfb" in text


def test_the_use_line_compiles_a_program_with_the_problem_in_it_and_applies_the_spec(
    won: Result, tmp_path: Path
) -> None:
    (use,) = [line.removeprefix("use").strip() for line in str(won).splitlines() if line.startswith("use ")]
    program, *words = shlex.split(use)
    assert (program, words[0], words[-1]) == ("iree-compile", "your_program.mlir", "your_program.vmfb")
    shutil.copy(next((won.workspace / "candidates" / won.run).glob(f"*/{MLIR}")), tmp_path / words[0])
    dump = "--iree-hal-dump-executable-configurations-to=dump"
    subprocess.run([str(Tools.find().iree_compile), *words, dump], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / words[-1]).stat().st_size > 0
    assert MARKER in "".join(path.read_text() for path in (tmp_path / "dump").glob("*.mlir"))
    assert won.spec is not None
    assert won.flagfile is not None
    flags = won.flagfile.read_text().splitlines()
    assert all(line.startswith("--") for line in flags)
    assert f"--iree-codegen-tuning-spec-path={won.spec}" in flags
    assert f"// use:        {use}" in won.spec.read_text().splitlines()


def test_raw_repetitions_of_screen_race_and_confirmation_are_stored(won: Result) -> None:
    with Store.open(None, workspace=won.workspace) as store:
        rows = {row.id: row for row in store.candidates(won.run)}
        timings = store.timings(won.run)
    assert {t.phase for t in timings} == {"screen", "drift", "race", "confirm"}
    for timing in timings:
        expected = 20e3 if rows[timing.candidate].kind == "codegen" else 100e3
        assert set(timing.repetitions_us) == {expected}
    screens = [t.candidate for t in timings if t.phase == "screen" and t.block == 0]  # others are of the finalists
    assert len(screens) == len({*screens})
    assert won.best is not None
    winner = [t for t in timings if t.phase == "confirm" and rows[t.candidate].kind == "codegen"]
    assert [t.block for t in winner] == list(range(1, len(winner) + 1))
    assert len({t.candidate for t in winner}) == 1


def test_a_stock_route_as_fast_as_any_spec_ships_flags_alone(fake: Fake, workspace: Path) -> None:
    result = run(fake(rules=[(SPEC, 20.0), (DATA_TILING, 20.0)]), workspace, target=TWO_ROUTES, keep=("none",))
    assert folders(workspace, result) == set()
    document = result.to_json()
    hold_contract(document, workspace)
    assert (document["verdict"], document["carrier"], document["spec"]) == ("win", "flags", None)
    assert document["stock"]["flags"] == document["best"]["flags"] == ["--iree-opt-data-tiling"]
    assert document["best"]["config"] == {}
    assert document["speedup"]["median"] == pytest.approx(5.0)
    assert document["speedup_over_stock"]["median"] == pytest.approx(1.0)
    assert result.flagfile is not None
    lines = result.flagfile.read_text().splitlines()
    assert "--iree-opt-data-tiling" in lines
    assert not any("spec" in line for line in lines)
    assert [p.name for p in (workspace / "specs").iterdir()] == [result.flagfile.name]


# --- no win ----------------------------------------------------------------------------------------------------------


def test_where_nothing_gains_enough_nothing_is_shipped_and_the_verdict_may_be_exit_6(
    fake: Fake, workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tools = fake(rules=[(SPEC, 99.6)]).tools
    monkeypatch.setattr(Tools, "find", lambda _folder: tools)
    monkeypatch.setattr(Gemm, "routes", ())
    words = (*SHAPE, "--effort", "quick", "--trials", "4", "--workspace", str(workspace), "--fail-if-no-winner")
    monkeypatch.setattr("sys.argv", ["autotune", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 6
    document = json.loads(capsys.readouterr().out)
    hold_contract(document, workspace)
    assert document["verdict"] == "no-winner"
    assert (document["spec"], document["flagfile"], document["carrier"]) == (None, None, None)
    assert not any((workspace / "specs").iterdir())
    assert (document["baseline"]["us"], document["best"]["us"]) == (100e3, 99.6e3)
    assert document["speedup"]["median"] == pytest.approx(100 / 99.6)


# --- folders --------------------------------------------------------------------------------------------------


def folders(workspace: Path, result: Result) -> set[str]:
    """The candidates' folders that a run left."""
    folder = workspace / "candidates" / result.run
    return {p.name for p in folder.iterdir() if p.is_dir() and p.name != "inputs"} if folder.exists() else set()


@pytest.mark.parametrize("keep", ["failed", "best"])
def test_keep_says_which_folders_stay(fake: Fake, workspace: Path, keep: str) -> None:
    """`all` and `none` are kept, or not, by other runs here."""
    tools = fake(rules=[(SPEC, 20.0)], bench_roles=["benchmark-dies"])
    result = run(tools, workspace, keep=(keep,))
    assert result.verdict == "win"
    assert result.best is not None
    rows = candidates(workspace, result.run)
    failed = {f"c{row.ordinal:04d}" for row in rows if row.state == "failed"}
    assert len(failed) == 1
    expected = failed if keep == "failed" else {result.best.candidate or ""}
    assert folders(workspace, result) == expected
    for name in expected:
        folder = workspace / "candidates" / result.run / name
        assert {"problem.mlir", "command.txt", "stderr.txt", "spec.mlir"} <= {p.name for p in folder.iterdir()}
        assert ("the device is lost" in (folder / "stderr.txt").read_text()) == (name in failed)


def test_a_spec_goes_where_the_user_says_into_a_folder_of_any_name(fake: Fake, tmp_path: Path) -> None:
    """The flagfile is proven with the real compiler before it is shipped; what is printed can be pasted."""
    workspace = tmp_path / 'back\\slash, two words, it\'s "so", été'
    path = workspace / "a folder" / "mine.mlir"
    result = run(fake(rules=[(SPEC, 20.0)]), workspace, output=path)
    assert result.verdict == "win", result.reason
    assert (result.spec, result.flagfile) == (path, path.with_suffix(".flags"))
    assert not any((workspace / "specs").iterdir())
    (line,) = (line for line in path.read_text().splitlines() if line.startswith("// use:"))
    assert shlex.split(line.removeprefix("// use:"))[2] == f"@{result.flagfile}"
