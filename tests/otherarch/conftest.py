"""Modules for the other architecture, compiled here, run under emulation, compared by the checker that tuning uses."""

from __future__ import annotations

import dataclasses
import os
import shlex
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.devices.process import ProcessDevice
from autotuner.iree.tools import Tools
from autotuner.measure.check import Check, Checker, Data
from autotuner.problems import Problem
from autotuner.system.cache import Cache
from autotuner.targets import Target
from tests.otherarch.machine import OTHER, Machine

REQUIRED = "AUTOTUNE_TEST_OTHERARCH"
"""Set where these tests must run: what is missing is then a failure."""

Run = Callable[[BuildJob, Problem], Check]


@pytest.fixture(scope="session")
def other() -> Machine:
    if missing := OTHER.missing():
        if REQUIRED in os.environ:
            pytest.fail(f"{missing}, and {REQUIRED} is set")
        pytest.skip(f"{missing}: `make help` names the packages, `make otherarch` brings the runtime")
    return OTHER


@pytest.fixture(scope="session")
def target(other: Machine) -> Target:
    return Target.parse("cpu", flags=other.flags)


@pytest.fixture(scope="session")
def emulated(other: Machine, tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Tools:
    """The same compiler, and the other architecture's runtime."""
    script = tmp_path_factory.mktemp("emulated") / "iree-run-module"
    qemu = [str(shutil.which(other.qemu)), "-cpu", other.emulated, "-L", str(other.root), str(other.iree_run_module)]
    script.write_text(f'#!/bin/sh\nexec {shlex.join(qemu)} "$@"\n')
    script.chmod(0o755)
    return dataclasses.replace(tools, iree_run_module=script)


@pytest.fixture
def run(emulated: Tools, own_cache: Path, tmp_path: Path) -> Run:
    """run(job, problem): builds, runs under emulation, compares with the reference; the same code is run once."""
    builder, numbers = Builder(emulated, Cache(own_cache)), count()
    known: dict[tuple[str, Problem], Check] = {}

    def check(job: BuildJob, problem: Problem) -> Check:
        build = builder.build(job)
        if not build.ok:
            return Check(build.failure, float("inf"), build.stderr)
        code = build.binary or build.key, problem
        if code not in known:
            data = Data.write(problem, tmp_path / f"data{next(numbers)}", seed=3)
            device = ProcessDevice(emulated, "local-task", data.folder)
            known[code] = Checker(device, data, timeout=120).check(build.vmfb)
        return known[code]

    return check
