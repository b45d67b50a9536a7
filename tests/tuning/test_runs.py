"""An experiment's run is a row: killed, it goes on with --resume, with its rows."""

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
