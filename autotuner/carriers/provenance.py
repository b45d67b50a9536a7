"""The provenance of a spec's entry, kept as an attribute of its matcher: comments do not survive linking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from iree.compiler import ir

from autotuner.iree.mlir import text_context
from autotuner.iree.tools import Tools

ENTRY = "__autotune_entry__"
"""Without a dot: an attribute with one must belong to a dialect that every tool knows."""
OBJECTS = "__autotune_objects__"
"""Of a microkernel's matchers: the SHA-256 of each of its objects. (A module takes attributes of dialects only.)"""


@dataclass(frozen=True, slots=True)
class Provenance:
    """What was measured, where, and by which command; empty or None where unknown."""

    problem: str = ""
    target: str = ""
    device: str = ""
    machine: str = ""
    """The processor or GPU that it was timed on, by its maker's name."""
    driver: str = ""
    iree: str = ""
    compiler: str = ""
    """Which build of it: version, revision and digest."""
    verdict: str = ""
    us: float | None = None
    baseline_us: float | None = None
    low: float | None = None
    median: float | None = None
    high: float | None = None
    """Of the speedup over IREE's default."""
    cold_us: float | None = None
    baseline_cold_us: float | None = None
    """With a cold cache."""
    seconds: float | None = None
    """What finding it took."""
    date: str = ""
    command: str = ""
    earlier: str = ""
    """Of an entry that was proven again with another IREE: what was found before."""

    def stamped(self, tools: Tools, speedup: Any = None, environment: Mapping[str, Any] | None = None) -> Provenance:
        """With the compiler, the date, how much was gained (`low`, `median` and `high` of the speedup), and on what."""
        gain = {name: getattr(speedup, name) for name in ("low", "median", "high")} if speedup else {}
        stamped = replace(self, iree=tools.release, compiler=tools.build, date=today(), **gain)
        return stamped.on_machine(environment or {})

    def on_machine(self, environment: Mapping[str, Any]) -> Provenance:
        """With what a run's environment says of its device."""
        return replace(self, machine=machine_of(environment), driver=str(environment.get("driver") or ""))

    def attribute(self) -> str:
        """As an MLIR dictionary; what is not known is left out."""
        with text_context():
            values: dict[str, Any] = {}
            for name, value in asdict(self).items():
                if isinstance(value, float):
                    values[name] = ir.FloatAttr.get_f64(value)
                elif value:
                    values[name] = ir.StringAttr.get(value)
            return str(ir.DictAttr.get(values))


def machine_of(environment: Mapping[str, Any]) -> str:
    """The device's name, as a run's environment has it; empty where it is not known."""
    return str(environment.get("device_name") or "")


def today() -> str:
    """The date as specs have it."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def text_dictionary(values: Mapping[str, str]) -> str:
    """An MLIR dictionary of strings."""
    with text_context():
        return str(ir.DictAttr.get({name: ir.StringAttr.get(value) for name, value in values.items()}))
