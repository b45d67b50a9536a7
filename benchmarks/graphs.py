"""Times variants of a kernel for NVIDIA GPUs without IREE: launches in CUDA graphs, in turns with torch.

    python -m benchmarks.graphs OUT.csv [--kernel gemm_cuda]… [--only TEXT]… [--problem 'gemm --shape 640x1920x2560']…
        [--random 23 --count 45 --operation conv] [--first 4] [--set bm=64,bn=160]… [--seconds 240]

Of each problem (of the suite `hopper`, those given, or so many of an operation drawn by a seed) the first variants of
each kernel by its manifest's estimate, or those with the values given, are built as `autotune` builds them and launched
with what its specs launch them with. Each result is compared with the problem's own reference. Parts of a depth are
added up, and rows of odd lengths copied into whole ones, by torch in the same graph; torch's time is that of the
problem without an epilogue. OUT.csv has the columns of results/reference/h200/triton_variants.csv and is written after
each few problems, which have a process of their own: a kernel that breaks takes no problem before or after it along.
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
from autotuner.microkernels.instance import Binding, Instance, shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import Variants
from autotuner.problems import Problem
from autotuner.problems.epilogue import NOTHING
from autotuner.problems.operations import OPERATIONS
from autotuner.space import Config, Space
from autotuner.system import process
from benchmarks.variants import COLUMNS
from benchmarks.winners import SUITE
from tests.support.arguments import parse_arguments

CHIP = "sm_90"
ROUNDS = 9
"""Timings of each, in turns."""
WARM_UP = 15
GROUP = 6
"""Problems of one process."""
CLASSES = ("large", "ragged", "deep", "decode", "few", "small", "batched", "shallow", "f8", "f8, few")
Row = dict[str, Any]


@dataclass(frozen=True)
class Built:
    """A variant that can be launched."""

    kernel: str
    config: Config
    instance: Instance

    @property
    def words(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.config.items)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--kernel", action="append", default=[], help="else each that fits")
    parser.add_argument("--problem", action="append", default=[], help="as on the command line; else the suite's")
    parser.add_argument("--random", type=int, help="a seed: draw the problems by it")
    parser.add_argument("--operation", choices=tuple(DRAWN), default="gemm", help="of what is drawn")
    parser.add_argument("--count", type=int, default=45, help="of what is drawn")
    parser.add_argument("--only", action="append", default=[], help="products of the suite whose name has this text")
    parser.add_argument("--first", type=int, default=4, help="variants by estimate")
    parser.add_argument("--set", action="append", default=[], dest="sets", help="bm=64,bn=160: variants with these")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--child", choices=("build", "time"), help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.child == "time":
        for line in given.out.read_text().splitlines():
            problem = parse_arguments((work := json.loads(line))["problem"].split())
            built = [build(problem, kernel, Config(tuple(map(tuple, items)))) for kernel, items in work["variants"]]
            print(json.dumps(timed(problem, [one for one in built if one is not None])), flush=True)
        return
    drawn = [] if given.random is None else list(DRAWN[given.operation](given.random, given.count))
    named = [parse_arguments(text.split()) for text in [*given.problem, *drawn]]
    suite = [one for one in problems_of(SUITE) if any(text in one.name for text in given.only or [""])]
    if given.child == "build":
        wanted = [dict(word.split("=") for word in text.split(",")) for text in given.sets]
        for problem in named:
            print(json.dumps(list(offered(problem, given.kernel or KERNELS, first=given.first, wanted=wanted))))
        return
    texts = [" ".join(problem.arguments()) for problem in named or suite]
    shared = [word for kernel in given.kernel for word in ("--kernel", kernel)]
    shared += [word for text in given.sets for word in ("--set", text)]
    run(texts, given.out, ["--first", str(given.first), *shared], seconds=given.seconds)


def run(texts: Sequence[str], out: Path, options: Sequence[str], *, seconds: float) -> None:
    """Builds side by side, times one after the other."""
    began, best = time.monotonic(), []
    command, orders = [sys.executable, "-m", "benchmarks.graphs"], out.with_suffix(".orders")

    def variants_of(text: str) -> list[Any]:
        done = process.run([*command, str(out), "--child", "build", *options, "--problem", text], timeout=seconds)
        return list(json.loads(done.stdout.splitlines()[-1])) if done.ok else []

    with ThreadPoolExecutor() as pool, out.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        work = [(text, pool.submit(variants_of, text)) for text in texts]
        while work and (left := seconds - (time.monotonic() - began)) > 0:
            group = [{"problem": text, "variants": found} for text, job in work[:GROUP] if (found := job.result())]
            orders.write_text("\n".join(map(json.dumps, group)))
            done = process.run([*command, str(orders), "--child", "time"], timeout=min(left, GROUP * 20.0))
            answers = [json.loads(line) for line in done.stdout.splitlines()]
            for one, found in zip(group, answers, strict=False):
                rows = [{"problem": one["problem"], **row} for row in found]
                best.extend(told(rows))
                writer.writerows(row for row in rows if not row["wrong"])
            file.flush()
            if not done.ok and len(answers) < len(group):  # that one broke it: the others behind it go on
                print(f"{group[len(answers)]['problem']}: {done.why()[-300:]}", flush=True)
                work = work[[text for text, _ in work].index(str(group[len(answers)]["problem"])) + 1 :]
            else:
                work = work[GROUP:]
        pool.shutdown(cancel_futures=True)
        orders.unlink(missing_ok=True)
    if best:
        mean = statistics.geometric_mean(best)
        print(f"torch / the best: geometric mean of {len(best)} of {len(texts)}: {mean:.3f}, least {min(best):.2f}")


def told(rows: Sequence[Row]) -> list[float]:
    """Prints the timings of a problem; torch's time by that of the best right one."""
    print(rows[0]["problem"] if rows else "", flush=True)
    for row in sorted(rows, key=lambda row: float(row["us"])):
        ratio = row["vendor_us"] / row["us"]
        said = f"{row['kernel']} {row['parameters']}  {row['wrong']}"
        print(f"  {row['us']:8.2f}  torch {row['vendor_us']:8.2f}  {ratio:.3f}  {said}")
    ratios = [row["vendor_us"] / row["us"] for row in rows if not row["wrong"]]
    return [max(ratios)] if ratios else []


def draw(seed: int, count: int) -> Iterator[str]:
    """Products of every class in turn: large, ragged, deep, of few rows, small, batched, of little depth, of f8."""
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
        elif kind == "shallow":
            batch = chance.choice([1, 4, 8, 20, 32])
            m, n, k = size(192, 2048, 16), size(128, 1024, 16), chance.choice([64, 96, 128, 160, 192])
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


def draw_convs(seed: int, count: int) -> Iterator[str]:
    """Convolutions as networks have them, channels last: 1x1, 3x3 and larger, on small images and on large ones."""
    chance = random.Random(seed)
    for number in range(count):
        side = (1, 3, 1, 3, 5, 3, 1, 7)[number % 8]
        size = chance.choice([7, 8, 12, 14, 16, 20, 28, 32, 40, 56, 64])
        images = chance.choice([1, 2, 4, 8, 16, 32] if size < 40 else [1, 2, 4, 8])
        most = 256 if side > 3 or size >= 40 else 1024
        c, f = (chance.choice([one for one in CHANNELS if one <= most]) for _ in range(2))
        dtype, stride = chance.choice(["f16", "bf16"]), chance.choice([1, 1, 1, 2])
        words = f"conv --shape {images}x{size}x{size}x{c} --filter {side}x{side}x{f} --dtype {dtype}"
        out = chance.choice(["", f" --out {dtype}"])
        yield f"{words} --stride {stride}x{stride} --pad {side // 2}x{side // 2}{out}"


def draw_attentions(seed: int, count: int) -> Iterator[str]:
    """Attentions of one length or two, of all usual widths, some of them causal."""
    chance = random.Random(seed)
    for _ in range(count):
        queries = chance.choice([64, 77, 128, 197, 256, 384, 512, 577, 768, 1024, 1500, 2048, 4096])
        keys = chance.choice([queries, queries, queries, 77, 1024])
        heads, width = chance.choice([8, 12, 16, 20, 32]), chance.choice([32, 64, 64, 72, 80, 96, 128, 128, 160])
        batch = chance.choice([1] if queries * keys * heads > 1 << 26 else [1, 2, 4])
        causal = " --causal" if queries == keys and chance.random() < 0.4 else ""
        shape, dtype = f"{batch}x{heads}x{queries}x{keys}x{width}", chance.choice(["f16", "bf16"])
        yield f"attention --shape {shape} --dtype {dtype}{causal}"


DRAWN = {"gemm": draw, "conv": draw_convs, "attention": draw_attentions}
CHANNELS = (32, 48, 64, 80, 96, 112, 128, 160, 192, 240, 256, 320, 384, 480, 512, 576, 640, 672, 832, 960, 1024)
KERNELS = ("gemm_cuda", "gemm_triton", "conv_triton", "attention_triton", "attention_hopper")


def offered(
    problem: Problem, kernels: Sequence[str], *, first: int, wanted: Sequence[dict[str, str]]
) -> Iterator[tuple[str, tuple[tuple[str, Any], ...]]]:
    """The variants of each kernel that are wanted and can be built."""
    for kernel in kernels:
        manifest = load(shipped_folder() / kernel / FILE, OPERATIONS)
        try:
            ranked = Variants.of(manifest, problem, CHIP, workspace=Path(tempfile.gettempdir())).ranked
        except AutotuneError as error:
            print(f"{problem.name}: {error}", file=sys.stderr)
            continue
        named = [c for one in wanted for c in ranked if one.items() <= {n: str(v) for n, v in c.items}.items()]
        for config in named or ranked[:first]:
            if build(problem, kernel, config) is not None:
                yield kernel, config.items


def build(problem: Problem, kernel: str, config: Config) -> Built | None:
    """A variant, if it can be built."""
    manifest = load(shipped_folder() / kernel / FILE, OPERATIONS)
    nothing = Space((), np.zeros((0, 0), np.int64))
    try:
        variants = Variants(manifest, problem, CHIP, nothing, Path(tempfile.gettempdir()))
        return Built(kernel, config, variants.call(config).instance)
    except AutotuneError as error:
        print(f"{problem.name} {config.items}: {error}", file=sys.stderr)
        return None


def timed(problem: Any, variants: Sequence[Built]) -> list[Row]:
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
        plain = replace(problem, epilogue=NOTHING) if problem.op != "attention" else problem
        call = getattr(library, problem.op)(task_of(plain), [*tensors[: 3 if problem.op == "attention" else 2]])
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
        rows.append(
            {"kernel": one.kernel, "parameters": one.words, **times, "wrong": compare(result, reference, bound).detail}
        )
    return rows


class Launch:
    """A launch as IREE has it, and what follows it where results come in parts. It holds what graphs point to."""

    def __init__(self, instance: Instance, library: Library, tensors: Sequence[Any]) -> None:
        self._cupy, self._torch, self._instance = import_module("cupy"), library.torch, instance
        self._kernel = self._cupy.RawModule(path=str(instance.objects[0])).get_function(instance.symbol)
        self._copies: list[tuple[Any, Any]] = []
        self._kernel.max_dynamic_shared_size_bytes = instance.local_memory
        self._buffers = [
            self._read(tensors[binding.operand], binding)
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

    def _read(self, tensor: Any, binding: Binding) -> Any:
        """What the kernel reads: the tensor, or room for a copy in its order or with rows of its pitch."""
        if not (binding.permutation or binding.pitch):
            return tensor
        shape = (*tensor.shape[:-1], binding.pitch) if binding.pitch else binding.tensor.shape
        room = self._torch.zeros(shape, device="cuda", dtype=tensor.dtype)
        there = room[..., : tensor.shape[-1]] if binding.pitch else room
        self._copies.append((there, tensor.permute(binding.permutation) if binding.permutation else tensor))
        return room

    def __call__(self) -> Any:
        instance = self._instance
        for room, source in self._copies:
            room.copy_(source)
        with self._cupy.cuda.ExternalStream(self._torch.cuda.current_stream().cuda_stream):
            self._kernel(instance.grid, instance.workgroup_size, self._arguments, shared_mem=instance.local_memory)
        return self._result.sum(0) if len(self._result) > 1 else self._result[0]


if __name__ == "__main__":
    main()
