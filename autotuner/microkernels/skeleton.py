"""`autotune ab --new NAME`: a manifest to fill in."""

from __future__ import annotations

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

[objects.gfx942]                  # one table for each chip: gfx942, sm_80, x86_64, aarch64, …
path = "kernel.hsaco"             # inside this folder
sha256 = ""                       # of that file, by sha256sum

# Instead of [objects], for a kernel that is built from source:
# [provider]
# kind = "triton"                 # or "c"
# source = "kernel.py"
# chips = ["gfx942", "sm_80"]
"""


def create(name: str, folder: Path) -> Path:
    """Writes FOLDER/NAME/microkernel.toml and says where it is; what is there already stays."""
    file = folder / checked_name(name) / FILE
    if is_shipped(name):
        raise UsageError(f"{name} is a microkernel that comes with autotune.", remedy="Choose another name.")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as handle:
            handle.write(TEXT.replace("{name}", name))
    except FileExistsError:
        raise UsageError(f"{file} is there already.", remedy="Edit it, or choose another name.") from None
    except OSError as error:
        raise StorageError(f"cannot write {file}: {error.strerror}.", remedy="Choose another --workspace.") from error
    return file
