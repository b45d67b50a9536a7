"""The compose file of docs/cluster.md: its commands join each other, run as processes of this machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.clusters import EXAMPLE, Started, make_certificates

ROOT = Path(__file__).parents[2]
SERVICES: dict[str, Any] = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())["services"]


def test_every_service_is_built_from_this_repository_and_reads_the_certificates() -> None:
    for service in SERVICES.values():
        build = service["build"]
        assert (EXAMPLE / build["context"]).resolve() == ROOT
        assert (ROOT / build["dockerfile"]).read_text().count("[distributed,nvidia]") == 1
        assert service["volumes"] == ["/certificates:/certificates:ro"]
        assert service["environment"] == {"DASK_CONFIG": "/certificates/dask.yaml"}
        assert service["restart"] == "unless-stopped"
    assert SERVICES["scheduler"]["ports"] == ["8786:8786"]
    assert [name for name, one in SERVICES.items() if "profiles" in one] == ["gpu0"]


def test_its_commands_join_each_other_by_tls(tmp_path: Path, share_digests: Callable[[Path], None]) -> None:
    share_digests(tmp_path / "cache")
    environment = {"AUTOTUNE_CACHE_DIR": str(tmp_path / "cache"), "DASK_CONFIG": str(make_certificates(tmp_path))}
    # What containers have and a process of this machine has not: the name, the port, the GPU.
    here = {"--port=8786": "--port=0", "cuda://0": "local-task"}
    with ExitStack() as stack:

        def start(name: str) -> Started:
            program, *words = SERVICES[name]["command"]
            for there, instead in here.items():
                words = [word.replace(there, instead) for word in words]
            command = [Path(sys.executable).with_name(program), *words]
            started = Started.of(command, tmp_path / f"{name}.log", **environment)
            stack.callback(started.end)
            return started

        address = start("scheduler").says("Scheduler at:").split()[-1]
        assert address.startswith("tls://")
        here["tls://scheduler:8786"] = address
        builder, gpu = start("builder"), start("gpu0")
        assert "no device" in builder.says(f" of {address}:")
        assert "local-task (cpu)" in gpu.says(f" of {address}:")


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "scheduler"])
def test_workers_wait_for_the_scheduler_that_is_named(name: str) -> None:
    assert SERVICES[name]["depends_on"] == ["scheduler"]
    assert "tls://scheduler:8786" in SERVICES[name]["command"]
