"""Routes that compute something else than the default. Where some of them agree, the default may be what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from autotuner.devices.device import Computed

Same = Callable[[Computed, Computed], bool]


@dataclass
class Dissent:
    """What was rejected because its outputs are not the default's."""

    _rejected: dict[str, tuple[str, Computed]] = field(default_factory=dict)
    """By the module's digest: the same module twice agrees with itself and tells nothing."""
    _told: bool = False

    def add(self, route: str, digest: str, outputs: Computed, *, same: Same) -> str:
        """What people must be told now; empty where there is nothing new."""
        agreeing = next((name for name, other in self._others(digest) if same(outputs, other)), None)
        self._rejected.setdefault(digest, (route, outputs))
        if agreeing is None or self._told:
            return ""
        self._told = True
        return (
            f"routes {agreeing} and {route} agree with each other and not with IREE's default: "
            "the default may be what is wrong. All is compared with it, so compare its outputs with the framework "
            "that made the model first"
        )

    def _others(self, digest: str) -> list[tuple[str, Computed]]:
        return [one for key, one in self._rejected.items() if key != digest]
