"""rocBLAS by its own benchmark, rocblas-bench. Written from its documents, and never run on a GPU."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from autotuner.jobs.bench.libraries import hipblaslt_library as beside
else:
    beside = import_module("hipblaslt_library")


class Library(beside.Library):
    """It says more of the layout, and of no 8-bit floats."""

    title = "rocblas"
    program = "rocblas-bench"
    types = beside.TYPES

    def options(self, *, a: int, b: int, c: int) -> list[str]:
        strides = {"--stride_a": a, "--stride_b": b, "--stride_c": c, "--stride_d": c}
        return ["-f", "gemm_strided_batched_ex", *(str(word) for pair in strides.items() for word in pair)]

    def turned(self, a: str, b: str) -> list[str]:
        return ["--transposeA", a, "--transposeB", b]
