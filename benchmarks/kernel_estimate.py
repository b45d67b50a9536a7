"""How well the estimates of gemm_triton, gemm_hopper and gemm_cuda rank variants of shapes they were not fitted to.

    python -m benchmarks.kernel_estimate

The constants of each manifest's estimate are fitted again to the timings of all shapes but one (NVIDIA H200,
`triton_variants.csv`), and the variants of that one are ranked by them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import LEADING
from autotuner.problems.operations import OPERATIONS
from tests.support.arguments import parse_arguments

TIMINGS = Path("results/reference/h200/triton_variants.csv")
CHIP = "sm_90"
STEPS = (0.3, 0.1, 0.03)
"""Of a constant, in the search for a better one."""
Array = npt.NDArray[np.float64]
Constants = tuple[float, ...]


class Columns(dict[str, Array]):
    """The numbers that a manifest has for each timed variant."""

    def rows(self, chosen: npt.NDArray[np.bool_]) -> Columns:
        return Columns({name: column[chosen] for name, column in self.items()})


@dataclass(frozen=True)
class Estimate:
    """A manifest's estimate with its constants free; those that it has now."""

    kernel: str
    formula: Callable[[Columns, Constants], Array]
    constants: Constants


def triton(x: Columns, c: Constants) -> Array:
    resident, together = x["resident"], x["together"]
    waves = np.ceil(x["on_unit"] / resident)
    slow = np.where((x["tma"] == 0) & (x["ragged"] > 0), c[9], 1.0)
    step = np.maximum(x["bm"] * x["wide"] * x["bk"] / c[0], (x["bm"] + x["wide"]) * x["bk"] / c[1]) * slow
    waits = np.select([x["num_stages"] == 2, x["num_stages"] == 3], [c[2], c[3]], c[4])
    alone = step * 7 / 8 + waits
    ends = c[5] + c[6] * x["tma"] + waves * together * x["bm"] * x["wide"] / c[7] - c[8] * (x["workers"] > 0)
    shared = np.where(x["split"] > 1, c[10] + x["on_unit"] * x["split"] * x["bm"] * x["wide"] / c[11], 0.0)
    work = waves * x["steps"] * np.maximum(step * together, alone) + ends + shared
    moved = x["batch"] * (x["m"] * x["k"] + x["k"] * x["n"] + 2 * x["m"] * x["n"]) / c[12]
    total: Array = np.maximum(work, moved) + work / 8
    return total


def hopper(x: Columns, c: Constants) -> Array:
    across = np.where(x["narrow"] > 0, c[11], x["bn"] + np.where(x["more"] == 32, c[8], x["more"]))
    step = np.maximum(x["bm"] * across * x["bk"] / c[0], (x["bm"] + x["wide"]) * x["bk"] / c[1])
    step *= np.where(x["ragged"] > 0, c[12], 1.0)
    steps = np.ceil(np.ceil(x["k"] / x["bk"]) / x["split"])
    shared = np.where(x["split"] > 1, c[4] + x["on_unit"] * x["split"] * x["bm"] * x["wide"] / c[5], 0.0)
    put = np.where(x["lines"] > 0, np.where(x["rounded"] > 0, c[6], c[7]), np.where(x["rounded"] > 0, c[9], c[2]))
    return x["on_unit"] * (steps * step + x["bm"] * x["wide"] * put / 10000 + c[10]) + c[3] + shared


def cuda(x: Columns, c: Constants) -> Array:
    parts = x["parts"] > 1
    across = np.where(parts & (x["large"] > 0), c[1], c[2])
    read = (x["bm"] * c[1] * x["wait_x"] + x["bn"] * across * x["wait_y"]) * x["uncached"] / 1e4
    step = np.maximum(x["bm"] * x["bn"] / c[0], np.maximum(c[4], read * np.where(x["ragged"] > 0, c[3] / 100, 1.0)))
    steps = x["waves"] * np.ceil(np.ceil(x["deep"] / 64) / (x["split"] * x["parts"]))
    staged = np.where((x["staged"] > 0) & (x["split"] == 1), x["bm"] * x["bn"] / c[5], 0.0)
    finished = staged + np.where(x["bias"] > 0, c[6], 0.0) + np.where(x["gated"] > 0, x["bm"] * x["bn"] / c[7], 0.0)
    put = x["bm"] * x["bn"] * np.where((x["rounded"] > 0) & ~parts, 2, 4) / c[8] + c[9] + finished
    shared = np.where(x["both"] > 0, c[11], 0.0) + np.where(x["split"] > 1, c[12] + x["bm"] * x["bn"] / c[13], 0.0)
    added_up = np.where(parts, c[14] + x["parts"] * x["m"] * x["n"] / c[15], 0.0)
    moved = x["fetched"] * 1024 / np.where(x["fetched"] <= 22 << 10, c[16], np.where(parts, c[17], c[18]))
    whole = np.maximum(steps * step, moved) + x["waves"] * put + c[10] + shared + added_up
    total: Array = np.where(x["turned"] > 0, thin(x, c), whole)
    return total


def thin(x: Columns, c: Constants) -> Array:
    """With rows and columns turned."""
    read = (
        (x["bm"] * c[20] * x["wait_x"] + x["bn"] * c[21] * x["wait_y"])
        / 1e4
        * np.where(x["ragged"] > 0, c[22] / 100, 1.0)
    )
    step = np.maximum(x["bm"] * x["bn"] / c[19], np.maximum(c[23], read))
    steps = np.ceil(np.ceil(x["deep"] / 64) / x["split"])
    weights = x["n"] * x["deep"]
    moved = weights / np.where(weights > 22 << 20, c[24], c[16])
    shared = np.where(x["both"] > 0, c[11], 0.0) + np.where(x["split"] > 1, c[26] + x["bm"] * x["bn"] / c[27], 0.0)
    much = (x["residual"] > 0) | (x["activation"] > 0) & (x["gated"] == 0)
    put = x["bm"] * x["bn"] * (1 / c[28] + much / c[5])
    total: Array = np.maximum(steps * step, moved) + c[25] + shared + put + np.where(x["bias"] > 0, c[6], 0.0)
    return total


_CUDA = (46, 130, 115, 141, 100, 11, 680, 6, 69, 443, 1700, 631, 2600, 25, 2454, 1040, 2961, 1650, 1131)
_THIN = (49, 130, 134, 125, 142, 1950, 2341, 287, 8, 18)
ESTIMATES = (
    Estimate("gemm_triton", triton, (3020, 55, 381, 146, 111, 1115, 1035, 8, 1650, 1.5, 3800, 72, 1707)),
    Estimate("gemm_hopper", hopper, (2860, 58.5, 920, 2450, 7080, 88, 200, 350, 39, 1300, 640, 108, 1.45)),
    Estimate("gemm_cuda", cuda, (*_CUDA, *_THIN)),
)


def read(kernel: str) -> tuple[list[str], Columns, Array, Array]:
    """The problem of each timed variant, its numbers, µs, and what the manifest expects."""
    manifest = load(shipped_folder() / kernel / FILE, OPERATIONS)
    names, found, us, expected = [], [], [], []
    with TIMINGS.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["kernel"] != kernel:
                continue
            parameters = {name: int(value) for name, value in (word.split("=") for word in row["parameters"].split())}
            numbers = manifest.fit(parse_arguments(row["problem"].split()), CHIP, parameters=parameters)
            expected.append(float(manifest.expected(numbers)))
            numbers.setdefault("ragged", (numbers["m"] | numbers["n"] | numbers["k"]) % 16)
            names.append(row["problem"])
            found.append(numbers)
            us.append(float(row["us"]))
    shared = set.intersection(*(set(numbers) for numbers in found))
    columns = Columns({name: np.array([numbers[name] for numbers in found], float) for name in shared})
    return names, columns, np.array(us), np.array(expected)


def fit(estimate: Estimate, x: Columns, us: Array) -> Constants:
    """The constants that are nearest to the timings, the fast ones first, from one constant to the next."""
    weight = 1.0 / us

    def loss(constants: Constants) -> float:
        return float(np.average(np.log(estimate.formula(x, constants) / us / 1000) ** 2, weights=weight))

    best, least = estimate.constants, loss(estimate.constants)
    for size in STEPS:
        improved = True
        while improved:
            improved = False
            for place in range(len(best)):
                for factor in (1 + size, 1 / (1 + size)):
                    tried = (*best[:place], best[place] * factor, *best[place + 1 :])
                    if (found := loss(tried)) < least * 0.9999:
                        best, least, improved = tried, found, True
    return best


def begun(order: Array, us: Array, most: int) -> float:
    """The best of the first so many by this order, over the best of all."""
    return float(us[np.argsort(order, kind="stable")[:most]].min() / us.min())


def mean(ratios: Sequence[float]) -> float:
    return float(np.exp(np.mean(np.log(ratios))))


def main() -> None:
    for estimate in ESTIMATES:
        names, x, us, expected = read(estimate.kernel)
        problem = np.array(names)
        shipped: dict[int, list[float]] = {1: [], LEADING: []}
        left_out: dict[int, list[float]] = {1: [], LEADING: []}
        for name in dict.fromkeys(names):
            here = problem == name
            order = estimate.formula(x.rows(here), fit(estimate, x.rows(~here), us[~here]))
            for most in shipped:
                shipped[most].append(begun(expected[here], us[here], most))
                left_out[most].append(begun(order, us[here], most))
        for most in shipped:
            print(
                f"{estimate.kernel}, {len(us)} timings of {len(shipped[most])} problems, best of the first {most}: "
                f"{mean(shipped[most]):.3f}x the best, with the shape left out {mean(left_out[most]):.3f}x, "
                f"at the worst {max(left_out[most]):.2f}x"
            )


if __name__ == "__main__":
    main()
