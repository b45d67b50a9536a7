"""A default spec for IREE's tree: iree-opt takes it and its test, and the test fails without the spec's entry."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner.carriers.carrier import FileHeader
from autotuner.carriers.provenance import Provenance
from autotuner.errors import NoCandidateError
from autotuner.iree.tools import Tools
from autotuner.jobs.registry.export import APPLIED, export
from autotuner.problems import Gemm, Problem
from autotuner.registry import Registry
from autotuner.targets import Target
from autotuner.tuning.plan import Plan
from tests.support.registries import entry

PROBLEM = Gemm.parse(shape="256x512x128", layout="nt")


def test_a_default_spec_and_its_test_are_taken_by_iree_opt(
    tmp_path: Path, tools: Tools, make_plan: Callable[[Problem, str], Plan]
) -> None:
    plan = make_plan(PROBLEM, "gfx942")
    candidate = plan.candidate(plan.first[0], id="c0")
    text = candidate.carrier.parts(FileHeader((), Provenance(problem=PROBLEM.name, target="gfx942"))).spec or ""
    own = {"chip": "gfx942", "sku": "AMD Instinct MI300X", "problem": PROBLEM.name, "kernel": ""}
    registry = Registry((entry(**own, carrier="spec", spec=tuple(text.splitlines())),))
    done = export(registry, Target.parse("gfx942"), tmp_path, tools)
    spec = done.spec.read_text()
    assert spec.startswith("// RUN: iree-opt %s\n")
    assert "module @iree_default_tuning_spec_gfx942 attributes {iree_codegen.tuning_spec_with" in spec
    assert f'"{APPLIED}"' in spec
    assert "autotune" not in spec
    lines = [line.removeprefix("// RUN:").rstrip("\\") for line in done.test.read_text().splitlines() if "RUN:" in line]
    words = " ".join(lines).partition("|")[0].replace("%p", str(tmp_path)).replace("%s", str(done.test)).split()
    command = [str(tools.iree_opt), *(word.strip('"') for word in words[1:])]
    done_once = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert done_once.stdout.count(APPLIED) == 1
    done.spec.write_text(spec.replace("[256]", "[257]"))
    assert APPLIED not in subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def test_what_only_kernels_or_flags_can_do_is_not_exported(tmp_path: Path, tools: Tools) -> None:
    with pytest.raises(NoCandidateError, match="no tuning spec for cpu"):
        export(Registry((entry(),)), Target.parse("cpu"), tmp_path, tools)
