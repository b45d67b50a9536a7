"""How long it takes to enumerate the legal configurations of a dispatch: `python benchmarks/space.py`."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from iree.compiler import ir
from iree.compiler.tools.binaries import find_tool

from autotuner.errors import AutotuneError
from autotuner.space import GpuSpace
from autotuner.space.constraints import constraint_operations, read_program
from autotuner.space.solver import legal

REPEATS = 3


def gemm(m: int, n: int, k: int) -> str:
    a, b, c = f"tensor<{m}x{k}xf16>", f"tensor<{k}x{n}xf16>", f"tensor<{m}x{n}xf32>"
    return _filled(f"%a: {a}, %b: {b}", c, f"linalg.matmul ins(%a, %b : {a}, {b})")


def conv(n: int, size: int, channels: int) -> str:
    image = f"tensor<{n}x{size + 2}x{size + 2}x{channels}xf16>"
    window, c = f"tensor<3x3x{channels}x{channels}xf16>", f"tensor<{n}x{size}x{size}x{channels}xf32>"
    return _filled(f"%a: {image}, %b: {window}", c, f"linalg.conv_2d_nhwc_hwcf ins(%a, %b : {image}, {window})")


def attention(b: int, m: int, d: int, s: int) -> str:
    query, key, dims = f"tensor<{b}x{m}x{d}xf16>", f"tensor<{b}x{s}x{d}xf16>", "(d0, d1, d2, d3, d4)"
    results = ["(d0, d1, d3)", "(d0, d4, d3)", "(d0, d4, d2)", "()", "(d0, d1, d2)"]
    maps = ", ".join(f"affine_map<{dims} -> {r}>" for r in results)
    return f"""func.func @main(%q: {query}, %k: {key}, %v: {key}) -> {query} {{
      %scale = arith.constant 1.250000e-01 : f16
      %0 = tensor.empty() : {query}
      %1 = iree_linalg_ext.attention <{{indexing_maps = [{maps}]}}>
        ins(%q, %k, %v, %scale : {query}, {key}, {key}, f16) outs(%0 : {query}) {{
      ^bb0(%score: f32):
        iree_linalg_ext.yield %score : f32
      }} -> {query}
      return %1 : {query}
    }}"""


def _filled(arguments: str, result: str, operation: str) -> str:
    return f"""func.func @main({arguments}) -> {result} {{
      %zero = arith.constant 0.0 : f32
      %0 = tensor.empty() : {result}
      %1 = linalg.fill ins(%zero : f32) outs(%0 : {result}) -> {result}
      %2 = {operation} outs(%1 : {result}) -> {result}
      return %2 : {result}
    }}"""


CASES = [
    *(
        ("gemm 4096x4096x4096 f16", target, gemm(4096, 4096, 4096))
        for target in ("gfx942", "gfx950", "gfx1100", "sm_80")
    ),
    ("conv 2x32x32x1280 3x3x1280 f16", "gfx942", conv(2, 32, 1280)),
    ("attention 20x4096x64x1024 f16", "gfx942", attention(20, 4096, 64, 1024)),
]


def constraints(source: str, target: str) -> str:
    cuda = target.startswith("sm_")
    device = ["--iree-hal-target-device=cuda", f"--iree-cuda-target={target}"]
    flags = device if cuda else ["--iree-hal-target-device=hip", f"--iree-rocm-target={target}"]
    flags += ["--compile-to=executable-configurations", "--iree-codegen-emit-pipeline-constraints"]
    command = [find_tool("iree-compile"), "-", *flags, "-o", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, timeout=120, check=True).stdout


def machine() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{model or platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def measure(name: str, target: str, source: str) -> str:
    text = constraints(source, target)
    with ir.Context():
        module = ir.Module.parse(text)
        best, counts = float("inf"), ""
        for _ in range(REPEATS):
            start = time.perf_counter()
            tables = [legal(read_program(operation)) for operation in constraint_operations(module.operation)]
            best = min(best, time.perf_counter() - start)
        counts = " + ".join(f"{len(next(iter(columns.values()))):,}" for columns in tables)
    start = time.perf_counter()
    gpu = GpuSpace.read(text, vendor="nvidia" if target.startswith("sm_") else "amd")
    rows = len(gpu.space)
    whole = time.perf_counter() - start
    return f"{name:<32} {target:<8} {best:>8.3f} s  {counts:<24} {whole:>8.3f} s  {rows:>9,}"


def main() -> int:
    print(f"{machine()}; best of {REPEATS}")
    print(f"{'problem':<32} {'target':<8} {'solve':>10}  {'legal per pipeline':<24} {'all':>10}  {'space':>9}")
    for case in CASES:
        try:
            print(measure(*case))
        except (AutotuneError, subprocess.SubprocessError) as error:
            print(f"{case[0]}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
