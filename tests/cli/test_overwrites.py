"""What is at the path that a user names: autotune's own documents are replaced, and nothing else is without --force."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

import pytest

from autotuner.jobs.nightly.plan import read_plan
from autotuner.jobs.nightly.run import tonight
from autotuner.store.store import Store
from tests.support.command_line import Here, complaint
from tests.support.won_run import won_run

NIGHTLY = '[defaults]\nbudget = "1m"\n[[parts]]\nsuite = "unet"\n'
THESIS = "<!doctype html>\n<p>My thesis, by autotune 0.1.0, run,parent,started\n"


@pytest.mark.parametrize(
    ("command", "place"),
    [
        (("report", "-o", "out.html"), "out.html"),
        (("report",), "report.html"),
        (("nightly", "night.toml"), "results/nightly/night.html"),
    ],
)
def test_a_file_of_somebody_else_stays_unless_it_is_forced_and_our_own_is_replaced(
    command: tuple[str, ...], place: str, tmp_path: Path, here: Here
) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        won_run(store)
    (tmp_path / "night.toml").write_text(NIGHTLY)
    plan, path = read_plan(tmp_path / "night.toml"), tmp_path / place
    done = {"night": tonight(), "part": plan.parts[0].name, "status": "finished", "time": "2026-11-18T00:00:00+00:00"}
    plan.history.parent.mkdir(parents=True, exist_ok=True)
    plan.history.write_text(f"{json.dumps(done)}\n")
    path.write_text(THESIS)
    path.chmod(0o600)
    assert f"{path.name} is there and was not written by autotune" in complaint(here(*command), 2)
    assert path.read_text() == THESIS
    for again in (("--force",), ()):  # then it is ours
        written = here(*command, *again)
        assert written.returncode == 0, written.stderr
        assert path.read_bytes() != THESIS.encode()
        assert path.stat().st_mode & 0o777 == 0o600
    path.unlink()
    path.symlink_to(path.with_name("elsewhere"))
    assert "a link and not a file" in complaint(here(*command, "--force"), 2)
    assert not path.with_name("elsewhere").exists()


def test_a_device_is_no_file_to_write(here: Here, tmp_path: Path) -> None:
    with Store.open(None, workspace=tmp_path) as store:
        won_run(store)
    os.mkfifo(tmp_path / "pipe.html")
    assert "a device or pipe and not a file" in complaint(here("report", "--force", "-o", "pipe.html"), 2)


def test_only_a_bundle_is_replaced_by_a_bundle(here: Here, tmp_path: Path) -> None:
    """A zip file of another program may have a manifest.json, too."""
    with zipfile.ZipFile(tmp_path / "mine.zip", "w") as archive:
        archive.writestr("manifest.json", "{}")
        archive.writestr("background.js", "")
    before = (tmp_path / "mine.zip").read_bytes()
    done = here("gemm", "--shape", "64x64x64", "--dtype", "f32", "--bundle", "mine.zip", "-q")
    assert "mine.zip is there and was not written by autotune" in complaint(done, 2)
    done = here("bundle", "run", "none.zip", "-o", "mine.zip")
    assert "mine.zip is there and was not written by autotune" in complaint(done, 2)
    assert (tmp_path / "mine.zip").read_bytes() == before


def test_a_bundle_at_the_root_of_all_files_is_no_bundle(here: Here) -> None:
    for place in ("/", ".."):
        assert "is a folder" in complaint(here("bundle", "run", place), 2)
