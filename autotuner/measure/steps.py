"""What must be done one after another, partly by the builders and partly by the device."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from autotuner.devices.device import Device

T = TypeVar("T")


@dataclass(frozen=True)
class Step:
    """Something to be done before a search can begin, or after it, and by whom."""

    where: Literal["builders", "device"]
    do: Callable[[], Any]
    device: Device | None = None
    """Which one does it; None: whichever is the first."""


Steps = Generator[Step, Any, T]
"""Steps one after another; each is sent what the one before came to, or thrown what it raised."""


def changed(steps: Steps[T], change: Callable[[Step], Step]) -> Steps[T]:
    """The same steps, each as `change` makes it."""
    try:
        step = next(steps)
        while True:
            try:
                came_to = yield change(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(came_to)
    except StopIteration as end:
        value: T = end.value
        return value


def at_once(steps: Steps[T]) -> T:
    """All steps here and now."""
    try:
        step = next(steps)
        while True:
            try:
                came_to = step.do()
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(came_to)
    except StopIteration as end:
        value: T = end.value
        return value
