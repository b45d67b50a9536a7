"""Every command's run is a row: killed, it goes on with --resume, and `autotune history` shows it with its parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner.store.store import Store
from tests.support.fake_tools import SHAPE, Cli

MakeCli = Callable[..., Cli]
SCREENED = "SELECT count(*) FROM candidates WHERE state = 'timed'"


def kill(line: Cli, query: str, at_least: int, *words: str) -> None:
    """Starts a run and ends it with SIGKILL when the database shows so many rows."""
    line.fake.slow_down("time")
    process = line.start(*words)
    line.wait_for(process, query, at_least)
    process.kill()
    process.communicate()
    line.fake.slow_down("time", slow=False)


@pytest.mark.long
def test_a_killed_family_goes_on_with_the_bucket_that_it_was_at(cli: MakeCli) -> None:
    line = cli()
    words = ("gemm", "--shape", "16x64x128", "--dtype", "f32", "--bucket-m", "16,32", "--trials", "1", "--json")
    ended = "SELECT count(*) FROM runs WHERE parent IS NOT NULL AND status = 'finished'"
    began = f"SELECT ({ended}) * (SELECT count(*) FROM runs WHERE parent IS NOT NULL) > 1"
    kill(line, began, 1, *words)
    with Store.open(None, workspace=line.workspace, create=False) as store:
        (killed,) = store.runs(top=True)
        parts = [part.id for part in store.parts(killed.id)]
        assert (killed.kind, killed.status, len(parts)) == ("buckets", "interrupted", 2)
    code, document, err = line.finish(*words, "--resume")
    assert (code, document["run"]) == (0, killed.id), err
    assert [bucket["run"] for bucket in document["buckets"]] == parts, "one is recalled, the other went on"
    assert f"going on with run {killed.id}: 1 buckets are finished" in err
    with Store.open(None, workspace=line.workspace, create=False) as store:
        (run,) = store.runs(top=True)
        assert (run.status, run.result) == ("finished", document)
        assert {part.status for part in store.parts(run.id)} == {"finished"}
    assert "buckets of 2 runs: 2 finished" in line.text("history")


@pytest.mark.long
def test_a_killed_experiment_goes_on_with_its_rows(cli: MakeCli, tmp_path: Path) -> None:
    line = cli(rules=[("*--iree-opt-data-tiling*", 50.0)])
    flags = tmp_path / "tiled.flags"
    flags.write_text("--iree-opt-data-tiling\n")
    words = ("ab", "default", str(flags), *SHAPE[1:], "--effort", "quick")
    kill(line, SCREENED, 1, *words)
    with Store.open(None, workspace=line.workspace, create=False) as store:
        (killed,) = store.runs()
        rows = [row.id for row in store.candidates(killed.id)]
        assert (killed.kind, killed.status, len(rows)) == ("ab", "interrupted", 2)
    code, document, err = line.finish(*words, "--resume")
    assert (code, document["run"], document["verdict"]) == (0, killed.id, "win"), err
    with Store.open(None, workspace=line.workspace, create=False) as store:
        (run,) = store.runs()
        assert (run.status, run.result) == ("finished", document)
        assert [row.id for row in store.candidates(run.id)] == rows
