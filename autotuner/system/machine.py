"""Facts of this machine from its files and programs. Nothing here fails: what is unknown is empty or None."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from autotuner.errors import ToolMissingError
from autotuner.system import process

TOOL_SECONDS = 10.0
ROOT = Path("/")


def read(path: str | Path) -> str:
    try:
        return Path(path).read_text(errors="replace").strip("\0\n ")
    except OSError:
        return ""


def load() -> float | None:
    """The load average of the last minute."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def output(command: Sequence[str]) -> str:
    """A program's output; empty when it is missing, fails or hangs."""
    tool = shutil.which(command[0])
    if tool is None:
        return ""
    with process.however_late(), suppress(ToolMissingError):
        done = process.run([tool, *command[1:]], timeout=TOOL_SECONDS)
        return done.stdout if done.ok else ""
    return ""


def field(text: str, name: str) -> str:
    """The value of the first `name : value` line."""
    found = re.search(rf"^\s*{re.escape(name)}\s*:\s*(.+?)\s*$", text, re.MULTILINE)
    return found[1] if found and found[1] != "-" else ""


def number(text: str) -> float | None:
    found = re.search(r"\d+(\.\d+)?", text)
    return float(found[0]) if found else None


def numbers(paths: Iterable[Path]) -> list[float]:
    """The numbers in these files, where they hold one."""
    return [float(text) for text in map(read, paths) if text.isdecimal()]


def leaves(command: Sequence[str]) -> dict[str, str]:
    """The leaves of the JSON that a program prints, by their lower-case keys; the first of a name counts."""
    text = output(command)
    start = re.search(r"^[\[{]", text, re.MULTILINE)  # rocm-smi prints its warnings before
    if start is None:
        return {}
    try:
        document, _ = json.JSONDecoder().raw_decode(text, start.start())
    except ValueError:
        return {}
    found: dict[str, str] = {}
    pending = [document]
    while pending:
        node = pending.pop(0)
        if isinstance(node, dict):
            for key, value in node.items():
                if isinstance(value, dict | list):
                    pending.append(value)
                else:
                    found.setdefault(key.lower(), str(value))
        elif isinstance(node, list):
            pending += node
    return found


def processor() -> str:
    """The processor's name: from the kernel on x86, from lscpu on Arm, where the kernel has numbers only."""
    cpuinfo = read("/proc/cpuinfo")
    part = " ".join(filter(None, [field(cpuinfo, "CPU implementer"), field(cpuinfo, "CPU part")]))
    return (
        field(cpuinfo, "model name")
        or field(output(["lscpu"]), "Model name")
        or read("/sys/firmware/devicetree/base/model")
        or (f"{platform.machine()} {part}" if part else platform.processor() or platform.machine())
    )
