"""The kernels of an object as a table and as JSON: `autotune ab --inspect OBJECT`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from autotuner.errors import UsageError
from autotuner.iree.kernels import Kernel, KernelFile
from autotuner.iree.objects import read_object
from autotuner.microkernels.check import times


def _with_kernels(path: Path) -> KernelFile:
    """Reads an object with at least one kernel; a UsageError says what the file is instead."""
    found = read_object(path)
    if not found.kernels:
        raise UsageError(f"{path} defines no kernel.", remedy="Give the object that holds it.")
    return found


def kernels_table(path: Path) -> list[dict[str, str]]:
    """A row for each kernel; columns in which no row says anything are left out."""
    found = _with_kernels(path)
    rows = [_row(kernel, found) for kernel in found.kernels]
    said = [name for name in rows[0] if any(row[name] for row in rows)]
    return [{name: row[name] for name in said} for row in rows]


def _row(kernel: Kernel, file: KernelFile) -> dict[str, str]:
    """A kernel as a table row."""
    size, dynamic = kernel.workgroup_size, " + dynamic" * kernel.dynamic_memory
    known = kernel.arguments is not None
    cells: dict[str, object] = {
        "symbol": kernel.symbol,
        "chip": kernel.chip,
        "PTX": file.version,
        "pointers": len(kernel.of_kind("pointer")) if known else None,
        "constants": len(kernel.of_kind("value")) if known else None,
        "hidden": len(kernel.of_kind("hidden")) or None,
        "kernarg": kernel.kernarg_size,
        "workgroup": times(size) if size else kernel.most_threads and f"≤ {kernel.most_threads}",
        "wavefront": kernel.wavefront,
        "local memory": None if kernel.local_memory is None else f"{kernel.local_memory}{dynamic}",
        "cluster": times(kernel.cluster) if kernel.cluster else None,
        **{name: getattr(kernel, name) for name in ("registers", "vgpr", "agpr", "sgpr", "vgpr_spills", "sgpr_spills")},
        "undefined": ", ".join(file.undefined),
    }
    return {name.replace("_", " "): "" if value is None else str(value) for name, value in cells.items()}


def kernels_json(path: Path) -> dict[str, Any]:
    found = _with_kernels(path)
    names = ("kind", "chip", "version", "linked", "undefined")
    return {
        "path": str(path),
        **{name: getattr(found, name) for name in names},
        "kernels": [asdict(kernel) for kernel in found.kernels],
    }
