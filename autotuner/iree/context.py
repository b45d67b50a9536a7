"""Where attributes and types are read from text, or written."""

from __future__ import annotations

from functools import cache

from iree.compiler import ir


@cache
def text_context() -> ir.Context:
    """One for all of them: to make a context takes longer than to read a thousand attributes.

    What was read stays in it, which is little. Modules are larger, and each gets a context of its own.
    """
    return ir.Context()
