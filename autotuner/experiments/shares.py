"""Which dispatches of a model are not the same in both arms, and what part of its time they take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from autotuner.experiments.build import Built
from autotuner.models.program import Call
from autotuner.models.shares import Shares, from_statistics, repeated
from autotuner.tools import Tools

_READINGS = 3


def read_shares(tools: Tools, a: Built, b: Built, call: Call, *, device: str, timeout: float) -> list[Shares]:
    """Both arms' dispatches, read in turns; empty where the device keeps no statistics."""
    readings: list[list[Shares]] = [[], []]
    for _ in range(_READINGS):
        for module, found in zip((a, b), readings, strict=True):
            reading = from_statistics(tools, module, call, device=device, timeout=timeout)
            if reading is None:
                return []
            found.append(reading)
    return [repeated(found) for found in readings]


def own_exports(
    shares: Shares, mine: Mapping[str, str], other: Mapping[str, str], *, substituted: Collection[str] = ()
) -> list[str]:
    """The exports of this arm whose executable the other arm does not have.

    Executables are told by their configured text, whatever their number: taking one dispatch out renumbers the rest.
    """
    left = Counter(_nameless(name, text) for name, text in other.items() if name not in substituted)
    same = []
    for name, text in mine.items():
        form = _nameless(name, text)
        if name not in substituted and left[form]:
            left[form] -= 1
            same.append(name)
    return [export for export in shares.us if _executable(export, mine) not in same]


def _nameless(name: str, text: str) -> str:
    return text.replace(name, "executable")


def _executable(export: str, names: Collection[str]) -> str:
    """An export's name begins with that of its executable."""
    fitting = [name for name in names if export == name or export.startswith(f"{name}_")]
    return max(fitting, key=len, default="")
