"""A spec written anew: with fewer entries, or another provenance."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.carriers.microkernel import spec_mlir as microkernel_spec
from autotuner.carriers.provenance import Provenance
from autotuner.problems import Gemm
from autotuner.specfiles.entries import read, read_spec
from autotuner.specfiles.renew import renew
from tests.support.spec_files import TIMED, microkernel_call

ENCODER = Path(__file__).parents[2] / "results/reference/h200/encoder/encoder-sm_80.mlir"
SPEC = ENCODER.read_text()
NAMES = [entry.name for entry in read_spec(SPEC).entries]


@pytest.mark.parametrize("left", [[0, 1, 2, 3], [1, 3], [2]])
def test_entries_that_are_dropped_are_gone_and_the_others_are_as_they_were(left: list[int]) -> None:
    kept = {NAMES[i]: Provenance(problem=f"p{i}", earlier="IREE 3.12") for i in left}
    text = renew(ENCODER, kept, header=["Spec by autotune"])
    assert text.startswith("// Spec by autotune\n")
    before = {entry.name: entry for entry in read_spec(SPEC).entries}
    found = read_spec(text).entries
    assert [entry.name for entry in found] == [NAMES[i] for i in left]
    for entry in found:
        assert entry.provenance == kept[entry.name]
        old = before[entry.name]
        assert (entry.key, entry.compilation_info) == (old.key, old.compilation_info)


@pytest.fixture
def kernels(tmp_path: Path) -> str:
    """Two kernels that are looked for one after the other; the first is called through a function that only calls."""
    problems = {"first": Gemm.parse(shape="64x96x32", epilogue="bias"), "second": Gemm.parse(shape="64x96x48")}
    calls = [microkernel_call(tmp_path, gemm, symbol=name) for name, gemm in problems.items()]
    text = microkernel_spec(calls, provenances=[TIMED] * 2)
    head = next(line for line in text.splitlines() if "util.func private @autotune_microkernel_0(" in line)
    types = "tensor<64x32xf16>, tensor<32x96xf16>, tensor<96xf32>"
    outer = f"""{head.replace("_0(", "_0_flat_0(")}
    %called = util.call @autotune_microkernel_0(%arg0, %arg1, %arg2) : ({types}) -> tensor<64x96xf32>
    util.return %called : tensor<64x96xf32>
  }}
{head}"""
    imports = "transform.util.import_symbol @autotune_microkernel_0{} into %module if undefined"
    whole = "%function = " + imports.format("")
    kind = " : (!transform.any_op) -> !transform.any_op\n    "
    both = "%inner = " + imports.format("") + kind + "%function = " + imports.format("_flat_0")
    assert whole in text
    return text.replace(head, outer).replace(whole, both)


def test_what_only_calls_a_kernel_is_no_entry(kernels: str) -> None:
    assert [entry.name for entry in read_spec(kernels).entries] == ["first", "second"]


@pytest.mark.parametrize("left", ["first", "second"])
def test_a_kernel_that_was_looked_for_alone_can_be_dropped(kernels: str, left: str, tmp_path: Path) -> None:
    path = tmp_path / "kernels.mlir"
    path.write_text(kernels)
    ids = {entry.name: entry.id for entry in read_spec(kernels).entries}
    text = renew(path, {ids[left]: Provenance(problem="p")}, header=["Spec"])
    assert [entry.name for entry in read_spec(text).entries] == [left]
    assert text.count("transform.foreach_match in") == 1


@pytest.mark.parametrize("left", [0, 1])
def test_of_two_shapes_that_share_a_kernel_one_can_be_dropped(kernels: str, left: int, tmp_path: Path) -> None:
    path = tmp_path / "kernels.mlir"
    path.write_text(kernels.replace('"second"', '"first"'))
    before = read(path).entries
    assert [entry.name for entry in before] == ["first", "first"]
    text = renew(path, {before[left].id: Provenance(problem="p")}, header=["Spec"])
    (entry,) = read_spec(text).entries
    assert (entry.key, entry.provenance) == (before[left].key, Provenance(problem="p"))
