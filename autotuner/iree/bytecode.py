"""A module's bytes from a program that is compiled to the end, by the compiler's library in this very process.

A process that is started for it takes fifteen times as long, nearly all of it its start. No pass is run here: what
could crash or hang, the code generation, has happened in a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterable


def reads(flags: Iterable[str]) -> bool:
    """Whether one of these flags may have to do with a module's bytes; a file of flags may have any."""
    return any(flag.startswith("@") or flag.lstrip("-").startswith("iree-vm-") for flag in flags)


def module_bytes(program: bytes) -> bytes | None:
    """What iree-compile writes of it without flags; None where it is refused."""
    from iree.compiler.api import Output, Session, Source  # imported where it is used: it sets up the whole compiler

    with Session() as session, Source.wrap_buffer(session, program) as source, session.invocation() as invocation:
        if not invocation.parse_source(source):
            return None
        with Output.open_membuffer() as output:
            try:
                invocation.output_vm_bytecode(output)
            except ValueError:
                return None
            return bytes(output.map_memory())
