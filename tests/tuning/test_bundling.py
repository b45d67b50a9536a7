"""Split by file: built here, run where nothing but the runtime is, imported as a run like any other."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotuner.build import Compiled
from autotuner.bundles import archive
from autotuner.bundles.command import NEEDS
from autotuner.bundles.documents import BASELINE, Manifest
from autotuner.system.execution import done
from autotuner.targets import PLAIN
from autotuner.tuning.bundling import bundled
from autotuner.tuning.evaluate import Evaluator
from autotuner.tuning.outcome import Outcome
from autotuner.tuning.plan import Candidate
from tests.support.claimed_wins import said_to_win
from tests.support.command_line import GEMM, complaint, in_this_process
from tests.support.contract import hold_contract
from tests.support.patience import ENOUGH

NO_ROUTES = ("--flag=--iree-opt-data-tiling=false", "--flag=--iree-llvmcpu-enable-ukernels=none")
"""They would only be compiled too."""
BARE = """
import runpy, sys
ALLOWED = {"autotuner", "numpy", "ml_dtypes", *%r}
TYPER = "typer click rich shellingham pygments markdown_it mdurl annotated_doc typing_extensions typing_inspection"
ALLOWED |= {*TYPER.split(), "annotated_types", "pydantic", "pydantic_core"}
class Hook:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        runtime = name == "iree" or name.startswith(("iree.runtime", "iree._runtime"))
        known = top in sys.stdlib_module_names or top in ALLOWED or top.startswith("_sysconfig")
        if not known and not runtime:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Hook())
sys.argv[0] = "autotune"
runpy.run_module("autotuner", run_name="__main__", alter_sys=True)
"""
"""The command where Python has nothing but the standard library, numpy, typer and IREE's runtime."""


def bare(*words: str, cwd: Path, program: str = BARE % ((),)) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=ENOUGH, check=False)


@pytest.fixture(autouse=True)
def cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built for the bundle need not be built once more."""
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(own_cache))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which a bundle was made."""
    folder = tmp_path_factory.mktemp("home")
    words = (*GEMM, "--trials", "4", "--microkernels", "none", *NO_ROUTES, "--effort", "quick")
    made = in_this_process(*words, "--bundle", "out.zip", "--json", cwd=folder)
    assert made.returncode == 0, made.stderr
    document = json.loads(made.stdout)
    assert document["verdict"] == "compile-only"
    assert document["bundle"]["file"] == str(folder / "out.zip")
    return folder


@pytest.fixture
def manifest(home: Path) -> Manifest:
    with zipfile.ZipFile(home / "out.zip") as file:
        return Manifest.read(json.loads(file.read(archive.MANIFEST)), "out.zip")


def test_a_bundle_runs_with_the_runtime_alone_and_is_imported_as_a_run(home: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "out.zip").write_bytes((home / "out.zip").read_bytes())
    ran = bare("bundle", "run", "out.zip", "--budget", "8s", "--json", cwd=tmp_path / "there")
    assert ran.returncode == 0, ran.stderr
    judged = json.loads(ran.stdout)
    assert {path.name for path in (tmp_path / "there").iterdir()} == {"out.zip", "out-result.zip"}
    result = tmp_path / "there" / "out-result.zip"
    told = in_this_process("bundle", "import", str(result), "--json", cwd=home)
    assert told.returncode == 0, told.stderr
    document = json.loads(told.stdout)
    hold_contract(document, home, in_time=False)
    assert document["device"] == "local-task"
    assert [document[name] for name in ("verdict", "reason")] == [judged[name] for name in ("verdict", "reason")]
    assert document["baseline"]["us"] > 0


def test_a_win_from_elsewhere_ships_a_spec_that_is_compiled_once_more(
    home: Path, manifest: Manifest, tmp_path: Path
) -> None:
    result = said_to_win(manifest, tmp_path)
    told = in_this_process("bundle", "import", str(result), "-o", str(tmp_path / "won.mlir"), "--json", cwd=home)
    assert told.returncode == 0, told.stderr
    document = json.loads(told.stdout)
    hold_contract(document, home)
    assert document["verdict"] == "win"
    assert document["spec"] == str(tmp_path / "won.mlir")
    assert "autotune gemm --shape 64x64x64" in (tmp_path / "won.mlir").read_text()
    assert document["speedup"]["median"] == 2.0


def test_a_result_of_a_bundle_from_elsewhere_is_refused(home: Path, manifest: Manifest, tmp_path: Path) -> None:
    result = said_to_win(manifest, tmp_path)
    (tmp_path / "other").mkdir()
    refused = in_this_process("bundle", "import", str(result), cwd=tmp_path / "other")
    assert "was not made in this workspace" in complaint(refused, 2)
    # With other flags for the compiler, under the name of a run that is there.
    forged = said_to_win(replace(manifest, flags=("--iree-hal-dump-executable-files-to=evil",)), tmp_path)
    refused = in_this_process("bundle", "import", str(forged), cwd=home)
    assert "is not the one that was made in this workspace" in complaint(refused, 2)
    assert not list(home.rglob("evil"))


def test_what_is_missing_on_the_other_machine_is_named(tmp_path: Path) -> None:
    without = BARE.replace('"numpy", ', "") % ((),)
    refused = bare("bundle", "run", "out.zip", cwd=tmp_path, program=without)
    assert "needs IREE's runtime and numpy, and numpy is not installed" in complaint(refused, 5)
    refused = bare("gemm", "--shape", "8x8x8", cwd=tmp_path)
    assert "only `autotune bundle run` works" in complaint(refused, 5)
    refused = bare("bundle", "run", cwd=tmp_path)
    assert (refused.returncode, "Missing argument 'BUNDLE'" in refused.stderr) == (2, True)
    assert NEEDS["iree.runtime"] == "iree-base-runtime"


def test_code_that_is_not_the_one_that_was_timed_is_refused(
    home: Path, manifest: Manifest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Evaluator.start_build

    def changed(*given: Any) -> Future[Compiled]:
        return done(replace(made(*given).result(), binary="another"))

    monkeypatch.setattr(Evaluator, "start_build", changed)
    refused = in_this_process("bundle", "import", str(said_to_win(manifest, tmp_path)), cwd=home)
    assert f"{tmp_path / 'result.zip'} (" in complaint(refused, 5)
    assert "is other code than is made here now" in refused.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--bundle", "out.tar"), "is not a .zip file"),
        (("--bundle", "no/such/out.zip"), "cannot be written"),
        (("--bundle", "out.zip", "--device", "local-task"), "--device has no meaning with --bundle"),
        (("--bundle", "out.zip", "-o", "a.mlir"), "--output has no meaning with --bundle"),
        (("--bundle", "out.zip", "--resume"), "--resume has no meaning with --bundle"),
        (("--bundle", "out.zip", "--cache", "cold"), "--cache has no meaning with --bundle"),
        (("--bundle", "out.zip", "--bucket-m", "16,any"), "--bundle is for one --shape"),
    ],
)
def test_what_a_bundle_does_not_use_is_refused(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    refused = in_this_process(*GEMM, *words, cwd=tmp_path)
    assert said in complaint(refused, 2)


def outcome(name: str, kind: str, *, twin_of: str | None = None, ok: bool = True) -> Outcome:
    candidate = Candidate(name, kind, PLAIN, complexity=0)  # type: ignore[arg-type]
    build = Compiled(None if ok else "compile-error", "", 0.0, (), Path())
    return Outcome(candidate, 0, build=build, duplicate_of=twin_of)


def test_the_default_travels_also_where_a_route_of_the_same_code_was_built_first() -> None:
    all_of_them = [
        outcome("stock-1", "stock"),
        outcome("stock-2", "stock"),
        outcome(BASELINE, "baseline", twin_of="stock-1"),
        outcome("c0001", "codegen", twin_of="stock-1"),
        outcome("c0002", "codegen"),
        outcome("c0003", "codegen"),
        outcome("c0004", "microkernel"),
        outcome("c0005", "microkernel", ok=False),
    ]
    found = bundled({one.id: one for one in all_of_them}, ["c0003"])
    assert [one.id for one in found] == [BASELINE, "stock-2", "c0003", "c0002", "c0004"]
    assert [one.id for one in bundled({one.id: one for one in all_of_them[:2]}, [])] == ["stock-1", "stock-2"]
