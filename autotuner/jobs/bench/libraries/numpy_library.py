"""numpy: products of f32 by its BLAS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from autotuner.jobs.bench.libraries.child import Call, Task


def _refuse(task: Task) -> None:
    for role, element in (("has no", task["dtype"]), ("gives f32, not", task["result"])):
        if element != "f32":
            raise NotImplementedError(f"numpy's BLAS {role} {element}")


class Library:
    """numpy on the processor."""

    title = "numpy"

    def __init__(self, device: str, threads: int) -> None:
        del device, threads  # its BLAS has read how many when it was imported
        self.version = f"{np.__version__} ({_blas()})"

    def gemm(self, task: Task, arrays: list[Any]) -> Call:
        _refuse(task)
        out: Any = None

        def multiply(a: Any, b: Any, *more: Any) -> Any:
            nonlocal out
            left = a.swapaxes(-1, -2) if task["layout"][0] == "t" else a
            right = b.swapaxes(-1, -2) if task["layout"][1] == "t" else b
            out = np.matmul(left, right, out=out)
            for added in more:
                np.add(out, added, out=out)
            if task["low"] is not None or task["high"] is not None:
                np.clip(out, task["low"], task["high"], out=out)
            return out

        return {"how": "numpy.matmul", "compute": multiply, "inputs": arrays}


def _blas() -> str:
    """Which library multiplies, as numpy was built with it."""
    config: Any = np.show_config(mode="dicts")
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'its BLAS')} {blas.get('version', '')}".strip()
