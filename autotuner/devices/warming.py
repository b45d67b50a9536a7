"""A warm-up that ends when it has lasted long enough, or when the device has come to a lasting state.

It stands by itself: the processes of other libraries have this file too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

STEADY: Mapping[str, float] = {"window": 0.06, "within": 0.003, "most": 0.6}
"""Two windows of so many seconds that differ by no more than this part are one state; in any case so many seconds.

A GPU at its power limit follows what it computes with a delay of some tenths of a second: on an NVIDIA H200 a product
took 7 % longer after another library's, which draws more power, than after itself.
"""

_LONG = 10
"""A call of so many times as many seconds as a warm-up lasts needs none: what a warm-up changes is over in a tenth."""


def needs_warming(call: float, seconds: float) -> bool:
    """Must a module whose calls take so many seconds be called for these seconds before it is timed?"""
    return call < _LONG * seconds


def warm_up(call: Callable[[], tuple[float, int]], *, least: float, steady: Mapping[str, float] | None) -> None:
    """Calls for so many seconds; with `steady` until the device is in one state. A call gives its seconds, and how many
    executions they were for."""
    spent, before = 0.0, 0.0
    while spent < least:
        spent += call()[0]
    while steady is not None and spent < steady["most"]:
        took, count = 0.0, 0
        while took < steady["window"]:
            seconds, executions = call()
            took, count = took + seconds, count + executions
        spent, now = spent + took, took / count
        if before and abs(now - before) <= steady["within"] * before:
            return
        before = now
