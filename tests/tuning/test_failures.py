"""What goes wrong with one candidate costs that candidate: one row with its class and words, and the run goes on."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.devices.environment import is_emulated
from autotuner.errors import DeviceError
from autotuner.store.store import Store
from autotuner.system.progress import LOG
from autotuner.targets.backends import LLVM_CPU
from autotuner.targets.backends.base import DeviceFacts
from tests.support.contract import hold_contract
from tests.support.fake_tools import SPEC, FakeTools, candidates, codegen, failures, run
from tests.support.simulated_time import SimulatedTime, Words, alike

Fake = Callable[..., FakeTools]


def test_each_failure_is_one_row_and_the_others_are_timed(
    fake: Fake, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time is simulated: what hangs is cut off at once. That its programs are killed is in the tests of processes."""
    tools = fake(
        rules=[(SPEC, 20.0)], compile_roles=["compiler-crashes", "wrong-module"], bench_roles=["benchmark-dies"]
    )
    hung: dict[str, str] = {}

    def takes(words: Words) -> float:
        """The first spec that is compiled hangs, and the first module of another that is timed."""
        module = next((word for word in words if word.startswith("--module=")), None)
        if any(word.startswith("--iree-codegen-tuning-spec-path=") for word in words) and "compiler" not in hung:
            hung["compiler"] = ""
            return math.inf
        if words[0].endswith("iree-benchmark-module") and module and tools.was_built_with_a_spec(module[9:]):
            return math.inf if hung.setdefault("benchmark", module) == module else 0.5
        return alike(words)

    SimulatedTime(takes).rule(monkeypatch)
    result = run(tools, workspace, trials=8)
    hold_contract(result.to_json(), workspace)
    said = {
        "compile-error": ("SIGSEGV", "this spec kills the compiler"),
        "compile-timeout": ("killed after",),
        "wrong-result": ("relative error",),
        "run-error": ("the device is lost",),
        "run-timeout": ("killed after",),
    }
    failed = failures(workspace, result.run)
    assert failed.keys() == said.keys()
    # The compiler may refuse others for reasons of its own.
    found = {name: next(row for row in rows if said[name][0] in row.stderr) for name, rows in failed.items()}
    assert {name: len(rows) for name, rows in failed.items() if name != "compile-error"} == {
        name: 1 for name in said if name != "compile-error"
    }
    assert result.counts.failed["not-applied"] == 0
    for name, words in said.items():
        assert all(word in found[name].stderr for word in words), found[name].stderr
        assert found[name].us is None
        folder = workspace / "candidates" / result.run / f"c{found[name].ordinal:04d}"
        assert (folder / "stderr.txt").read_text().strip() == found[name].stderr.strip()
    others = [row for row in codegen(workspace, result.run) if row.state != "failed"]
    assert len(others) == 8 - sum(len(rows) for rows in failed.values()) >= 2
    assert {row.state for row in others} <= {"timed", "duplicate"}
    assert result.verdict == "win"
    assert result.best is not None
    assert result.best.candidate not in {f"c{row.ordinal:04d}" for row in found.values()}
    with Store.open(None, workspace=workspace) as store:
        timed = {t.candidate for t in store.timings(result.run)}
        assert store.run(result.run).status == "finished"
    assert not timed & {row.id for row in found.values()}


def test_a_finalist_that_dies_in_the_race_leaves_it_and_the_run_ends(fake: Fake, workspace: Path) -> None:
    tools = fake(rules=[(SPEC, 20.0)])
    script = tools.tools.iree_benchmark_module
    # Screening calls it with one and two repetitions; every later call of a spec fails.
    dies = """
case "$label" in *tuning-spec-path*)
  echo x >> "HERE/calls-$module"
  [ "$(wc -l < "HERE/calls-$module")" -le 2 ] || { echo "lost in the race" >&2; exit 1; }
esac
ms=""".replace("HERE", str(tools.folder))
    script.write_text(script.read_text().replace("\nms=", dies, 1))
    result = run(tools, workspace)
    assert result.verdict == "no-winner"
    assert result.reason.endswith("fastest can be timed any more")
    assert not any((workspace / "specs").iterdir())
    with Store.open(None, workspace=workspace) as store:
        assert store.run(result.run).status == "finished"


def test_a_device_that_does_not_run_the_baseline_is_exit_5(fake: Fake, workspace: Path) -> None:
    """What else may be amiss with a baseline: the tests of calibrations, and of defaults that are wrong."""
    tools = fake()
    tools.tools.iree_run_module.write_text('#!/bin/sh\necho "UNAVAILABLE; no such device" >&2\nexit 1\n')
    with pytest.raises(DeviceError, match="UNAVAILABLE; no such device") as failure:
        run(tools, workspace)
    assert failure.value.exit_code == 5
    assert "doctor" in failure.value.remedy
    (folder,) = (workspace / "candidates").iterdir()
    assert [path.name for path in folder.iterdir()] == [LOG], "what failed before the first candidate leaves its log"
    assert str(folder / LOG) in failure.value.__notes__[0]


def test_a_spec_that_does_not_apply_is_not_timed(fake: Fake, workspace: Path) -> None:
    tools = fake(rules=[(SPEC, 20.0)])
    script = tools.tools.iree_compile
    # The compiler is handed a spec that matches another shape.
    wrong = """sed -i 's/dims_equal %m, \\[96\\]/dims_equal %m, [97]/' "$spec"\n"""
    script.write_text(script.read_text().replace('case "$role" in', f'[ -z "$spec" ] || {wrong}case "$role" in', 1))
    result = run(tools, workspace)
    assert result.counts.failed["not-applied"] == 4
    assert result.counts.built + 4 == result.counts.asked
    assert {row.state for row in candidates(workspace, result.run) if row.kind == "codegen"} == {"failed"}
    assert all("matched no operation" in row.stderr for row in codegen(workspace, result.run))
    assert result.verdict == "no-winner"


def test_an_emulated_device_checks_every_binary_and_is_never_timed(
    fake: Fake, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device is a processor whose driver says that it is emulated; one candidate computes something else."""
    named = replace(LLVM_CPU, on_host=False, describe_device=lambda _: DeviceFacts("AMD Instinct (emulated)"))
    assert not is_emulated("local-sync")
    with monkeypatch.context() as there:
        there.setattr("autotuner.devices.environment.backend_on", lambda _: named)
        assert is_emulated("local-sync")
    monkeypatch.setattr("autotuner.tuning.session.is_emulated", lambda _: True)
    tools = fake(compile_roles=["wrong-module"])
    result = run(tools, workspace, trials=3)
    assert (result.verdict, result.counts.timed, tools.timed()) == ("compile-only", 0, 0)
    checked = result.counts.checked
    assert f"executed on an emulated device: {checked - 1} of {checked} right" in result.reason
    assert [len(rows) for rows in failures(workspace, result.run).values()] == [1]
    assert failures(workspace, result.run).keys() == {"wrong-result"}
    assert all(outcome.us is None for outcome in (result.best, *result.ranking) if outcome is not None)
