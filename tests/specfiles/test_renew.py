"""A spec written anew: with fewer entries, another provenance, or executables for the compiler of today."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.carriers.provenance import Provenance
from autotuner.specfiles.entries import read_spec
from autotuner.specfiles.renew import renew
from autotuner.specfiles.retarget import retargeted

SPEC = (Path(__file__).parents[2] / "results/reference/h200/encoder/encoder-sm_80.mlir").read_text()
NAMES = [entry.name for entry in read_spec(SPEC).entries]
EXECUTABLE = """
hal.executable private @kernel {
  hal.executable.variant public @native target(#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "x"}>) {
    hal.executable.export public @kernel ordinal(0) layout(#hal.pipeline.layout<bindings = [
      #hal.pipeline.binding<storage_buffer>]>)
    builtin.module {
      func.func @kernel() {
        return
      }
    }
  }
}
"""


@pytest.mark.parametrize("left", [[0, 1, 2, 3], [1, 3], [2]])
def test_entries_that_are_dropped_are_gone_and_the_others_are_as_they_were(left: list[int]) -> None:
    kept = {NAMES[i]: Provenance(problem=f"p{i}", earlier="IREE 3.12") for i in left}
    text = renew(SPEC, kept, header=["Spec by autotune"], name="encoder")
    assert text.startswith("// Spec by autotune\n")
    before = {entry.name: entry for entry in read_spec(SPEC).entries}
    found = read_spec(text).entries
    assert [entry.name for entry in found] == [NAMES[i] for i in left]
    for entry in found:
        assert entry.provenance == kept[entry.name]
        old = before[entry.name]
        assert (entry.key, entry.compilation_info) == (old.key, old.compilation_info)


def test_executables_get_the_target_of_the_compiler_once() -> None:
    wanted = '#hal.executable.target<"llvm-cpu", "embedded-elf-x86_64", {cpu = "y"}>'
    text = retargeted(EXECUTABLE, wanted, name="kernel")
    assert text is not None
    assert 'cpu = "y"' in text
    assert 'cpu = "x"' not in text
    assert retargeted(text, wanted, name="kernel") is None
    assert retargeted(SPEC, wanted, name="encoder") is None, "a tuning spec names no executable"
