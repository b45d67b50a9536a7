"""The named suites hold the shapes that their users know."""

from __future__ import annotations

import pytest

from autotuner.errors import UsageError
from autotuner.jobs.suite.load import load, named, problems_of, suite_names
from autotuner.problems import Gemm
from autotuner.problems.attention import Attention
from tests.support.arguments import parse_arguments


def test_every_suite_has_its_problems_once_and_parses_from_its_own_words() -> None:
    assert sum(len(problems_of(name)) for name in suite_names()) == 754
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


def test_gpt4_is_split_at_64_flops_a_byte() -> None:
    memory, compute = (problems_of(f"gpt4-{name}") for name in ("memory", "compute"))
    assert len(memory + compute) == 27
    assert all(p.flops < 64 * p.bytes for p in memory)
    assert all(p.flops >= 64 * p.bytes for p in compute)


def test_llama70b_attention_is_f16_and_f8_under_a_gigabyte() -> None:
    problems = problems_of("llama70b-attention")
    assert {p.types[0] for p in problems} == {"f16", "f8"}
    assert max(p.bytes for p in problems) < 10**9
    assert all(isinstance(p, Attention) and p.width == 128 for p in problems)


def test_the_unet_convolution_gives_32x32x1280() -> None:
    (conv,) = problems_of("unet-conv")
    assert conv.output.shape == (2, 32, 32, 1280)


@pytest.mark.parametrize("word", ["llama70b attention", "Llama70B_Attention", " llama70b-attention "])
def test_a_suite_is_found_however_it_is_spelt(word: str) -> None:
    assert load(word).name == "llama70b-attention"


def test_a_misspelt_suite_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="Did you mean gpt4-compute"):
        load("gpt4-compte")


def test_a_sample_is_a_seeded_part_in_the_suites_own_order() -> None:
    workload = named("llama70b-skinny")
    sample = workload.sample(7, seed=3)
    assert sample == workload.sample(7, seed=3)
    assert sample != workload.sample(7, seed=4)
    places = [workload.entries.index(entry) for entry in sample.entries]
    assert len(places) == 7
    assert places == sorted(places)
    assert workload.sample(1000, seed=0) == workload


def test_the_digest_of_a_suite_is_that_of_its_problems() -> None:
    digests = {named(name).sha256 for name in suite_names()}
    assert len(digests) == len(suite_names())
    assert named("unet").sha256 == named("unet").sha256
