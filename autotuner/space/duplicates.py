"""Configurations that give the code of another one, each left out by a named rule: nobody has to build them to know.

The rules were found by comparing binaries (`python -m benchmarks.duplicates`). What they leave out differs in one knob
from what stays: the knob's plain value.
"""

from __future__ import annotations

import numpy as np

from autotuner.space.prune import RULES, Grid, Kernel, Mask, Rule

_CDNA_WAVE = 64
_TWO_WAVES, _FEW_REGISTERS = 2, 128


def _idle_request(kernel: Kernel) -> Mask:
    if not kernel.chip.cdna:
        return np.zeros(1, bool)
    simds, waves = max(kernel.chip.simds, 1), -(-kernel.threads // _CDNA_WAVE)
    # Shared memory is counted without padding, so there is never less room than this.
    possible: Grid = -(-(kernel.chip.shared_memory // np.maximum(kernel.shared, 1) * waves) // simds)
    idle: Mask = kernel.waves > possible
    return idle


def _turned_line(kernel: Kernel) -> Mask:
    return np.zeros(1, bool) if kernel.turned_line is None else kernel.turned_line > 0


def _no_padding(kernel: Kernel) -> Mask:
    if kernel.unpadded is None or kernel.padding is None:
        return np.zeros(1, bool)
    room = kernel.chip.shared_memory - kernel.shared
    no_room: Mask = (kernel.padding > room) & kernel.product
    idle: Mask = (kernel.unpadded > 0) & ((kernel.padding == 0) | no_room)
    return idle


def _few_registers(kernel: Kernel) -> Mask:
    if not kernel.chip.cdna or not kernel.product:
        return np.zeros(1, bool)
    held: Grid = kernel.staged // 4
    for tile in kernel.accumulators:
        held = held + tile.elements * tile.bits // 32
    few: Mask = (kernel.waves == _TWO_WAVES) & (held <= _FEW_REGISTERS * kernel.threads)
    return few


IDLE_REQUEST = Rule("waves", "the same as without a request: more waves than shared memory has room for", _idle_request)
"""LLVM ignores the request."""

FEW_REGISTERS = Rule(
    "registers", "the same as without a request: registers enough for two waves anyway", _few_registers
)
"""Two waves leave each thread 256 registers. What accumulators and prefetched operands need is known, the rest is not:
they may have half of them."""

TURNED_LINE = Rule("order", "the same as untransposed: all workgroups in one line", _turned_line)

NO_PADDING = Rule("padding", "the same as with padding in shared memory: nothing is padded", _no_padding)
"""IREE pads where there is room; without a promoted operand there is nothing to pad."""

DUPLICATES: tuple[Rule, ...] = (IDLE_REQUEST, FEW_REGISTERS, TURNED_LINE, NO_PADDING)
USED: tuple[Rule, ...] = (*RULES, *DUPLICATES)
"""All that is left out of a space."""
