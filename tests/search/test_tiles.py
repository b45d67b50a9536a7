"""A workgroup's tile and the number of workgroups, by the knobs of a kernel."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from iree.compiler import ir

from autotuner.iree.context import text_context
from autotuner.problems import Gemm, Problem
from autotuner.search.history import Earlier, Shape, suggest
from autotuner.search.tiles import alike, tilings
from autotuner.space.table import Knob, Space
from autotuner.tuning.plan import Plan

MakePlan = Callable[[Problem, str], Plan]


@pytest.mark.versions
@pytest.mark.parametrize("target", ["sm_80", "gfx942"])
def test_they_are_what_the_compilers_configuration_says(make_plan: MakePlan, target: str) -> None:
    problem = Gemm.parse(shape="512x2048x256", dtype="f16")
    plan = make_plan(problem, target)
    configs = [plan.space[int(row)] for row in plan.space.sample(60, np.random.default_rng(0))]
    assert len({config["pipeline"] for config in configs}) > 1
    found = tilings([config.as_dict() for config in configs], problem.variables())
    for config, (rows, columns, workgroups) in zip(configs, 2**found, strict=True):
        info = plan.candidate(config, id="c").info
        assert info is not None
        with text_context():
            m, n, *_ = ir.Attribute.parse(info.lowering_config).workgroup_tile_sizes
        assert (rows, columns) == (m, n)
        assert round(workgroups) == -(-512 // m) * -(-2048 // n)


def test_kernels_without_such_knobs_are_all_alike() -> None:
    found = tilings([{"tile_m": 8}, {"tile_m": 64}, {"wg_0": 16, "wg_1": -1}], {"m": 512, "n": 512})
    assert (alike(found, found) == 1.0).all()
    assert (tilings([{"wg_0": 16, "wg_1": 16}], {"batch": 2, "m": 8, "k": 4}) == 0.0).all()


def test_what_is_suggested_has_as_many_workgroups_as_what_was_fast_for_other_shapes() -> None:
    sides = (16, 32, 64, 128, 256)
    space = Space.product([Knob("wg_0", sides), Knob("wg_1", sides)])

    def us(rows: int, columns: int, m: int) -> float:
        return 10.0 * (1.0 + abs(float(np.log2(m * 1024 / (rows * columns) / 128))))

    def run(m: int) -> Earlier:
        configs = [config.as_dict() for config in space]
        times = [us(int(c["wg_0"]), int(c["wg_1"]), m) for c in configs]
        return Earlier(f"run {m}", Shape("contraction", ("f16",), {"m": m, "n": 1024}), configs, times)

    here = Shape("contraction", ("f16",), {"m": 256, "n": 1024})
    found = suggest(space, here, [run(64), run(128), run(1024), run(2048)], count=6).configs
    assert min(us(int(c["wg_0"]), int(c["wg_1"]), 256) for c in found[1:4]) == 10.0
