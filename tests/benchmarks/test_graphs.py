"""Variants of a kernel in CUDA graphs: what can be told of it without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.problems import Gemm
from benchmarks.graphs import CLASSES, build, draw, main
from tests.support.arguments import parse_arguments
from tests.support.cuda_kernel import needs_nvrtc

RECORDED = Path(__file__).parents[2] / "results/reference/h200/triton_variants.csv"
PROBLEM = Gemm.parse(shape="16x1024x512", epilogue="bias")


@needs_nvrtc
def test_variants_are_built_as_they_are_launched() -> None:
    wanted = {"bm": "64", "bn": "16", "both": "0", "fill": "1"}
    (named,) = build(PROBLEM, "gemm_cuda", first=4, wanted=[wanted])
    assert wanted.items() <= {name: str(value) for name, value in named.config.items}.items()
    assert "bm=64 bn=16" in named.words
    (first,) = build(PROBLEM, "gemm_cuda", first=1, wanted=[])
    for instance in (named.instance, first.instance):
        (cubin,) = instance.objects
        assert cubin.read_bytes().startswith(b"\x7fELF")
        assert [binding.access for binding in instance.bindings] == ["read", "read", "read", "write"]
        assert instance.local_memory > 0


def test_a_problem_that_no_variant_takes_has_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert build(Gemm.parse(shape="16x1024x64"), "gemm_cuda", first=1, wanted=[]) == []
    assert "k >= 256" in capsys.readouterr().err


@needs_nvrtc
def test_the_file_has_the_columns_of_what_was_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing can be launched, or a kernel breaks, it has no rows."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    out = tmp_path / "out.csv"
    main([str(out), "--problem", " ".join(PROBLEM.arguments()), "--first", "1"])
    assert out.read_text().splitlines() == RECORDED.read_text().splitlines()[:1]


def test_products_of_every_class_are_drawn_and_a_seed_draws_the_same_ones() -> None:
    drawn = list(draw(23, 2 * len(CLASSES)))
    assert drawn == list(draw(23, 2 * len(CLASSES))) != list(draw(11, 2 * len(CLASSES)))
    recorded = RECORDED.with_name("products.txt").read_text()
    problems = [parse_arguments(words.split()) for words in drawn]
    for words, problem in zip(drawn, problems, strict=True):
        assert isinstance(problem, Gemm)
        assert f"{problem.m}x{problem.n}x{problem.k}" in words
    shapes = [words.removeprefix("gemm --shape ").partition(" --allow")[0] for words in drawn]
    assert sum(f"| {shape} |" in recorded for shape in shapes) == len(shapes) - 1  # one of the small was refused then
    assert {problem.dtype for problem in problems if isinstance(problem, Gemm)} == {"f16", "bf16", "f8"}
