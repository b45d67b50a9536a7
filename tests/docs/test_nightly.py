"""What docs/nightly.md gives to copy works: the file, the workflow, the timer."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from autotuner.jobs.nightly.plan import read_plan
from tests.docs.documents import ROOT
from tests.support.patience import ENOUGH

TEXT = (ROOT / "docs" / "nightly.md").read_text()


def block(language: str, first: str) -> str:
    """The code block of the document that begins with a comment that ends so."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.S | re.M)
    (found,) = [text for text in blocks if text.splitlines()[0].endswith(first)]
    return str(found)


def test_the_file_is_a_plan(tmp_path: Path) -> None:
    for name in ("attention.mlir",):
        (tmp_path / name).write_bytes((ROOT / "docs" / "examples" / name).read_bytes())
    (tmp_path / "nightly.toml").write_text(block("toml", "nightly.toml"))
    plan = read_plan(tmp_path / "nightly.toml")
    assert [part.name for part in plan.parts] == ["unet-cpu", "attention-cpu"]
    assert plan.threshold == 1.0


def test_the_workflow_is_one_that_runs_autotune_each_night() -> None:
    workflow = yaml.safe_load(block("yaml", "nightly.yml"))
    assert workflow[True]["schedule"] == [{"cron": "15 2 * * *"}]  # YAML takes `on` for true
    job = workflow["jobs"]["nightly"]
    assert "self-hosted" in job["runs-on"]
    commands = [line for step in job["steps"] if "run" in step for line in step["run"].splitlines()]
    assert any(shlex.split(line)[1:2] == ["nightly"] for line in commands)
    assert job["steps"][-1]["if"] == "always()"


def test_the_units_are_what_systemd_takes(tmp_path: Path) -> None:
    for kind in ("service", "timer"):
        text = block("ini", f"autotune-nightly.{kind}")
        (tmp_path / f"autotune-nightly.{kind}").write_text(text.replace("%h/nightly", str(tmp_path)))
        parsed = configparser.ConfigParser(interpolation=None)
        parsed.optionxform = str  # type: ignore[assignment,method-assign]
        parsed.read_string(text)
        assert kind.title() in parsed
    program = tmp_path / "venv" / "bin" / "autotune"
    program.parent.mkdir(parents=True)
    program.symlink_to("/bin/true")
    verifier = shutil.which("systemd-analyze")
    if verifier is None:
        pytest.skip("systemd-analyze is not installed")
    units = [str(tmp_path / f"autotune-nightly.{kind}") for kind in ("service", "timer")]
    done = subprocess.run(
        [verifier, "verify", "--user", *units], capture_output=True, text=True, check=False, timeout=ENOUGH
    )
    assert "autotune-nightly" not in done.stderr, done.stderr
    calendar = subprocess.run(
        [verifier, "calendar", "*-*-* 02:15:00"], capture_output=True, text=True, check=False, timeout=ENOUGH
    )
    assert calendar.returncode == 0, calendar.stderr
