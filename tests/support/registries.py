"""Entries of a registry, made up."""

from __future__ import annotations

from typing import Any

from autotuner.registry import RegistryEntry

ENTRY: dict[str, Any] = {
    "chip": "cpu",
    "sku": "Intel(R) Xeon(R) Processor @ 2.50GHz",
    "iree": "3.13.0",
    "op": "gemm",
    "problem": "gemm_512x512x512_f32_f32_nn",
    "carrier": "microkernel",
    "kernel": "sgemm_c",
    "low": 1.9,
    "median": 2.0,
    "high": 2.1,
    "us": 10.0,
    "baseline_us": 20.0,
    "date": "2026-11-19 08:00 UTC",
    "command": "autotune gemm --shape 512x512x512",
    "run": "20261119-080000-0a1b2c",
}


def entry(**changes: Any) -> RegistryEntry:
    return RegistryEntry(**{**ENTRY, **changes})
