"""The doctor looks at tools, targets and devices, and says what to do about what is amiss."""

from __future__ import annotations

import json
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


def test_a_compiler_that_does_not_run_is_found_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = Tools.find()
    script = tmp_path / "iree-compile"
    script.write_text("#!/bin/sh\necho 'libIREE.so: cannot open shared object file' >&2\nexit 127\n")
    script.chmod(0o755)
    fake = Tools(script, real.iree_run_module, real.iree_benchmark_module)
    monkeypatch.setattr(Tools, "find", lambda _folder=None: fake)
    last = examine()[-1]
    assert (last.what, last.state, last.essential) == ("iree-compile", "broken", True)
    assert "cannot open shared object" in last.found


def test_a_target_that_does_not_compile_is_named_and_the_others_are_fine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = Tools.find()
    script = tmp_path / "iree-compile"
    script.write_text(
        "#!/bin/sh\n"
        'case "$*" in *gfx942*) echo "error: no such chip" >&2; exit 1 ;; esac\n'
        f"exec '{real.iree_compile}' \"$@\"\n"
    )
    script.chmod(0o755)
    fake = Tools(script, real.iree_run_module, real.iree_benchmark_module)
    monkeypatch.setattr(Tools, "find", lambda _folder=None: fake)
    findings = {f.what: f for f in examine()}
    assert findings["target gfx942"].state == "broken"
    assert "no such chip" in findings["target gfx942"].found
    assert findings["target gfx942"].remedy
    assert not findings["target gfx942"].essential
    assert findings["target cpu"].state == "ok"
