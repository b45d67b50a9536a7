"""A kernel in CUDA C++ of one's own: a product with an optional bias, and a header beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.errors import ToolMissingError
from autotuner.microkernels.providers.cuda import find_nvrtc


def _is_there() -> bool:
    try:
        return bool(find_nvrtc())
    except ToolMissingError:
        return False


needs_nvrtc = pytest.mark.skipif(not _is_there(), reason="NVRTC is not installed: pip install '.[cuda]'")

MANIFEST = """
operation = "gemm"
dtypes = ["f16", "bf16"]
layouts = ["nn", "nt"]
epilogues = ["bias", "relu"]
conditions = ["batch == 1", "n % wide == 0"]
symbol = "gemm"
constants = ["m", "n", "k"]
workgroup_size = ["wide", "rows"]
grid = ["n // wide", "ceil_div(m, rows)"]
local_memory = "wide * rows * 4"
parameters = { wide = [32, 64] }
values = { rows = "256 // wide" }
bindings = [
  { operand = "lhs", access = "read" },
  { operand = "rhs", access = "read" },
  { operand = "bias", access = "read" },
  { operand = "out", access = "write", element = "problem" },
]
provider = { kind = "cuda", source = "kernel.cu", chips = ["sm_80", "sm_90"] }
"""
HEADER = """
__device__ __forceinline__ float number(unsigned short bits) {
#if LHS_BF16
  return __uint_as_float((unsigned)bits << 16);
#else
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#endif
}
"""
SOURCE = """
#include "numbers.h"
extern __shared__ float last[];
extern "C" __global__ void __launch_bounds__(WIDE * ROWS)
gemm(const unsigned short* lhs, const unsigned short* rhs,
#if BIAS
     const float* bias,
#endif
     float* out, int m, int n, int k) {
  static_assert(OUT_F32 && !OUT_F16 && LHS_F16 + LHS_BF16 == 1 && BIAS == BIAS_F32, "types");
  const int row = blockIdx.y * ROWS + threadIdx.y, column = blockIdx.x * WIDE + threadIdx.x;
  if (row >= m) return;
  float sum = 0;
  for (int p = 0; p < k; ++p)
    sum += number(lhs[row * k + p]) * number(rhs[TRANSPOSE_RHS ? column * k + p : p * n + column]);
#if BIAS
  sum += bias[column];
#endif
  if (CLIP_LOW) sum = fmaxf(sum, __uint_as_float(LOW_BITS));
  last[threadIdx.y * WIDE + threadIdx.x] = sum;
  out[row * n + column] = last[threadIdx.y * WIDE + threadIdx.x];
}
"""


def write_kernel(folder: Path, *, source: str = SOURCE, manifest: str = MANIFEST) -> Path:
    """The manifest of a kernel of this folder's name, with its source and its header beside it."""
    folder.mkdir(parents=True)
    (folder / "numbers.h").write_text(HEADER)
    (folder / "kernel.cu").write_text(source)
    (folder / "microkernel.toml").write_text(manifest)
    return folder / "microkernel.toml"
