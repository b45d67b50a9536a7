"""What every command's help ends with: two commands that work as they stand."""

from collections.abc import Mapping
from typing import Any

HELP: dict[str, Any] = {"help_option_names": ["--help", "-h"]}
"""How help is asked for, everywhere."""
EXAMPLES: Mapping[str, tuple[str, str]] = {
    "gemm": (
        "autotune gemm --shape 512x512x1024 --budget 2m",
        "autotune gemm --shape 4096x4096x4096 --target gfx942 --device none",
    ),
    "conv": (
        "autotune conv --shape 1x56x56x64 --filter 3x3x64 --pad 1x1 --budget 2m",
        "autotune conv --shape 2x32x32x1280 --filter 3x3x1280 --pad 1x1 --target sm_80",
    ),
    "attention": (
        "autotune attention --shape 1x8x1024x1024x64 --causal --target sm_80",
        "autotune attention --shape 1x8x256x256x64 --budget 2m",
    ),
    "model": (
        "autotune model resnet50.onnx --budget 5m",
        "autotune model encoder.mlir --target sm_80 --top 5",
    ),
    "suite": (
        "autotune suite --list",
        "autotune suite unet --target gfx942 --device none --sample 3",
    ),
    "ab": (
        "autotune ab sgemm_c --shape 512x512x1024",
        "autotune ab a.flags b.flags --shape 512x512x1024",
    ),
    "retune": (
        "autotune retune specs/encoder-cpu.mlir --iree-tools ~/iree-build",
        "autotune retune . --device none",
    ),
    "bench": (
        "autotune bench --shape 512x512x1024 --backends iree,tuned,numpy",
        "autotune bench unet --target sm_80 --backends iree,tuned,torch",
    ),
    "compare": (
        "autotune compare golden/ . --markdown --fail-on-regression",
        "autotune compare golden.json 20260301-021500-0a1b2c -o compare.html",
    ),
    "report": ("autotune report -o report.html", "autotune report --serve"),
    "nightly": ("autotune nightly nightly.toml", "autotune nightly nightly.toml --dry-run"),
    "history": (
        "autotune history --op gemm --since 7d --verdict win",
        "autotune history --shape 512x512x1024 --trend",
    ),
    "export": ("autotune export --csv > timings.csv", "autotune export --parquet -o timings.parquet"),
    "import": ("autotune import timings.json", "autotune import machine-*.parquet --workspace all"),
    "cache": ("autotune cache", "autotune cache --clear"),
    "doctor": ("autotune doctor", "autotune doctor --json"),
    "worker": (
        "autotune worker --device cuda://0 tls://scheduler:8786",
        "autotune worker --jobs 8 tcp://127.0.0.1:8786",
    ),
    "bundle run": (
        "autotune bundle run out.zip",
        "autotune bundle run out.zip -o result.zip --device cuda --budget 5m",
    ),
    "bundle import": (
        "autotune bundle import out-result.zip",
        "autotune bundle import result.zip --workspace tuned -o specs/gemm.mlir",
    ),
    "spec show": ("autotune spec show specs/a.mlir", "autotune spec show specs/a.mlir --json"),
    "spec merge": ("autotune spec merge a.mlir b.mlir -o all.mlir", "autotune spec merge specs/*.mlir -o all.mlir"),
    "spec check": ("autotune spec check specs/a.mlir", "autotune spec check specs/a.mlir model.mlir"),
}


def examples(command: str) -> str:
    """The end of a command's help. A blank line between two keeps each on a line of its own."""
    return "Examples:\n\n" + "\n\n".join(f"  {line}" for line in EXAMPLES[command])
