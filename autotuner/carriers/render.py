"""Renders tuning specs, and executables with a configuration in them for operations that no spec reaches.

iree-compile takes such an executable in place of the dispatch of the same name, so it belongs to one program and one
set of flags.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from iree.compiler import ir

from autotuner.carriers.provenance import ENTRY, Provenance
from autotuner.iree.mlir import Dispatch, enclosing, parse, root_of, symbol, walk
from autotuner.problems.render import Rows
from autotuner.space.cpu import CpuTiling
from autotuner.space.dispatch import CompilationInfo
from autotuner.system.templates import render, template_of

VECTOR_LEVEL = "vector_common_parallel"
MARKER = "__autotune_applied__"
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
    """The lines of a leading comment; none can end it."""
    for line in header:
        if "\n" in line or "\r" in line:
            raise ValueError(f"a header line holds a line break: {line!r}")
    return header


def _range(dispatch: Dispatch, rows: Rows) -> dict[str, int | None]:
    """The result's dimension of M, and its bounds."""
    if dispatch.kind != "contraction" or dispatch.typed or dispatch.scaled or len(dispatch.dims("m")) != 1:
        raise ValueError(f"{dispatch.op} has no single M whose range could be matched")
    return {"axis": dispatch.outputs[0].index(dispatch.dims("m")[0]), "low": rows[0], "high": rows[1]}


SUBSTITUTION = "--iree-hal-substitute-executable-configuration"


@dataclass(frozen=True, slots=True)
class Executable:
    """A configured executable as the compiler dumps it, and the name by which it is substituted."""

    name: str
    text: str

    @property
    def flag(self) -> str:
        """The flag up to the name of the file."""
        return f"{SUBSTITUTION}={self.name}"


def find_executable(texts: Iterable[str]) -> Executable | None:
    """The dumped executable whose root operation has the most work."""
    found: list[tuple[int, Executable]] = []
    with ir.Context() as context:
        for text in texts:
            module = parse(text, context)
            root = root_of(module.operation)
            executable = next((op for op in walk(module.operation) if op.name == "hal.executable"), None)
            if root is not None and executable is not None:
                found.append((root[1].work, Executable(symbol(executable), text)))
    return max(found, key=lambda pair: pair[0])[1] if found else None


def configure(
    executable: Executable,
    info: CompilationInfo,
    *,
    fused: Mapping[int, str],
    marker: str,
    header: Iterable[str] = (),
    provenance: Provenance | None = None,
) -> str:
    """The executable with this configuration and a marker on its root operation.

    `fused` has the lowering_config of the other operations of the dispatch, by the number of their loops: they must
    follow the root's tiles.
    """
    with ir.Context() as context:
        module = parse(executable.text, context)
        found = root_of(module.operation)
        if found is None:
            raise ValueError(f"{executable.name} has no operation to configure")
        root, _ = found
        function = enclosing(root, "translation_info")
        for op in walk(function):
            if op != root and "lowering_config" in op.attributes:
                rank = ir.ShapedType(op.results[0].type).rank
                if rank in fused:
                    op.attributes["lowering_config"] = ir.Attribute.parse(fused[rank])
        root.attributes["lowering_config"] = ir.Attribute.parse(info.lowering_config)
        root.attributes[marker] = ir.UnitAttr.get()
        del root.attributes["root_op"]
        if provenance is not None:
            whole = next(op for op in walk(module.operation) if op.name == "hal.executable")
            whole.attributes[ENTRY] = ir.Attribute.parse(provenance.attribute())
        function.attributes["translation_info"] = ir.Attribute.parse(info.translation_attribute)
        # With locations in it: otherwise the file's own name and lines end up in the binary, which then is another one
        # wherever the file lies.
        text: str = module.operation.get_asm(enable_debug_info=True)
        return "".join(f"// {line}\n" for line in header) + text
