"""Record samples of many small gemm spaces: a history of shapes for benchmarks/learning.py.

    python -m benchmarks.record_shapes --target sm_80 --seconds 360 --out benchmarks/replay/shapes

The time is divided among the shapes that are left, so that a slow one shortens those after it and not the whole. The
same command goes on where it ended; with more --seconds it makes the samples larger.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from autotuner.errors import AutotuneError
from benchmarks.record import parse, record

SHAPES = (
    "128x4096x4096",
    "256x4096x4096",
    "256x11008x4096",
    "512x512x4096",
    "512x2048x2048",
    "512x4096x4096",
    "768x3072x768",
    "1024x1024x1024",
    "1024x1024x4096",
    "1024x4096x1024",
    "1280x5120x1280",
    "1536x1536x1536",
    "2048x1024x1024",
    "2048x2048x512",
    "2048x2048x4096",
    "2048x4096x1024",
    "3072x768x3072",
    "4096x1024x1024",
    "4096x2048x2048",
    "4096x4096x1024",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True, help="a chip, such as sm_80")
    parser.add_argument("--shapes", nargs="+", default=SHAPES, metavar="MxNxK", help="[default: twenty]")
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--seconds", type=float, default=360.0, help="of all shapes together")
    parser.add_argument("--limit", type=int, default=200, help="at most so many candidates of a shape")
    parser.add_argument("--out", type=Path, required=True, help="folder of the recordings")
    given = parser.parse_args()
    common = ["--dtype", given.dtype, "--target", given.target, "--limit", str(given.limit), "--out", str(given.out)]
    deadline, failed = time.monotonic() + given.seconds, 0
    for number, shape in enumerate(given.shapes):
        share = max(deadline - time.monotonic(), 0.0) / (len(given.shapes) - number)
        try:
            print(record(parse(["gemm", "--shape", shape, *common, "--seconds", f"{share:.1f}"])), flush=True)
        except AutotuneError as error:
            failed += 1
            print(f"{shape}: {error}", file=sys.stderr)
    if failed:
        sys.exit(f"{failed} of {len(given.shapes)} shapes were not recorded; the same command tries them again")


if __name__ == "__main__":
    main()
