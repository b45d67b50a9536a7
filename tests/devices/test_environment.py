"""The environment of a measurement: the facts are there, and a fact that cannot be had costs nothing."""

from __future__ import annotations

import json
import os
import pwd
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from autotuner.devices import environment
from autotuner.iree.tools import Tools
from autotuner.system import machine

ARM_CPUINFO = """processor\t: 0
BogoMIPS\t: 243.75
CPU implementer\t: 0x41
CPU architecture: 8
CPU part\t: 0xd40
"""


IREE = cache(Tools.find)


def capture(device: str) -> dict[str, Any]:
    return environment.capture(device, IREE())


def tool(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, with what the stand-ins call; this machine's own tools are not found."""
    for name in ("cat", "sleep"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def prints(document: object) -> str:
    return f"cat <<'END'\n{json.dumps(document)}\nEND"


def test_the_contract_keys_are_there_and_the_whole_is_json() -> None:
    facts = capture("local-task")
    assert {"iree", "host", "device_name", "driver", "load"} <= facts.keys()
    assert facts["iree"].startswith("3.")
    assert facts["iree"] in facts["compiler"]
    assert IREE().compiler_digest[:12] in facts["compiler"]
    assert facts["cores"] == len(os.sched_getaffinity(0))
    assert facts["load"] >= 0
    assert json.loads(json.dumps(facts, allow_nan=False)) == facts
    assert facts["device_name"] == facts["cpu"] != "", "a cpu device is named after the processor"
    assert facts["driver"] == ""


def test_a_cuda_device_is_described_by_nvidia_smi(tools: Path) -> None:
    tool(tools, "nvidia-smi", f'echo "$@" > {tools}/arguments; echo "NVIDIA H200, 570.86.15, 1980"')
    facts = capture("cuda://GPU-12ab")
    assert (facts["device_name"], facts["driver"], facts["device_mhz"]) == ("NVIDIA H200", "570.86.15", 1980.0)
    assert "--id=GPU-12ab" in (tools / "arguments").read_text()


def test_a_hip_device_is_described_by_rocm_smi_also_after_its_warnings(tools: Path) -> None:
    card = {"Card Series": "AMD Instinct MI300X", "Card Model": "0x74a1", "GFX Version": "gfx942"}
    warning = "echo 'WARNING: AMD GPU device(s) is/are in a low-power state.'\n"
    tool(tools, "rocm-smi", warning + prints({"card0": card, "system": {"Driver version": "6.8.5"}}))
    facts = capture("hip://0")
    assert (facts["device_name"], facts["driver"]) == ("AMD Instinct MI300X", "6.8.5")


def test_a_hip_device_is_described_by_amd_smi_where_there_is_no_rocm_smi(tools: Path) -> None:
    gpu = {"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"}, "driver": {"name": "amdgpu", "version": "6.8"}}
    tool(tools, "amd-smi", prints([gpu]))
    facts = capture("hip")
    assert (facts["device_name"], facts["driver"]) == ("AMD Instinct MI300X", "6.8")


@pytest.mark.parametrize(
    "body",
    ["exit 9", "sleep 5", "echo '[1, {}]'", "printf '\\377\\376,'"],
)
@pytest.mark.parametrize("uri", ["cuda", "hip://0"])
def test_a_tool_that_fails_hangs_or_babbles_leaves_the_facts_empty(
    tools: Path, monkeypatch: pytest.MonkeyPatch, body: str, uri: str
) -> None:
    monkeypatch.setattr(machine, "TOOL_SECONDS", 0.2)
    for name in ("nvidia-smi", "rocm-smi", "amd-smi"):
        tool(tools, name, body)
    facts = capture(uri)
    assert (facts["device_name"], facts["driver"]) == ("", "")


@pytest.mark.parametrize("uri", ["cuda://0", "hip", "none", "", "metal?x"])
def test_no_tool_and_no_such_device_are_no_failure(tools: Path, uri: str) -> None:
    assert tools.exists()
    assert capture(uri)["driver"] == ""


def test_an_arm_processor_is_named_by_lscpu_and_else_by_its_numbers(
    tools: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "read", lambda path: ARM_CPUINFO if str(path) == "/proc/cpuinfo" else "")
    tool(tools, "lscpu", "echo 'Vendor ID:  ARM'; echo '  Model name:  Neoverse-V1'")
    assert capture("local-task")["cpu"] == "Neoverse-V1"
    tool(tools, "lscpu", "exit 1")
    assert capture("local-task")["cpu"].endswith("0x41 0xd40")


def test_nothing_readable_is_no_failure(tools: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_arguments: object, **_options: object) -> object:
        raise OSError("not here")

    def no_user(_uid: int) -> object:
        raise KeyError("uid not found")

    tool(tools, "lscpu", "exit 1")
    monkeypatch.setattr(Path, "read_text", fail)
    monkeypatch.setattr(os, "getloadavg", fail)
    monkeypatch.setattr(pwd, "getpwuid", no_user)
    facts = capture("cuda://0")
    assert (facts["governor"], facts["mhz"], facts["load"], facts["user"]) == ("", None, 0.0, str(os.getuid()))
    assert facts["cores"] >= 1


def test_frequency_is_in_megahertz_from_either_source(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"scaling_cur_freq": "3400000", "scaling_governor": "performance"}
    monkeypatch.setattr(machine, "read", lambda path: files.get(Path(path).name, ""))
    facts = capture("local-task")
    assert (facts["mhz"], facts["governor"]) == (3400.0, "performance")
    monkeypatch.setattr(machine, "read", lambda path: "cpu MHz\t\t: 2100.5\n" if str(path) == "/proc/cpuinfo" else "")
    assert capture("local-task")["mhz"] == 2100.5
