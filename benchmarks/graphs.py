"""Times variants of a kernel for NVIDIA GPUs without IREE: launches in CUDA graphs, in turns with torch.

    python -m benchmarks.graphs OUT.csv [--kernel gemm_cuda] [--only TEXT]… [--problem 'gemm --shape 640x1920x2560']…
        [--first 4] [--set bm=64,bn=160]… [--seconds 240]

Of each problem (of the suite `hopper`, or those given) the first variants by the manifest's estimate, or those with the
values given, are built as `autotune` builds them and launched with what its specs launch them with. Each result is
compared with the problem's own reference. Parts of a depth are added up by torch, in the same graph; torch's time is
that of the product without an epilogue. OUT.csv has the columns of results/reference/h200/triton_variants.csv
and is written after each problem. Every problem has a process of its own: a kernel that breaks takes no other with it.
Needs an NVIDIA GPU, torch and CuPy.
"""

from __future__ import annotations

import argparse
import csv
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.errors import AutotuneError
from autotuner.jobs.bench.libraries.child import Message
from autotuner.jobs.bench.libraries.torch_library import Library, OnGpu
from autotuner.jobs.bench.tasks import task_of
from autotuner.jobs.suite.suites import SUITES
from autotuner.measure.check import compare
from autotuner.microkernels.instance import Instance
from autotuner.microkernels.library import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm
from autotuner.problems.epilogue import NOTHING
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
    parser.add_argument("--only", action="append", default=[], help="products of the suite whose name has this text")
    parser.add_argument("--first", type=int, default=4, help="variants by estimate")
    parser.add_argument("--set", action="append", default=[], dest="sets", help="bm=64,bn=160: variants with these")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    named = [parse_arguments(text.split()) for text in given.problem]
    suite = [one for one in SUITES[SUITE].problems() if any(text in one.name for text in given.only or [""])]
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


def build(problem: Gemm, kernel: str, *, first: int, wanted: Sequence[dict[str, str]]) -> list[Built]:
    """The variants that are wanted of it, as many as can be built."""
    manifest = load(shipped_folder() / kernel / FILE)
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
        tensors = tuple(library.tensor(one) for one in messages)
        theirs = library.prepare(task_of(replace(problem, epilogue=NOTHING)), messages[:2])
    assert isinstance(theirs, OnGpu)
    for _ in range(WARM_UP):
        theirs.invoke(1)
    rows = []
    for one in variants:
        launch = Launch(one.instance, library, tensors)
        result = launch().double().cpu().numpy().reshape(reference.shape)
        ours = OnGpu(library.torch, "", (), launch, None)
        pairs = [(theirs.invoke(1), ours.invoke(1)) for _ in range(ROUNDS + 2)][2:]
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
                (binding.parts, *binding.tensor.shape), device="cuda", dtype=library.type(binding.tensor.element.mlir)
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
