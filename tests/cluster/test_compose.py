"""The compose file of docs/cluster.md: its commands join each other, run as processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.patience import ENOUGH

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "examples" / "cluster"
SERVICES: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())["services"]


def said(process: subprocess.Popen[bytes], log: Path, words: str) -> str:
    """The line with these words, once it is there."""
    ends = time.monotonic() + ENOUGH
    while time.monotonic() < ends:
        if line := next((line for line in log.read_text().splitlines() if words in line), None):
            return line
        assert process.poll() is None, log.read_text()
        time.sleep(0.1)
    raise AssertionError(log.read_text())


def test_every_service_is_built_from_this_repository_and_reads_the_certificates() -> None:
    for service in SERVICES.values():
        build = service["build"]
        assert (FOLDER / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).read_text().count("[distributed,nvidia]") == 1
        assert service["volumes"] == ["./certificates:/certificates:ro"]
        assert service["restart"] == "unless-stopped"
    assert SERVICES["scheduler"]["ports"] == ["8786:8786"]
    assert [name for name, one in SERVICES.items() if "profiles" in one] == ["gpu0"]


def test_its_commands_join_each_other_by_tls(tmp_path: Path, share_digests: Callable[[Path], None]) -> None:
    share_digests(tmp_path / "cache")
    subprocess.run([FOLDER / "certificates.sh"], cwd=tmp_path, check=True, capture_output=True, timeout=ENOUGH)
    # What containers have and a process of this machine has not: the folder, the name, the port, the GPU.
    here = {"/certificates/": f"{tmp_path}/", "--port=8786": "--port=0", "cuda://0": "local-task"}
    environment = {**os.environ, "AUTOTUNE_CACHE_DIR": str(tmp_path / "cache")}
    with ExitStack() as stack:

        def start(name: str) -> tuple[subprocess.Popen[bytes], Path]:
            words, log = list(SERVICES[name]["command"]), tmp_path / f"{name}.log"
            for there, instead in here.items():
                words = [word.replace(there, instead) for word in words]
            program = Path(sys.executable).with_name(words[0])
            with log.open("wb") as file:
                process = subprocess.Popen([program, *words[1:]], stdout=file, stderr=file, env=environment)
            stack.callback(process.wait, ENOUGH)
            stack.callback(process.terminate)
            return process, log

        address = said(*start("scheduler"), "Scheduler at:").split()[-1]
        assert address.startswith("tls://")
        here["tls://scheduler:8786"] = address
        builder, gpu = start("builder"), start("gpu0")
        assert "no device" in said(*builder, f" of {address}:")
        assert "local-task (cpu)" in said(*gpu, f" of {address}:")


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "scheduler"])
def test_workers_wait_for_the_scheduler_that_is_named(name: str) -> None:
    assert SERVICES[name]["depends_on"] == ["scheduler"]
    assert "tls://scheduler:8786" in SERVICES[name]["command"]
