"""All that is particular about a backend is said by its object; nobody else compares names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import autotuner
from autotuner.specfiles.flagfile import objection
from autotuner.specfiles.vetting import FORMATS
from autotuner.targets import all_targets
from autotuner.targets.backends import BACKENDS, LLVM_CPU, Backend, backend_of, backend_on, spec_flag_for

PACKAGE = Path(autotuner.__file__).parent


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: backend.name)
def test_a_backend_is_complete(backend: Backend) -> None:
    chips = [target.name for target in all_targets() if target.backend is backend]
    assert chips
    for chip in chips:
        flags = backend.flags(chip)
        assert objection(flags) == ""
        assert any(flag.endswith(f"={chip}") for flag in flags)
        assert backend_of(chip) is backend
    assert objection([f"{backend.spec_flag}=spec.mlir"]) == ""
    assert spec_flag_for(backend.hal_device) == backend.spec_flag
    assert backend.on_host or backend.executable_format in FORMATS
    assert backend.on_host == (not backend.chips) == (not backend.chip_prefix)
    assert backend.device in backend.drivers
    for driver in backend.drivers:
        assert backend_on(f"{driver}://0?x=1") is backend_on(driver) is backend
    assert backend.remedy.endswith(".")


def test_names_of_chips_and_devices_tell_backends_apart() -> None:
    assert len({backend.hal_device for backend in BACKENDS}) == len(BACKENDS)
    assert len({backend.name for backend in BACKENDS}) == len(BACKENDS)
    assert backend_on("none") is backend_on("metal://0") is None
    assert backend_of("x86_64") is backend_of("aarch64") is LLVM_CPU


def test_nobody_compares_a_targets_backend_by_name() -> None:
    compared = []
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)) if "backend" in text else ():
            if isinstance(node, ast.Compare) and "backend.name" in ast.unparse(node):
                compared.append(f"{path.relative_to(PACKAGE)}: {ast.unparse(node)}")
    assert compared == []
