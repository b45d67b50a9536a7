"""Variants of a kernel in CUDA graphs: what can be told of it without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.problems import Gemm
from benchmarks.graphs import build, main
from tests.support.cuda_kernel import needs_nvrtc

RECORDED = Path(__file__).parents[2] / "results/reference/h200/triton_variants.csv"
PROBLEM = Gemm.parse(shape="16x1024x512", epilogue="bias")


@needs_nvrtc
def test_variants_are_built_as_they_are_launched() -> None:
    wanted = {"bm": "64", "bn": "16", "fill": "1"}
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
