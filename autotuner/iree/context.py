"""Where attributes and types are read from text, or written."""

from __future__ import annotations

import threading
from functools import cache

from iree.compiler import ir

_PROGRAMS = 64
"""How many programs are read in one context: what it has read of them stays in it."""
_own = threading.local()


@cache
def text_context() -> ir.Context:
    """One for all of them: to make a context takes longer than to read a thousand attributes.

    What was read stays in it, which is little. Modules are larger, and each gets a context of its own.
    """
    return ir.Context()


def program_context() -> ir.Context:
    """This thread's, for the programs of many candidates: to make one takes thirty times as long as to read these."""
    if not getattr(_own, "left", 0):
        _own.context, _own.left = ir.Context(), _PROGRAMS
    _own.left -= 1
    context: ir.Context = _own.context
    return context
