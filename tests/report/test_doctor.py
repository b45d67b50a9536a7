"""The doctor looks at tools, targets and devices, and says what to do about what is amiss."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from autotuner._version import IREE
from autotuner.cli.app import main
from autotuner.iree.tools import Tools
from autotuner.report.doctor import examine
from autotuner.targets import all_targets


def call(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of a command."""
    monkeypatch.setattr("sys.argv", ["autotune", *words])
    with pytest.raises(SystemExit) as end:
        main()
    return int(end.value.code or 0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))


def test_doctor_tells_of_every_tool_target_and_device(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = examine()
    monkeypatch.setattr("autotuner.report.doctor.examine", lambda _tools: found)
    assert call(monkeypatch, "doctor", "--json") == 0
    findings = {f["what"]: f for f in json.loads(capsys.readouterr().out)}
    assert findings["iree-base-compiler"]["found"] == f"{version('iree-base-compiler')} (supported: {IREE})"
    always = ("python", "iree-compile", "iree-run-module", "MLIR bindings", "build cache", "device local-task")
    for name in (*always, *(f"target {target.name}" for target in all_targets())):
        assert findings[name]["state"] == "ok", findings[name]
    assert findings["NVRTC"]["found"].startswith(("of CUDA 1", "not installed"))
    for finding in findings.values():
        assert finding["state"] in ("ok", "absent", "broken")
        assert finding["found"]
        assert (finding["state"] == "ok") == (finding["remedy"] == "")
    assert call(monkeypatch, "doctor") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert all(name in out for name in findings)
    assert "…" not in out, "it is whole in a pipe"


def test_a_missing_compiler_is_exit_5_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(name: str) -> str:
        raise ValueError(f"no {name}")

    monkeypatch.setattr("iree.compiler.tools.binaries.find_tool", nothing)
    assert call(monkeypatch, "doctor", "--json") == 5
    (broken,) = [f for f in json.loads(capsys.readouterr().out) if f["state"] == "broken"]
    assert broken["what"] == "iree-compile"
    assert "pip install" in broken["remedy"]


@pytest.mark.parametrize(
    ("when", "what", "found", "essential"),
    [("*", "iree-compile", "cannot open shared object", True), ("*gfx942*", "target gfx942", "no such chip", False)],
)
def test_a_compiler_or_a_target_that_does_not_work_is_named_and_the_others_are_fine(
    when: str, what: str, found: str, essential: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = Tools.find()
    script = tmp_path / "iree-compile"
    script.write_text(
        f'#!/bin/sh\ncase "$*" in {when}) echo "error: {found}" >&2; exit 127 ;; esac\n'
        f"exec '{real.iree_compile}' \"$@\"\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(Tools, "find", lambda _folder=None: replace(real, iree_compile=script))
    findings = {f.what: f for f in examine()}
    broken = findings[what]
    assert (broken.state, broken.essential, bool(broken.remedy)) == ("broken", essential, True)
    assert found in broken.found
    assert [one for one in findings.values() if one.state == "broken"] == [broken]
