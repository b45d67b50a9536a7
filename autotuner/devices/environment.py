"""Where a measurement was made: software, host, device and how busy it was. What cannot be read stays empty."""

from __future__ import annotations

import json
import os
import platform
import pwd
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autotuner._version import __version__
from autotuner.iree.tools import Tools
from autotuner.targets.backends import backend_on
from autotuner.targets.backends.base import Vendor

TOOL_SECONDS = 10


@dataclass(frozen=True, slots=True)
class Device:
    """A device as its driver's own tool describes it."""

    name: str = ""
    driver: str = ""
    mhz: float | None = None


@dataclass(frozen=True, slots=True)
class Environment:
    """Everything about a run that is not the run, for whoever must explain its numbers later."""

    iree: str
    iree_runtime: str
    compiler: str
    """Which build: version, revision and digest."""
    iree_tools: str
    """Where the user's own build is; empty: the wheels."""
    autotune: str
    python: str
    host: str
    user: str
    kernel: str
    machine: str
    cpu: str
    cores: int
    governor: str
    mhz: float | None
    load: float
    device: str
    device_name: str
    driver: str
    device_mhz: float | None
    time: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def capture(device_uri: str, tools: Tools) -> Environment:
    """The environment now. Never fails: a fact that cannot be had is an empty string, or None for a number."""
    cpu = _cpu_model()
    device = _device(device_uri, cpu)
    return Environment(
        iree=tools.release,
        iree_runtime=tools.runtime_release,
        compiler=tools.build,
        iree_tools=str(tools.folder or ""),
        autotune=__version__,
        python=platform.python_version(),
        host=platform.node(),
        user=_user(),
        kernel=platform.release(),
        machine=platform.machine(),
        cpu=cpu,
        cores=len(_cores()),
        governor=_cpu_file("scaling_governor"),
        mhz=_cpu_mhz(),
        load=_load(),
        device=device_uri,
        device_name=device.name,
        driver=device.driver,
        device_mhz=device.mhz,
        time=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user without a passwd entry
        return str(os.getuid())


def _cores() -> list[int]:
    """The cores that this process may use, which a container or taskset makes fewer than there are."""
    try:
        return sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        return list(range(os.cpu_count() or 1))


def _load() -> float:
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return 0.0


def _read(path: str) -> str:
    try:
        return Path(path).read_text(errors="replace").strip("\0\n ")
    except OSError:
        return ""


def _cpu_file(name: str) -> str:
    return _read(f"/sys/devices/system/cpu/cpu{_cores()[0]}/cpufreq/{name}")


def _cpu_mhz() -> float | None:
    kilohertz = _number(_cpu_file("scaling_cur_freq"))
    return kilohertz / 1000 if kilohertz is not None else _number(_field(_read("/proc/cpuinfo"), "cpu MHz"))


def _cpu_model() -> str:
    """x86 kernels name the processor; of Arm's they give numbers, which lscpu knows the names of."""
    cpuinfo = _read("/proc/cpuinfo")
    part = " ".join(filter(None, [_field(cpuinfo, "CPU implementer"), _field(cpuinfo, "CPU part")]))
    return (
        _field(cpuinfo, "model name")
        or _field(_output(["lscpu"]), "Model name")
        or _read("/sys/firmware/devicetree/base/model")
        or (f"{platform.machine()} {part}" if part else platform.processor() or platform.machine())
    )


def _field(text: str, name: str) -> str:
    """The value of the first `name : value` line."""
    found = re.search(rf"^\s*{re.escape(name)}\s*:\s*(.+?)\s*$", text, re.MULTILINE)
    return found[1] if found and found[1] != "-" else ""


def _number(text: str) -> float | None:
    found = re.search(r"\d+(\.\d+)?", text)
    return float(found[0]) if found else None


def _device(uri: str, cpu: str) -> Device:
    backend = backend_on(uri)
    if backend is None:
        return Device()
    if backend.vendor is None:
        return Device(name=cpu)
    return _READERS[backend.vendor](uri.partition("://")[2].partition("?")[0] or "0")


def _nvidia(which: str) -> Device:
    query = ["--query-gpu=name,driver_version,clocks.sm", "--format=csv,noheader,nounits", f"--id={which}"]
    fields = [field.strip() for field in _output(["nvidia-smi", *query]).partition("\n")[0].split(",")]
    if len(fields) != 3:
        return Device()
    return Device(name=fields[0], driver=fields[1], mhz=_number(fields[2]))


def compute_capability() -> str | None:
    """sm_90 and the like, of the first NVIDIA GPU; None where nobody tells."""
    text = _output(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]).partition("\n")[0].strip()
    digits = text.replace(".", "")
    return f"sm_{digits}" if digits.isdigit() else None


def _amd(which: str) -> Device:
    """By rocm-smi, or by amd-smi where a newer ROCm has only that. Keys differ between versions in case."""
    card = which if which.isdecimal() else "0"
    facts = _facts(["rocm-smi", "-d", card, "--showproductname", "--showdriverversion", "--json"])
    if not facts:
        facts = _facts(["amd-smi", "static", "--gpu", card, "--asic", "--driver", "--json"])
    return Device(
        name=facts.get("card series") or facts.get("market_name") or "",
        driver=facts.get("driver version") or facts.get("version") or "",
    )


_READERS: Mapping[Vendor, Callable[[str], Device]] = {"nvidia": _nvidia, "amd": _amd}


def _facts(command: Sequence[str]) -> dict[str, str]:
    """The leaves of the JSON that a tool prints, by their lower-case keys; the first of a name counts."""
    output = _output(command)
    start = re.search(r"^[\[{]", output, re.MULTILINE)  # rocm-smi prints its warnings before
    if start is None:
        return {}
    try:
        document, _ = json.JSONDecoder().raw_decode(output, start.start())
    except ValueError:
        return {}
    facts: dict[str, str] = {}
    pending = [document]
    while pending:
        node = pending.pop(0)
        if isinstance(node, dict):
            for key, value in node.items():
                if isinstance(value, dict | list):
                    pending.append(value)
                else:
                    facts.setdefault(key.lower(), str(value))
        elif isinstance(node, list):
            pending += node
    return facts


def _output(command: Sequence[str]) -> str:
    """What a tool prints; nothing when it is missing, fails or hangs."""
    tool = shutil.which(command[0])
    if tool is None:
        return ""
    try:
        done = subprocess.run(
            [tool, *command[1:]],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=TOOL_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""
