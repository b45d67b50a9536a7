"""Each operation of BOO's is a program that IREE reads; `python -m benchmarks.boo` tunes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from iree.compiler import ir

from benchmarks.boo import SIGNATURES, written


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_is_a_program(name: str, tmp_path: Path) -> None:
    with ir.Context():
        module = ir.Module.parse(written(name, tmp_path, dtype="bf16").read_text())
        assert module.operation.verify()
