"""Times variants of a kernel for NVIDIA GPUs without IREE: launches in CUDA graphs, in turns with torch.

    python -m benchmarks.graphs OUT.csv [--kernel gemm_cuda] [--only TEXT]… [--problem 'gemm --shape 640x1920x2560']…
        [--random 23 --count 45] [--first 4] [--set bm=64,bn=160]… [--seconds 240]

Of each problem (of the suite `hopper`, those given, or so many of every class drawn by a seed) the first variants by
the manifest's estimate, or those with the values given, are built as `autotune` builds them and launched with what its
specs launch them with. Each result is compared with the problem's own reference. Parts of a depth are added up by
torch, in the same graph; torch's time is that of the product without an epilogue. OUT.csv has the columns of
results/reference/h200/triton_variants.csv and is written after each problem. Every problem has a process of its own: a
kernel that breaks takes no other with it.
Needs an NVIDIA GPU, torch and CuPy.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.errors import AutotuneError
from autotuner.jobs.bench.given import task_of
from autotuner.jobs.bench.libraries.child import Message, one_by_one
from autotuner.jobs.bench.libraries.torch_library import Library
from autotuner.jobs.suite.load import problems_of
from autotuner.measure.check import compare
from autotuner.microkernels.instance import Instance, shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm
from autotuner.problems.epilogue import NOTHING
from autotuner.problems.operations import OPERATIONS
from autotuner.space import Config
from autotuner.system import process
from benchmarks.variants import COLUMNS
from benchmarks.winners import SUITE
from tests.support.arguments import parse_arguments

CHIP = "sm_90"
ROUNDS = 9
"""Timings of each, in turns."""
WARM_UP = 15
ONE_SECONDS = 2.0
"""A variant's share of the time-out."""
CLASSES = ("large", "ragged", "deep", "decode", "few", "small", "batched", "f8", "f8, few")
Row = dict[str, Any]


@dataclass(frozen=True)
class Built:
    """A variant that can be launched."""

    config: Config
    instance: Instance

    @property
    def words(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.config.items)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kernel", default="gemm_cuda")
    parser.add_argument("--problem", action="append", default=[], help="as on the command line; else the suite's")
    parser.add_argument("--random", type=int, help="a seed: draw the problems by it")
    parser.add_argument("--count", type=int, default=45, help="of what is drawn")
    parser.add_argument("--only", action="append", default=[], help="products of the suite whose name has this text")
    parser.add_argument("--first", type=int, default=4, help="variants by estimate")
    parser.add_argument("--set", action="append", default=[], dest="sets", help="bm=64,bn=160: variants with these")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    drawn = [] if given.random is None else list(draw(given.random, given.count))
    named = [parse_arguments(text.split()) for text in [*given.problem, *drawn]]
    suite = [one for one in problems_of(SUITE) if any(text in one.name for text in given.only or [""])]
    wanted = [dict(word.split("=") for word in text.split(",")) for text in given.sets]
    products = [one for one in named or suite if isinstance(one, Gemm)]
    built = {problem: build(problem, given.kernel, first=given.first, wanted=wanted) for problem in products}
    if given.child:
        (found,) = built.items()
        print(json.dumps(timed(*found)))
        return
    began, rows = time.monotonic(), []
    for problem, variants in built.items():
        left = given.seconds - (time.monotonic() - began)
        if not variants or left < 5.0:
            continue
        told = [word for text in given.sets for word in ("--set", text)]
        words = ["--kernel", given.kernel, "--first", str(given.first), *told, "--child", "--problem"]
        command = [sys.executable, "-m", "benchmarks.graphs", str(given.out), *words, " ".join(problem.arguments())]
        done = process.run(command, timeout=min(left, 20.0 + ONE_SECONDS * len(variants)))
        found = json.loads(done.stdout.splitlines()[-1]) if done.ok else []
        print(problem.name, "" if done.ok else done.why()[-400:], flush=True)
        for row in sorted(found, key=lambda row: float(row["us"])):
            ratio = row["vendor_us"] / row["us"]
            print(
                f"  {row['us']:8.2f}  torch {row['vendor_us']:8.2f}  {ratio:.3f}  {row['parameters']}  {row['wrong']}"
            )
            rows.append({"problem": " ".join(problem.arguments()), "kernel": given.kernel, **row})
        with given.out.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(row for row in rows if not row["wrong"])


def draw(seed: int, count: int) -> Iterator[str]:
    """Products of every class in turn: large, ragged, deep, of few rows, small, batched, of f8."""
    chance = random.Random(seed)

    def size(least: int, most: int, step: int = 8) -> int:
        drawn = math.exp(chance.uniform(math.log(least), math.log(most)))
        return max(step, round(drawn / step) * step)

    for number in range(count):
        kind = CLASSES[number % len(CLASSES)]
        dtype, layout = chance.choice(["f16", "bf16"]), chance.choice(["nn", "nt", "nt", "tn"])
        out, batch = chance.choice(["", "", dtype]), 1
        if kind == "large":
            m, n, k = size(1024, 8192, 64), size(1024, 8192, 64), size(1024, 8192, 64)
        elif kind == "ragged":
            m, n, k = size(500, 3500), size(500, 3500), size(500, 3500)
        elif kind == "deep":
            m, n, k = size(192, 1024, 16), size(256, 1536, 16), size(8192, 32768, 64)
        elif kind == "decode":
            rows = chance.choice([2, 4, 8, 12, 16, 17, 24, 32, 33, 48, 64])
            m, n, k = rows, size(2048, 16384, 64), size(1024, 14336, 64)
            layout = chance.choice(["nn", "nt", "nt"])
        elif kind == "few":
            rows = chance.choice([72, 80, 96, 100, 112, 128, 144, 160, 192, 200, 256])
            m, n, k = rows, size(1024, 12288, 64), size(1024, 8192, 64)
            layout = chance.choice(["nn", "nt"])
        elif kind == "small":
            m, n, k = size(192, 1024, 16), size(192, 1024, 16), size(256, 2048, 16)
        elif kind == "batched":
            batch = chance.choice([4, 8, 12, 16, 32])
            m, n, k = size(192, 1024, 16), size(128, 1024, 16), chance.choice([256, 384, 512, 768, 1024])
        elif kind == "f8":
            m, n, k = size(256, 8192, 64), size(256, 8192, 64), size(512, 8192, 64)
        else:
            rows = chance.choice([8, 16, 32, 64, 100, 128, 200, 256])
            m, n, k = rows, size(1024, 12288, 64), size(1024, 8192, 64)
        if kind.startswith("f8"):
            dtype, layout, out = "f8", "nt", chance.choice(["", "f16", "bf16"])
        words = [f"gemm --shape {m}x{n}x{k} --dtype {dtype} --layout {layout}"]
        words += [f"--batch {batch}"] * (batch > 1) + [f"--out {out}"] * bool(out)
        words += ["--allow-precision f16"] * (dtype == "f8")
        yield " ".join(words)


def build(problem: Gemm, kernel: str, *, first: int, wanted: Sequence[dict[str, str]]) -> list[Built]:
    """The variants that are wanted of it, as many as can be built."""
    manifest = load(shipped_folder() / kernel / FILE, OPERATIONS)
    try:
        variants = Variants.of(manifest, problem, CHIP, workspace=Path(tempfile.gettempdir()))
    except AutotuneError as error:
        print(f"{problem.name}: {error}", file=sys.stderr)
        return []
    named = [c for one in wanted for c in variants.ranked if one.items() <= {n: str(v) for n, v in c.items}.items()]
    with ThreadPoolExecutor() as pool:
        return [
            one for one in pool.map(lambda config: _built(variants, config), named or variants.ranked[:first]) if one
        ]


def _built(variants: Variants, config: Config) -> Built | None:
    try:
        return Built(config, variants.call(config).instance)
    except AutotuneError as error:
        print(f"{variants.problem.name} {config.items}: {error}", file=sys.stderr)
        return None


def timed(problem: Gemm, variants: Sequence[Built]) -> list[Row]:
    """Each beside torch."""
    inputs = problem.inputs(0)
    reference = problem.reference(inputs)
    bound = problem.bound(inputs, reference)
    library = Library("cuda:0", 8)
    with tempfile.TemporaryDirectory() as folder:
        messages: list[Message] = []
        for number, (operand, array) in enumerate(zip(problem.operands, inputs, strict=False)):
            file = Path(folder) / str(number)
            array.tofile(file)
            messages.append({"file": str(file), "element": operand.element.mlir, "shape": list(operand.shape)})
        tensors = tuple(library.array(one) for one in messages)
        call = library.gemm(task_of(replace(problem, epilogue=NOTHING)), [*tensors[:2]])
    theirs = library.timer(call, [call["inputs"]], one_by_one)
    for _ in range(WARM_UP):
        theirs()
    rows = []
    for one in variants:
        launch = Launch(one.instance, library, tensors)
        result = launch().double().cpu().numpy().reshape(reference.shape)
        ours = library.timer({"compute": launch}, [()], one_by_one)
        pairs = [(theirs(), ours()) for _ in range(ROUNDS + 2)][2:]
        vendor, own = (
            statistics.median(seconds / count for seconds, count in side) for side in zip(*pairs, strict=True)
        )
        times = {"us": round(own * 1e6, 2), "vendor_us": round(vendor * 1e6, 2)}
        rows.append({"parameters": one.words, **times, "wrong": compare(result, reference, bound).detail})
    return rows


class Launch:
    """A launch as IREE has it, and what follows it where results come in parts. It holds what graphs point to."""

    def __init__(self, instance: Instance, library: Library, tensors: Sequence[Any]) -> None:
        self._cupy, self._torch, self._instance = import_module("cupy"), library.torch, instance
        self._kernel = self._cupy.RawModule(path=str(instance.objects[0])).get_function(instance.symbol)
        self._kernel.max_dynamic_shared_size_bytes = instance.local_memory
        self._buffers = [
            tensors[binding.operand]
            if binding.access == "read"
            else self._torch.zeros(
                (binding.parts, *binding.tensor.shape), device="cuda", dtype=library.dtype(binding.tensor.element.mlir)
            )
            for binding in instance.bindings
        ]
        (self._result,) = (
            buffer.fill_(float("nan"))
            for buffer, binding in zip(self._buffers, instance.bindings, strict=True)
            if binding.access == "write"
        )
        pointers = (np.uint64(buffer.data_ptr()) for buffer in self._buffers)
        self._arguments = (*pointers, *map(np.int32, instance.constants))

    def __call__(self) -> Any:
        instance = self._instance
        with self._cupy.cuda.ExternalStream(self._torch.cuda.current_stream().cuda_stream):
            self._kernel(instance.grid, instance.workgroup_size, self._arguments, shared_mem=instance.local_memory)
        return self._result.sum(0) if len(self._result) > 1 else self._result[0]


if __name__ == "__main__":
    main()
