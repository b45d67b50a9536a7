"""`autotune export`: which form, and what is said where nothing was timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.store.rows import NewRun
from autotuner.store.store import Store
from tests.support.command_line import complaint, in_this_process
from tests.support.won_run import won_run


@pytest.mark.parametrize("forms", [(), ("--csv", "--json")])
def test_an_export_has_one_form(store: Store, tmp_path: Path, forms: tuple[str, ...]) -> None:
    won_run(store)
    assert "export needs one of --csv, --json" in complaint(in_this_process("export", *forms, cwd=tmp_path), 2)


@pytest.mark.parametrize(("form", "printed"), [("--csv", "run,parent,started,"), ("--json", "[]")])
def test_of_a_run_without_times_the_form_stays_and_it_is_said(
    store: Store, tmp_path: Path, form: str, printed: str
) -> None:
    new = NewRun("single", "k", ["autotune"], {"op": "gemm", "name": "gemm_a"}, "cpu", "local-task", 0)
    run = store.start_run(new, space_size=1)
    done = in_this_process("export", run, form, cwd=tmp_path)
    assert (done.returncode, done.stdout.count("\n")) == (0, 1)
    assert done.stdout.startswith(printed)
    assert done.stderr == f"note: nothing of run {run} was timed: `autotune history {run}` says why\n"
