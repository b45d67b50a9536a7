"""Triton: products by a plain kernel, in the tile sizes that suit the problem best, launched by Triton itself."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import triton
import triton.language as tl

if TYPE_CHECKING:
    from autotuner.jobs.bench.libraries.child import Call, Task

CONFIGS = (
    (128, 256, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (128, 128, 64, 4, 3),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 128, 4, 3),
    (16, 64, 256, 4, 3),
)
"""Tiles of M, N and K, warps and stages; all are tried on each problem."""
GROUP = 8
"""Rows of tiles that go together, so that they share what the cache holds."""


def _refuse(task: Task) -> None:
    if task["dtype"] not in ("f16", "bf16", "f32") or task["acc"] != "f32":
        raise NotImplementedError(
            f"there is no Triton kernel for products of {task['dtype']} with sums in {task['acc']}"
        )
    if task["added"] or (task["low"], task["high"]) != (None, None):
        raise NotImplementedError("there is no Triton kernel with an epilogue")


@triton.jit  # type: ignore[untyped-decorator]
def multiply(  # type: ignore[no-untyped-def]
    a,
    b,
    c,
    M,
    N,
    K,
    am,
    ak,
    bk,
    bn,
    entry_a,
    entry_b,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    ROWS: tl.constexpr,
    PRECISION: tl.constexpr,
):
    tile, entry = tl.program_id(0), tl.program_id(1).to(tl.int64)
    wide, tall = tl.cdiv(N, BN), tl.cdiv(M, BM)
    first = tile // (ROWS * wide) * ROWS
    rows = min(tall - first, ROWS)
    m = (first + tile % (ROWS * wide) % rows) * BM + tl.arange(0, BM)
    n = (tile % (ROWS * wide) // rows) * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    x = a + entry * entry_a + m[:, None].to(tl.int64) * am + k[None, :] * ak
    y = b + entry * entry_b + k[:, None] * bk + n[None, :].to(tl.int64) * bn
    total = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        p = tl.load(x, mask=(m[:, None] < M) & (k[None, :] < left), other=0.0)
        q = tl.load(y, mask=(k[:, None] < left) & (n[None, :] < N), other=0.0)
        total = tl.dot(p, q, total, input_precision=PRECISION)
        x += BK * ak
        y += BK * bk
    out = c + entry * M * N + m[:, None].to(tl.int64) * N + n[None, :]
    tl.store(out, total.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


class Library:
    """Triton's own launcher, on torch's tensors."""

    title = "triton"

    def __init__(self, device: str, threads: int) -> None:
        own = self._torch = import_module("torch_library").Library(device, threads)
        self.array, self.copy, self.result, self.timer = own.array, own.copy, own.result, own.timer
        self.version = f"{triton.__version__} (torch {own.version})"

    def gemm(self, task: Task, tensors: list[Any]) -> Call:
        _refuse(task)
        torch, precision = self._torch.torch, "tf32" if task["allow"] == "tf32" else "ieee"
        a, b = (x.transpose(-1, -2) if t == "t" else x for x, t in zip(tensors, task["layout"], strict=True))
        wanted = self._torch.dtype(task["result"])
        m, n, k, batch = (task[name] for name in ("m", "n", "k", "batch"))
        shape = (batch, m, n) if batch > 1 else (m, n)

        def by(config: tuple[int, ...]) -> Any:
            bm, bn, bk, warps, stages = config
            grid = (triton.cdiv(m, bm) * triton.cdiv(n, bn), batch)

            def call(a: Any, b: Any) -> Any:
                out = torch.empty(shape, dtype=wanted, device=a.device)
                strides = (a.stride(-2), a.stride(-1), b.stride(-2), b.stride(-1), m * k, k * n)
                tiles = {"BM": bm, "BN": bn, "BK": bk, "ROWS": GROUP, "PRECISION": precision}
                multiply[grid](a, b, out, m, n, k, *strides, **tiles, num_warps=warps, num_stages=stages)
                return out

            return call

        ways = {
            f"{bm}x{bn}x{bk}, {warps} warps": by((bm, bn, bk, warps, stages)) for bm, bn, bk, warps, stages in CONFIGS
        }
        tiles, best = self._torch.fastest(ways, (a, b), triton.runtime.errors.OutOfResources)
        return {"how": f"tl.dot, tiles of {tiles}", "compute": best, "inputs": (a, b)}
