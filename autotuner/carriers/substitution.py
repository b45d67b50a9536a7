"""The second carrier: an executable with its configuration in it, for operations that a spec cannot reach.

iree-compile takes it in place of the dispatch of the same name, so it belongs to one program and one set of flags.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iree.compiler import ir

from autotuner.carriers.provenance import ENTRY, Provenance
from autotuner.iree.mlir import enclosing, parse, root_of, walk
from autotuner.space.gpu_config import CompilationInfo

FLAG = "--iree-hal-substitute-executable-configuration"


@dataclass(frozen=True, slots=True)
class Executable:
    """A configured executable as the compiler dumps it, and the name by which it is substituted."""

    name: str
    text: str

    @property
    def flag(self) -> str:
        """The flag up to the name of the file."""
        return f"{FLAG}={self.name}"


def find_executable(texts: Iterable[str]) -> Executable | None:
    """Of the dumped executables the one with the most work in its root operation."""
    found: list[tuple[int, Executable]] = []
    with ir.Context() as context:
        for text in texts:
            module = parse(text, context)
            root = root_of(module.operation)
            executable = next((op for op in walk(module.operation) if op.name == "hal.executable"), None)
            if root is not None and executable is not None:
                name = ir.StringAttr(executable.attributes["sym_name"]).value
                found.append((root[1].work, Executable(name, text)))
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
    """The executable with this configuration on its root operation, which is marked.

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
