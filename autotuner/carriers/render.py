"""The texts of tuning specs, and of the configurations in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from autotuner.carriers.provenance import ENTRY, Provenance
from autotuner.iree.mlir import Dispatch
from autotuner.problems.render import Rows
from autotuner.space.cpu import CpuTiling
from autotuner.space.gpu_config import CompilationInfo
from autotuner.system.templates import render, template_of

VECTOR_LEVEL = "vector_common_parallel"
MARKER = "__autotune_applied__"
STAYS = "__autotune_stays__"
"""On a convolution that a spec keeps out of im2col."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")


def cpu_compilation_info(tiling: CpuTiling) -> CompilationInfo:
    return CompilationInfo(
        lowering_config=_config("lowering_config", tiling), translation_info=_config("translation_info", tiling)
    )


def fused_configs(tiling: CpuTiling, dispatch: Dispatch) -> dict[int, str]:
    """The lowering_config of operations that are fused with the root, by their rank: the root's vectors."""
    vector = dict(tiling.levels)[VECTOR_LEVEL]
    tiles = {len(loops): tuple(vector[loop] for loop in loops) for loops in dispatch.outputs}
    configs = {rank: replace(tiling, levels=((VECTOR_LEVEL, sizes),)) for rank, sizes in tiles.items()}
    return {rank: _config("lowering_config", config) for rank, config in configs.items()}


def _config(macro: str, tiling: CpuTiling) -> str:
    return str(getattr(template_of("cpu_config.mlir.j2").module, macro)(tiling))


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
    if not _NAME.fullmatch(name):  # letters, digits and underscores only
        raise ValueError(f"{name!r} cannot be a symbol in MLIR")
    return render(
        "spec.mlir.j2",
        name=name,
        dispatch=dispatch,
        info=info,
        marker=MARKER,
        header=checked(header),
        provenance_name=ENTRY,
        provenance=provenance.attribute() if provenance else "",
        range=_range(dispatch, rows) if rows else None,
    )


def checked(header: Sequence[str]) -> Sequence[str]:
    """The lines of a leading comment, which none of them can leave."""
    for line in header:
        if "\n" in line or "\r" in line:
            raise ValueError(f"a header line holds a line break: {line!r}")
    return header


def _range(dispatch: Dispatch, rows: Rows) -> dict[str, int | None]:
    """The dimension of the result that M is, and its bounds."""
    if dispatch.kind != "contraction" or dispatch.typed or len(dispatch.dims("m")) != 1:
        raise ValueError(f"{dispatch.op} has no single M whose range could be matched")
    return {"axis": dispatch.outputs[0].index(dispatch.dims("m")[0]), "low": rows[0], "high": rows[1]}


def pieces_mlir(pieces: Sequence[object], *, header: Sequence[str]) -> str:
    """A preprocessing spec of the convolutions that stay out of im2col, each by its operation and types."""
    return render("pieces.mlir.j2", pieces=pieces, header=header, marker=STAYS)
