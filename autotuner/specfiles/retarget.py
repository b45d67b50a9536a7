"""Executables in spec files, for the compiler of today.

A microkernel of a processor, and a configured executable, name what the compiler took the processor for. Another
release knows of more features: its own executables then have another target, IREE links those of one target together,
and the module that comes of two does not run.
"""

from __future__ import annotations

from iree.compiler import ir

from autotuner.iree.mlir import walk
from autotuner.specfiles.entries import parse_spec, text_of

_VARIANT = "hal.executable.variant"


def retargeted(text: str, target: str, *, name: str) -> str | None:
    """The text with this executable target wherever one is named; None where it is the same already.

    `target` is what the compiler says (`executable_target`). Comments are not kept.
    """
    with ir.Context() as context, ir.Location.unknown():
        module = parse_spec(text, context, name=name)
        wanted = ir.Attribute.parse(target)
        others = [op for op in walk(module.operation) if op.name == _VARIANT and op.attributes["target"] != wanted]
        for op in others:
            op.attributes["target"] = wanted
        return text_of(module, name=name) if others else None
