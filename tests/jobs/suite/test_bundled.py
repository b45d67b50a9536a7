"""A suite in one file: built here, timed elsewhere, imported and merged as a suite that was tuned here."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from autotuner.bundles import archive
from autotuner.bundles.documents import Manifest
from tests.support.claimed_wins import said_to_win
from tests.support.command_line import complaint, in_this_process

pytestmark = pytest.mark.long  # of one problem: in the tests of tuning; of parts: in those of bundles
SHAPES = "op,shape,dtype,calls\ngemm,64x64x64,f32,3\ngemm,48x64x64,f32,1\n"
PLAIN = ("--flag=--iree-opt-data-tiling=false", "--flag=--iree-llvmcpu-enable-ukernels=none", "--microkernels", "none")


@pytest.fixture(autouse=True)
def cache(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was built for the bundle need not be built once more."""
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(own_cache))


@pytest.fixture(scope="module")
def made_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which a suite's bundle was made."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "two.csv").write_text(SHAPES)
    words = ("suite", "two.csv", *PLAIN, "--trials", "4", "--effort", "quick", "--bundle", "out.zip", "--json")
    made = in_this_process(*words, cwd=folder)
    assert made.returncode == 0, made.stderr
    document = json.loads(made.stdout)
    assert (document["verdict"], document["bundle"]["file"]) == ("compile-only", str(folder / "out.zip"))
    return folder


def claimed(made_in: Path, folder: Path, *, parts: int = 2) -> Path:
    """The suite's result, in which the first of its parts win."""
    with zipfile.ZipFile(made_in / "out.zip") as bundle:
        names = [name for name in sorted(bundle.namelist()) if name.startswith("parts/")]
        suite, results = bundle.read(archive.SUITE), []
        for name in names[:parts]:
            with zipfile.ZipFile(bundle.open(name)) as part:
                manifest = Manifest.read(json.loads(part.read(archive.MANIFEST)), name)
            results.append(said_to_win(manifest, folder).rename(folder / Path(name).name))
    archive.write(folder / "out-result.zip", {archive.SUITE: suite}, {}, parts=results)
    return folder / "out-result.zip"


def test_winners_of_an_imported_suite_are_merged_into_one_spec(made_in: Path, tmp_path: Path) -> None:
    done = in_this_process("bundle", "import", str(claimed(made_in, tmp_path)), "--json", cwd=made_in)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["verdict"], document["device"]) == ("win", "local-task")
    assert {one["problem"]: (one["calls"], one["kept"]) for one in document["problems"]} == {
        "gemm_64x64x64_f32_f32_nn": (3, True),
        "gemm_48x64x64_f32_f32_nn": (1, True),
    }
    (group,) = document["groups"]
    assert group["lost"] == {}
    assert len(group["problems"]) == 2
    assert document["speedup"]["median"] == 2.0
    entries = json.loads(in_this_process("spec", "show", document["spec"], "--json", cwd=made_in).stdout)["entries"]
    assert len(entries) == 2


def test_a_problem_without_a_result_is_named_and_the_others_are_imported(made_in: Path, tmp_path: Path) -> None:
    done = in_this_process("bundle", "import", str(claimed(made_in, tmp_path, parts=1)), "--json", cwd=made_in)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert [one["verdict"] for one in document["problems"]] == ["win"]
    assert [one["reason"] for one in document["skipped"]] == ["it has no result"]


def test_a_suite_of_another_workspace_is_refused(made_in: Path, tmp_path: Path) -> None:
    result = claimed(made_in, tmp_path)
    (tmp_path / "other").mkdir()
    refused = in_this_process("bundle", "import", str(result), cwd=tmp_path / "other")
    assert "was not made in this workspace" in complaint(refused, 2)


def test_a_part_that_cannot_run_here_is_left_out_and_told(made_in: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(made_in / "out.zip") as bundle:
        bundle.extractall(tmp_path)
    good, broken = sorted((tmp_path / "parts").iterdir())
    with zipfile.ZipFile(broken) as part:
        manifest = part.read(archive.MANIFEST)
    broken.unlink()
    archive.write(broken, {archive.MANIFEST: manifest}, {})
    suite = (tmp_path / "suite.json").read_bytes()
    archive.write(tmp_path / "one.zip", {archive.SUITE: suite}, {}, parts=[good, broken])
    ran = in_this_process("bundle", "run", "one.zip", "--budget", "20s", "--json", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    first, second = json.loads(ran.stdout)["parts"]
    assert first["verdict"] in ("win", "no-winner", "inconclusive")
    assert "of its modules are missing" in second["error"]
    with zipfile.ZipFile(tmp_path / "one-result.zip") as file:
        assert sorted(file.namelist()) == ["parts/0000.zip", "suite.json"]
