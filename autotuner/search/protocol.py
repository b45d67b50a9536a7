"""The seam between the tuning loop and whatever decides what to try next."""

from __future__ import annotations

from typing import Protocol

from autotuner.space.table import Config


class Search(Protocol):
    """One coordinator asks and tells; several may be asked for before the first is told."""

    def ask(self, count: int) -> list[Config]:
        """Up to `count` distinct configurations that were never asked or told; none when all were."""
        ...

    def tell(self, config: Config, value: float | None) -> None:
        """What a configuration came to: log(time), or None when it failed. It need not have been asked."""
        ...
