"""How thoroughly a run measures: an effort at home says so, and a bundle for the machine that runs it."""

from __future__ import annotations

from typing import Protocol


class Thoroughness(Protocol):
    """What timings and the verdict go by."""

    @property
    def confirm_blocks(self) -> int: ...

    @property
    def race_entrants(self) -> int: ...

    @property
    def smallest_gain(self) -> float: ...

    @property
    def run_timeout(self) -> float: ...

    @property
    def repetition_seconds(self) -> float: ...
