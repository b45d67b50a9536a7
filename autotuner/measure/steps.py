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


def following(steps: Steps[T], came_to: Callable[[], Any]) -> Step:
    """The step after this one, which `came_to` gives the value of, or raises the error of; at the end StopIteration."""
    try:
        value = came_to()
    except Exception as error:
        return steps.throw(error)
    return steps.send(value)


def at_once(steps: Steps[T]) -> T:
    """All steps here and now."""
    try:
        step = next(steps)
        while True:
            step = following(steps, step.do)
    except StopIteration as end:
        value: T = end.value
        return value


class Changed(Generator[Step, Any, T]):
    """The same steps, each as `change` makes it."""

    def __init__(self, steps: Steps[T], change: Callable[[Step], Step]) -> None:
        self._steps, self._change = steps, change

    def send(self, value: Any) -> Step:
        return self._change(self._steps.send(value))

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Step:
        del val, tb  # an error has both
        return self._change(self._steps.throw(typ))
