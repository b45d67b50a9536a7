"""The declared space of attention on NVIDIA GPUs, against real compiles."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from iree.compiler.dialects import iree_codegen, iree_gpu  # noqa: F401  (importing registers the dialects)

from autotuner.build import Builder, BuildJob
from autotuner.carriers.render import spec_mlir
from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.mlir import read_root
from autotuner.problems import Attention
from autotuner.problems.render import problem_mlir
from autotuner.space import Config, Space
from autotuner.space.gpu_attention import AttentionSpace
from autotuner.space.prune import REGISTERS, UNDERIVABLE
from autotuner.targets import Target
from tests.support.frames import frame

Emit = Callable[..., str]
LARGE = ("attention", "sm_80", 8, 1024, 128, 1024)
SMALL = ("attention", "sm_80", 8, 256, 64, 256)


def _legal(emit: Emit, *problem: str | int) -> Space:
    return AttentionSpace.read(emit(*problem), rules=()).space


def test_tiles_are_whole_instructions_for_every_subgroup(emit: Emit) -> None:
    space = AttentionSpace.read(emit(*LARGE))
    table = frame(space.space).drop(columns=["pipeline", "mma", "reorder_workgroups"]).astype(int)
    assert (table["m_tile"] % (16 * table["sg_m_cnt"]) == 0).all()
    assert (table["n_tile"] % (8 * table["sg_n_cnt"]) == 0).all()
    assert (table["red_k2"] % 16 == 0).all()
    shared = 2 * 128 * (table["m_tile"] * table["promote_q"] + table["red_k2"] * table["promote_k"])
    assert (shared + 2 * table["red_k2"] * table["n_tile"] * table["promote_v"] <= 166912).all()
    assert len(AttentionSpace.read(emit(*LARGE), rules=(REGISTERS,)).space) < len(_legal(emit, *LARGE))
    assert set(space.space.counts("mma")) == {"NV_MMA_SYNC_F32_16x8x16_F16"}


def test_an_operand_that_is_not_promoted_needs_no_layout(emit: Emit) -> None:
    """48 keys cannot be spread over 256 threads, which matters only when they go through shared memory."""
    space = AttentionSpace.read(emit("attention", "sm_80", 8, 256, 64, 192))
    legal = _legal(emit, "attention", "sm_80", 8, 256, 64, 192)
    assert len(AttentionSpace.read(emit("attention", "sm_80", 8, 256, 64, 192), rules=(UNDERIVABLE,)).space) < len(
        legal
    )
    table = frame(space.space)
    odd = table[(table["red_k2"] == 48) & (table["sg_m_cnt"] == 8) & (table["sg_n_cnt"] == 1)]
    assert len(odd) > 0
    assert set(odd["promote_k"]) == {0}


def test_what_has_no_instruction_or_no_tile_says_so(emit: Emit) -> None:
    with pytest.raises(NoCandidateError, match="no dispatch of this module is an attention"):
        AttentionSpace.read(emit("gemm", "sm_80", 128, 128, 128))
    odd = AttentionSpace.read(emit("attention", "sm_80", 8, 77, 64, 77))
    with pytest.raises(NoCandidateError, match="no tile"):
        len(odd.space)
    space = AttentionSpace.read(emit(*SMALL))
    with pytest.raises(UsageError, match="not a legal configuration"):
        space.compilation_info(Config.of({**space.space[0].as_dict(), "m_tile": 17}))


def test_random_configurations_build_and_apply(builder: Builder) -> None:
    target = Target.parse("sm_80")
    problem = Attention.parse(shape="1x8x256x256x64", dtype="bf16")
    source = problem_mlir(problem)
    text = builder.inspect(source, [*target.compile_flags, "--iree-codegen-add-tuner-attributes"], timeout=120.0)
    dispatch = read_root(text)
    assert dispatch is not None
    space = AttentionSpace.read(text)
    for row in space.space.sample(1, np.random.default_rng(1)):
        info = space.compilation_info(space.space[int(row)])
        job = BuildJob(
            program=source,
            flags=target.compile_flags,
            timeout=120.0,
            spec=spec_mlir(name=problem.name, dispatch=dispatch, info=info),
            spec_flag=target.spec_flag,
            expected=info,
        )
        build = builder.build(job)
        assert build.ok, build.stderr
        assert build.applied == 1
