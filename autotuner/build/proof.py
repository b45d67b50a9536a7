"""Proves that a configuration was applied. iree-compile reports no matcher that never fires, so the dumps are read."""

from __future__ import annotations

from collections.abc import Iterable

from autotuner.carriers.render import MARKER
from autotuner.iree.mlir import read_applied, same_attributes
from autotuner.space.dispatch import CompilationInfo


def proven(texts: Iterable[str], expected: CompilationInfo) -> tuple[int, str]:
    """How many operations carry the marker and this very configuration, and what is wrong when none does.

    Both are needed: a pass after the spec may drop the lowering_config and leave the marker.
    """
    marked = read_applied(texts, marker=MARKER)
    if not marked:
        return 0, "the spec matched no operation: the marker is in no dumped configuration"
    wanted = expected.translation_attribute
    for found in marked:
        if not found.lowering_config:
            return 0, f"the marker is on {found.op}, but its lowering_config was dropped by a later pass"
        same_config, same_translation = same_attributes(
            [(found.lowering_config, expected.lowering_config), (found.translation_info, wanted)]
        )
        if not same_config:
            return 0, f"{found.op} has {found.lowering_config}, not the spec's {expected.lowering_config}"
        if not same_translation:
            return 0, f"the function has {found.translation_info}, not the spec's {wanted}"
        decomposition = expected.decomposition_config or ""
        if decomposition and not _same(found.decomposition_config, decomposition):
            return 0, f"{found.op} decomposes by {found.decomposition_config or 'nothing'}, not by {decomposition}"
    return len(marked), ""


def _same(found: str, expected: str) -> bool:
    return bool(found) and same_attributes([(found, expected)])[0]
