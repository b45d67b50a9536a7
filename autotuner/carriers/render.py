"""The one Jinja environment of MLIR: its text is made here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Literal

import jinja2

from autotuner.carriers.provenance import ENTRY, Provenance
from autotuner.iree.mlir import Dispatch
from autotuner.problems import Problem
from autotuner.problems.base import FUNCTION
from autotuner.space.cpu import CpuTiling
from autotuner.space.gpu_config import CompilationInfo
from autotuner.system.templates import templates

VECTOR_LEVEL = "vector_common_parallel"
MARKER = "__autotune_applied__"
STAYS = "__autotune_stays__"
"""On a convolution that a spec keeps out of im2col."""
Rows = tuple[int | None, int | None]
"""The least and the greatest M; None: without an end."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")


def problem_mlir(problem: Problem) -> str:
    """The problem as a module of one function."""
    values = dict(problem.template_values())
    return _environment().get_template(problem.template).render(function=_name(FUNCTION), **values)


def cpu_compilation_info(tiling: CpuTiling) -> CompilationInfo:
    macros = _environment().get_template("cpu_config.mlir.j2").module
    return CompilationInfo(
        lowering_config=str(macros.lowering_config(tiling)),  # type: ignore[attr-defined]
        translation_info=str(macros.translation_info(tiling)),  # type: ignore[attr-defined]
    )


def fused_configs(tiling: CpuTiling, dispatch: Dispatch) -> dict[int, str]:
    """The lowering_config of operations that are fused with the root, by their rank: the root's vectors."""
    macros = _environment().get_template("cpu_config.mlir.j2").module
    vector = dict(tiling.levels)[VECTOR_LEVEL]
    tiles = {len(loops): tuple(vector[loop] for loop in loops) for loops in dispatch.outputs}
    configs = {rank: replace(tiling, levels=((VECTOR_LEVEL, sizes),)) for rank, sizes in tiles.items()}
    return {rank: str(macros.lowering_config(config)) for rank, config in configs.items()}  # type: ignore[attr-defined]


def spec_mlir(
    *,
    name: str,
    dispatch: Dispatch,
    info: CompilationInfo | None,
    header: Sequence[str] = (),
    provenance: Provenance | None = None,
    rows: Rows | None = None,
) -> str:
    """A tuning spec that puts `info` on exactly this operation; with `rows`, on every one whose M is in that range.

    Without `info` what it matches keeps the compiler's own choice, whatever matchers come later.
    `header` becomes its leading comment, `provenance` an attribute of its matcher, which lasts longer.
    """
    for line in header:
        if "\n" in line or "\r" in line:
            raise ValueError(f"a header line holds a line break: {line!r}")
    return (
        _environment()
        .get_template("spec.mlir.j2")
        .render(
            name=_name(name),
            dispatch=dispatch,
            info=info,
            marker=MARKER,
            header=header,
            provenance_name=ENTRY,
            provenance=provenance.attribute() if provenance else "",
            range=_range(dispatch, rows) if rows else None,
        )
    )


def _range(dispatch: Dispatch, rows: Rows) -> dict[str, int | None]:
    """The dimension of the result that M is, and its bounds."""
    if dispatch.kind != "contraction" or dispatch.typed or len(dispatch.dims("m")) != 1:
        raise ValueError(f"{dispatch.op} has no single M whose range could be matched")
    return {"axis": dispatch.outputs[0].index(dispatch.dims("m")[0]), "low": rows[0], "high": rows[1]}


def dynamic_gemm_mlir(problem: Problem, *, rows: Rows) -> str:
    """The same product with an M that is known only when it runs, but to be in this range."""
    values = dict(problem.template_values())
    return (
        _environment()
        .get_template("gemm_dynamic.mlir.j2")
        .render(function=_name(FUNCTION), problem=problem, low=rows[0], high=rows[1], **values)
    )


def stream_mlir(rows: int, columns: int) -> str:
    """A program that moves this many floats from memory and back."""
    text = _environment().get_template("stream.mlir.j2")
    return text.render(function=_name(FUNCTION), type=f"tensor<{rows}x{columns}xf32>")


def pieces_mlir(pieces: Sequence[object], *, header: Sequence[str]) -> str:
    """A preprocessing spec of the convolutions that stay out of im2col, each by its operation and types."""
    return _environment().get_template("pieces.mlir.j2").render(pieces=pieces, header=header, marker=STAYS)


def microkernel_mlir(template: Literal["spec", "rewrite", "prepared", "joined"], **values: object) -> str:
    """What calls a hand-written kernel; names and paths in `values` are checked by who gives them."""
    return _environment().get_template(f"microkernel_{template}.mlir.j2").render(**values)


def _name(text: str) -> str:
    """A name that reaches MLIR: letters, digits and underscores only."""
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} cannot be a symbol in MLIR")
    return text


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(templates()),
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
    )
