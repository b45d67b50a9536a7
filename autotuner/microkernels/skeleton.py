"""`autotune ab --new NAME`: a manifest to fill in; with `--c`, a kernel in C that works as it is."""

from __future__ import annotations

import os
from pathlib import Path

from autotuner.errors import StorageError, UsageError
from autotuner.microkernels.library import is_shipped
from autotuner.microkernels.loader import FILE, checked_name

TEXT = """\
# A microkernel: an object file, and all that IREE must know to call it. docs/microkernels.md explains every key.
# Fill in, then `autotune ab --list` says whether it reads, and `autotune ab {name} --shape …` runs it.

summary = "f16 matrix product in 128x128 tiles"

operation = "gemm"                # gemm, conv or attention
dtypes = ["f16"]                  # of the inputs
layouts = ["nn"]                  # of the problem; leave this out for attention
conditions = ["m % 128 == 0", "n % 128 == 0", "batch == 1"]

symbol = "gemm"                   # `autotune ab --inspect OBJECT` lists an object's symbols

# The kernel's parameters are its pointers, in the order of [[bindings]], then these, each of 32 bits.
constants = ["m", "n", "k"]

workgroup_size = [256]            # up to three, numbers or expressions
grid = ["ceil_div(m, 128) * ceil_div(n, 128)"]
local_memory = 0                  # bytes of dynamic shared memory
# subgroup_size = 64              # unless it is the chip's own

# [parameters]                    # knobs that the kernel is built with, each with its values, the default first
# tile = [128, 64]

# [values]                        # names for parts of expressions; each may use those before it
# tiles = "ceil_div(m, 128) * ceil_div(n, 128)"

[[bindings]]
operand = "lhs"
access = "read"
# layout = "km"                   # if the kernel wants another order of dimensions than the problem has

[[bindings]]
operand = "rhs"
access = "read"

[[bindings]]
operand = "out"
access = "write"
element = "f32"                   # what the kernel writes; "problem": whatever the problem has
# zeroed = true                   # if the kernel adds to what is there

# [[bindings]]                    # memory for the time of a call, if the kernel needs some
# operand = "scratch"
# bytes = "m * n * 4"

[objects.gfx942]                  # one table for each chip: gfx942, sm_80, x86_64, aarch64, …
path = "kernel.hsaco"             # inside this folder
sha256 = ""                       # of that file, by sha256sum

# Instead of [objects], for a kernel that is built from source:
# [provider]
# kind = "triton"                 # or "c"
# source = "kernel.py"
# chips = ["gfx942", "sm_80"]
"""

C_MANIFEST = """\
# A microkernel in C for processors. docs/microkernels.md explains every key, and the signature of the function.
# It works as it is: `autotune ab {name} --shape 64x64x64` checks it against the reference and races it.

summary = "f32 matrix product, a row of the result at a time"

operation = "gemm"
dtypes = ["f32"]
layouts = ["nn"]
conditions = ["batch == 1"]

symbol = "gemm"                   # the function in kernel.c
constants = ["m", "n", "k"]       # its arguments after the pointers, int32_t each

workgroup_size = [1]
grid = [1, "m"]                   # one call for each row: the last three arguments are the call's place in this grid

[[bindings]]                      # its pointers, in this order
operand = "lhs"
access = "read"

[[bindings]]
operand = "rhs"
access = "read"

[[bindings]]
operand = "out"
access = "write"
element = "f32"

[provider]
kind = "c"
source = "kernel.c"
chips = ["x86_64", "aarch64"]
"""
C_SOURCE = """\
#include <stddef.h>
#include <stdint.h>

void gemm(const float* restrict a, const float* restrict b, float* restrict c,
          int32_t m, int32_t n, int32_t k, size_t x, size_t y, size_t z) {
  float* row = c + y * n;
  for (int32_t j = 0; j < n; ++j) row[j] = 0;
  for (int32_t p = 0; p < k; ++p)
    for (int32_t j = 0; j < n; ++j) row[j] += a[y * k + p] * b[p * n + j];
}
"""
C_FILE = "kernel.c"


def create(name: str, folder: Path, *, in_c: bool = False) -> tuple[Path, ...]:
    """Writes FOLDER/NAME/microkernel.toml, and a source where one is wanted; what is there already stays."""
    home = folder / checked_name(name)
    if is_shipped(name):
        raise UsageError(f"{name} is a microkernel that comes with autotune.", remedy="Choose another name.")
    texts = {FILE: C_MANIFEST, C_FILE: C_SOURCE} if in_c else {FILE: TEXT}
    files = {home / file: text.replace("{name}", name) for file, text in texts.items()}
    if there := [file for file in files if os.path.lexists(file)]:
        raise UsageError(f"{there[0]} is there already.", remedy="Edit it, or choose another name.")
    try:
        home.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            with file.open("x", encoding="utf-8") as handle:
                handle.write(text)
    except OSError as error:
        raise StorageError(f"cannot write {home}: {error.strerror}.", remedy="Choose another --workspace.") from error
    return tuple(files)
