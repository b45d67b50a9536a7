"""`autotune --help` answers at once: what takes time to import is imported by the command that needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from autotuner.cli.request import Given
from autotuner.store.store import Store
from tests.support.patience import ENOUGH

HEAVY = {"numpy", "pandas", "optuna", "sqlalchemy", "scipy", "ml_dtypes", "jinja2", "yaml", "iree", "rich"}
"""Of these even the lightest takes a tenth of what `--version` may take."""
NOTHING = "nothing"


def imported_by(*commands: str, cwd: Path) -> set[str]:
    """The modules that are loaded when these command lines have ended, one after the other."""
    program = (
        "import sys; from autotuner.__main__ import main\n"
        f"for words in {[command.split() for command in commands]!r}:\n"
        "    sys.argv = ['autotune', *words]\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code, end.code\n"
        "print('modules:', *sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True, timeout=ENOUGH, check=True
    )
    return set(done.stdout.splitlines()[-1].removeprefix("modules:").split())


def test_version_and_help_import_nothing_heavy(tmp_path: Path) -> None:
    commands = ("gemm --help", "ab --help", "suite --help")
    assert not imported_by(*commands, cwd=tmp_path) & {*HEAVY, "pydantic"}
    assert not imported_by("--version", "--help", "spec check --help", cwd=tmp_path) & HEAVY


def test_a_list_of_runs_waits_for_the_database_alone(tmp_path: Path) -> None:
    Store.open(None, workspace=tmp_path).close()
    light = {"sqlalchemy", "rich"}
    assert imported_by("history", "history --limit 5", cwd=tmp_path) & HEAVY == light


def test_a_run_waits_for_no_import_that_it_does_not_use(tmp_path: Path) -> None:
    program = "import sys, autotuner.cli.tuning, autotuner.cli.model; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=ENOUGH, check=True
    )
    assert not set(done.stdout.split()) & {"pandas", "optuna", "distributed"}


def test_the_public_names_are_all_there_whatever_was_imported_before() -> None:
    import autotuner.jobs.api

    for name in autotuner.__all__:
        assert name == "__version__" or getattr(autotuner, name).__doc__
    assert autotuner.tune is autotuner.jobs.api.tune
    assert set(autotuner.__all__) <= set(dir(autotuner))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(autotuner, NOTHING)


def test_what_a_command_imports_is_part_of_its_time() -> None:
    """Its words are read after that; where nobody says when it began, its time begins with them."""
    context = MagicMock()
    context.command.params = []
    context.find_root().obj = 12.5
    assert Given.of(context).at == 12.5
    context.find_root().obj = None
    assert Given.of(context).at > 12.5
