"""Which variants of a microkernel a search begins with: those that its manifest expects to be fast."""

from __future__ import annotations

import csv
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from autotuner.microkernels.expressions import Expression
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.manifest import DoesNotFitError
from autotuner.microkernels.variants import AUTO, LEADING, Kernel, Variants, find_variants
from autotuner.problems import Gemm, Operation, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.operations import OPERATIONS
from autotuner.space import ABSENT, Value
from autotuner.targets import Target
from autotuner.tuning.plan import KERNEL, Plan
from tests.support.arguments import parse_arguments

TIMINGS = Path(__file__).parents[2] / "results" / "reference" / "h200" / "triton_variants.csv"
"""Every variant of every problem of a list, timed on an H200."""
ESTIMATED = [
    path.name for path in sorted(shipped_folder().glob("*_*")) if path.name.endswith(("triton", "cuda", "hopper"))
]


def offers(name: str, problem: Operation, workspace: Path, *, first: dict[str, int] | None = None) -> Variants:
    return Variants.of(
        load(shipped_folder() / name / FILE, OPERATIONS), problem, "sm_90", workspace=workspace, first=first
    )


@cache
def timed() -> dict[tuple[str, str], list[tuple[dict[str, int], float]]]:
    found = defaultdict(list)
    with TIMINGS.open(newline="") as file:
        for row in csv.DictReader(file):
            pairs = (word.split("=") for word in row["parameters"].split())
            found[row["problem"], row["kernel"]].append(({k: int(v) for k, v in pairs}, float(row["us"])))
    return dict(found)


@pytest.mark.parametrize("kernel", ESTIMATED)
def test_of_what_was_timed_one_of_the_first_ten_is_nearly_the_best_and_estimates_are_nanoseconds(kernel: str) -> None:
    """On an H200. So kernels can be compared."""
    manifest = load(shipped_folder() / kernel / FILE, OPERATIONS)
    tables = {words: rows for (words, name), rows in timed().items() if name == kernel}
    ratios: list[float] = []
    assert tables
    for words, rows in tables.items():
        problem = parse_arguments(words.split())
        expected = [manifest.expected(manifest.fit(problem, "sm_90", parameters=setting)) for setting, _ in rows]
        order = sorted(range(len(rows)), key=expected.__getitem__)
        best, begun = min(us for _, us in rows), min(rows[place][1] for place in order[:LEADING])
        assert begun <= 1.07 * best, f"{words}: {begun} µs, and the best takes {best} µs"
        ratios += [ns / (1000 * us) for ns, (_, us) in zip(expected, rows, strict=True)]
    assert 0.7 < statistics.median(ratios) < 1.4


def begun_with(problem: Operation, workspace: Path, names: Iterable[str] = (AUTO,)) -> list[dict[str, Value]]:
    """What a search among these kernels tries, in its order."""
    bare = Plan.bare(problem, Target.parse("sm_80"))
    found, _ = find_variants([Kernel(name) for name in names], problem, chip="sm_90", workspace=workspace)
    return [{k: v for k, v in config.items if v != ABSENT} for config in bare.with_kernels(found).first]


SEVERAL = sorted(words for words, count in Counter(words for words, _ in timed()).items() if count > 1)
"""Problems that were timed with several kernels."""


@pytest.mark.parametrize("words", SEVERAL)
def test_short_budgets_see_the_fastest_kernel_first(words: str, tmp_path: Path) -> None:
    """On an H200, of those that were timed: what the first is a variant of has the best time, or nearly; so has one of
    the first three."""
    known = {kernel: rows for (problem, kernel), rows in timed().items() if problem == words}
    fastest = {kernel: min(us for _, us in rows) for kernel, rows in known.items()}
    best = min(fastest.values())
    order = begun_with(parse_arguments(words.split()), tmp_path, known)
    assert fastest[str(order[0][KERNEL])] <= 1.13 * best
    timings = [
        min((us for setting, us in known.get(str(one[KERNEL]), []) if setting.items() <= one.items()), default=None)
        for one in order[:3]
    ]
    if None not in timings:
        assert min(us for us in timings if us is not None) <= 1.15 * best
    kernels = [one[KERNEL] for one in order]
    assert len({*kernels[: len({*kernels})]}) == len({*kernels}), "each kernel's best before any one's second"


def test_a_search_begins_with_the_least_estimates_and_the_default_is_the_least(tmp_path: Path) -> None:
    variants = offers("gemm_triton", Gemm.parse(shape="1024x1280x14336", dtype="bf16", layout="nt"), tmp_path)
    manifest, leading = variants.manifest, variants.leading()
    assert len(leading) == len(set(leading)) == LEADING < len(variants.space)

    def expected(config_values: dict[str, int]) -> int:
        return manifest.expected(manifest.fit(variants.problem, "sm_90", parameters=config_values))

    every = sorted(expected({k: int(v) for k, v in variants.space[i].items}) for i in range(len(variants.space)))
    assert [expected({k: int(v) for k, v in config.items}) for config in leading] == every[:LEADING]
    assert variants.default() == leading[0]
    alone = offers("gemm_triton", Gemm.parse(shape="1024x1280x14336", dtype="bf16", layout="nt"), tmp_path, first={})
    assert [alone.space[i] for i in range(len(alone.space))] == [leading[0]]


def test_without_an_estimate_a_search_begins_with_the_manifests_first_choice(tmp_path: Path) -> None:
    manifest = load(shipped_folder() / "sgemv_c" / FILE, OPERATIONS)
    variants = Variants.of(manifest, Gemm.parse(shape="1x64x64", dtype="f32"), "x86_64", workspace=tmp_path)
    assert manifest.estimate is None
    assert variants.leading() == (variants.default(),)


@pytest.mark.parametrize("chip", ["x86_64", "aarch64"])
@pytest.mark.parametrize("shape", ["128x512x512", "128x512x2048", "64x256x1024"])
@pytest.mark.parametrize("first", [{}, {"packed": 1}])
def test_a_product_of_few_rows_is_at_first_shared_by_threads(
    shape: str, chip: str, first: dict[str, int], tmp_path: Path
) -> None:
    """By the first of each parameter one thread computed all of it: two took twice as long as they do now."""
    manifest, problem = load(shipped_folder() / "sgemm_c" / FILE, OPERATIONS), Gemm.parse(shape=shape, dtype="f32")
    chosen = Variants.of(manifest, problem, chip, workspace=tmp_path, first=first).space[0]
    assert -(-problem.m // int(chosen["mc"])) * -(-problem.n // int(chosen["nc"])) >= 4
    assert first.items() <= chosen.as_dict().items()


# --- What is said where no variant takes a problem ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "problem", "says"),
    [
        ("gemm_cuda", Gemm.parse(shape="384x512x32", batch=24), "it needs k >= 64, and here k = 32."),
        ("gemm_cuda", Gemm.parse(shape="16x128x4096"), "and here batch = 1, k = 4096, m = 16, n = 128."),
        ("gemm_hopper", Gemm.parse(shape="512x512x4168", batch=3), "none of its variants fits: it needs batch == 1"),
        (
            "attention_hopper",
            Attention.parse(shape="1x32x2048x2072x128"),
            "none of its variants fits: it needs keys % bn",
        ),
    ],
)
def test_a_refusal_quotes_the_condition(kernel: str, problem: Problem, says: str) -> None:
    manifest = load(shipped_folder() / kernel / FILE, OPERATIONS)
    with pytest.raises(DoesNotFitError) as refused:
        Variants.of(manifest, problem, "sm_90", workspace=Path())
    assert says in refused.value.message


def test_a_condition_is_asked_before_values_that_it_does_not_need() -> None:
    """Of a guard: the last value would divide by zero."""
    manifest = load(shipped_folder() / "gemm_cuda" / FILE, OPERATIONS)
    values = {**manifest.values, "last": Expression("1 // (bm - 192)")}
    guarded = replace(manifest, values=values, conditions=(*manifest.conditions, Expression("bm != 192")))
    problem = Gemm.parse(shape="1024x1024x1024")
    with pytest.raises(DoesNotFitError, match="bm != 192"):
        guarded.fit(problem, "sm_90", parameters={"bm": 192, "bn": 128})
