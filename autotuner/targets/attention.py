"""IREE's attention for processors computes wrong results where heads are wide: what stands in for it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace

from autotuner.problems import Attention, Problem
from autotuner.targets.backends.llvm_cpu import LLVM_CPU
from autotuner.targets.base import Target, flag_name
from autotuner.targets.knobs import PLAIN, knobs_of, named_route

WIDEST_HEAD = 128
"""Of queries and keys. With more, the results of IREE 3.13's default are off by a third and more."""
_ROUTE = "decomposed"


def decomposed_attention() -> tuple[str, ...]:
    """The flags that make products and reductions of attention: right on processors, whatever the width."""
    return named_route(knobs_of(LLVM_CPU.name), _ROUTE).flags


def right_target(problem: Problem, target: Target) -> tuple[Target, str]:
    """The target on which IREE computes this problem rightly, and what to tell the user."""
    return without_wrong_attention(target, [problem.width] if isinstance(problem, Attention) else [])


def without_wrong_attention(target: Target, widths: Iterable[int]) -> tuple[Target, str]:
    """The target for a program of such heads, and what to tell the user; the same and nothing where all is well.

    Decomposed attention is right, whatever the width: its flags become part of every compile.
    """
    widest = max(widths, default=0)
    known = {setting.name for knob in target.knobs for setting in knob.settings}
    if not target.backend.on_host or widest <= WIDEST_HEAD or _ROUTE not in known:
        return target, ""
    flags = decomposed_attention()
    names = {flag_name(flag) for flag in flags}
    # Routes that build on it keep what they add.
    on_top = [r for r in target.routes if _ROUTE in r.settings and r.name != _ROUTE]
    routes = tuple(replace(r, flags=tuple(f for f in r.flags if flag_name(f) not in names)) for r in on_top)
    right = replace(target.with_flags([*target.user_flags, *flags]), routes=(PLAIN, *routes), stand_in=_ROUTE)
    return right, (
        f"IREE's attention for processors is wrong for heads wider than {WIDEST_HEAD} (here {widest}): "
        f"route {_ROUTE} stands in for the default, and its flags ship with a win; without one compile with "
        f"{shlex.join(flags)}, not with IREE's own default"
    )
