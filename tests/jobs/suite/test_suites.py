"""The named suites hold the shapes that their users know."""

from __future__ import annotations

import pytest

from autotuner.errors import UsageError
from autotuner.jobs.suite.load import load, named, problems_of, suite_names
from autotuner.problems import Gemm
from tests.support.arguments import parse_arguments


def test_every_suite_has_its_problems_once_and_parses_from_its_own_words() -> None:
    assert sum(len(problems_of(name)) for name in suite_names()) == 1034
    for name in suite_names():
        problems = problems_of(name)
        assert len({problem.name for problem in problems}) == len(problems)
        for problem in problems:
            assert parse_arguments(problem.arguments()) == problem


def test_llama_is_divided_by_tensor_parallelism_where_it_is_sharded() -> None:
    shapes = {(p.m, p.n, p.k) for p in problems_of("llama70b-matvec") if isinstance(p, Gemm)}
    assert {(m, 1, 8192) for m in (32000, 10240, 8192, 57344)} | {(8192, 1, 28672)} <= shapes
    assert {(4000, 1, 8192), (1280, 1, 8192), (8192, 1, 1024), (7168, 1, 8192), (8192, 1, 3584)} <= shapes
    assert (5120, 1, 1728) in {(p.m, p.n, p.k) for p in problems_of("llama13b-matvec") if isinstance(p, Gemm)}
    skinny = [p for p in problems_of("llama70b-skinny") if isinstance(p, Gemm)]
    assert {(p.m, 1, p.k) for p in skinny} == shapes
    assert {p.n for p in skinny} == {2, 4, 8, 16, 32}
    assert {(p.dtype, p.layout) for p in skinny} == {("f16", "tn"), ("bf16", "tn")}


def test_a_suite_that_names_no_type_has_the_targets_usual_one() -> None:
    for dtype in ("f16", "f32"):
        assert all(f"_{dtype}" in entry.problem.name for entry in load("registry", dtype=dtype).entries)
    assert all("_f16" in entry.problem.name for entry in load("unet-conv", dtype="f32").entries)


@pytest.mark.parametrize("word", ["llama70b attention", "Llama70B_Attention", " llama70b-attention "])
def test_a_suite_is_found_however_it_is_spelt(word: str) -> None:
    assert load(word).name == "llama70b-attention"
    with pytest.raises(UsageError, match="Did you mean llama70b-attention"):
        load(f"{word}s")


def test_a_sample_is_a_seeded_part_in_the_suites_own_order() -> None:
    workload = named("llama70b-skinny")
    sample = workload.sample(7, seed=3)
    assert sample == workload.sample(7, seed=3)
    assert sample != workload.sample(7, seed=4)
    places = [workload.entries.index(entry) for entry in sample.entries]
    assert len(places) == 7
    assert places == sorted(places)
    assert workload.sample(1000, seed=0) == workload
    assert len({named(name).sha256 for name in suite_names()}) == len(suite_names())
