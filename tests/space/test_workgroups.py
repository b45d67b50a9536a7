"""A workgroup's tile and the number of workgroups, by the knobs of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from iree.compiler import ir

from autotuner.iree.mlir import text_context
from autotuner.problems import Gemm, Problem
from autotuner.space import workgroups
from autotuner.space.table import ABSENT, Value
from autotuner.tuning.plan import Plan

MakePlan = Callable[[Problem, str], Plan]


@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_they_are_what_the_compilers_configuration_says(make_plan: MakePlan, target: str) -> None:
    problem = Gemm.parse(shape="512x2048x256", dtype="f16")
    plan = make_plan(problem, target)
    sample = plan.space.sample(60, np.random.default_rng(0))
    configs = [plan.space[int(row)] for row in sample]
    assert len({config["pipeline"] for config in configs}) > 1
    found = workgroups.of_configs([config.as_dict() for config in configs], problem.variables())
    assert (found == workgroups.of_rows(plan.space, sample, problem.variables())).all()
    for config, (rows, columns, count) in zip(configs, 2**found, strict=True):
        info = plan.candidate(config, id="c").info
        assert info is not None
        with text_context():
            m, n, *_ = ir.Attribute.parse(info.lowering_config).workgroup_tile_sizes
        assert (rows, columns) == (m, n)
        assert round(count) == -(-512 // m) * -(-2048 // n)


def test_of_kernels_without_such_knobs_nothing_is_known() -> None:
    configs: list[dict[str, Value]] = [{"tile_m": 8}, {"tile_m": 64}, {"wg_0": 16, "wg_1": ABSENT}]
    assert (workgroups.of_configs(configs, {"m": 512, "n": 512}) == 0.0).all()
    assert (workgroups.of_configs([{"wg_0": 16, "wg_1": 16}], {"batch": 2, "m": 8, "k": 4}) == 0.0).all()
    assert workgroups.of_configs([], {"m": 512, "n": 512}).shape == (0, workgroups.QUANTITIES)
