"""The provenance of a spec's entry, in an attribute of its matcher: comments do not survive linking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any

from iree.compiler import ir

from autotuner._version import __version__
from autotuner.iree.mlir import text_context
from autotuner.iree.tools import Tools

WRITTEN = f"by autotune {__version__}"
ENTRY = "__autotune_entry__"
"""The attribute has no dot in its name: with one it would have to belong to a registered dialect."""
OBJECTS = "__autotune_objects__"
"""The attribute of a microkernel's matchers with the SHA-256 of each object. (A module takes attributes of dialects
only.)"""


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
    """The compiler's build: version, revision and digest."""
    verdict: str = ""
    us: float | None = None
    baseline_us: float | None = None
    low: float | None = None
    median: float | None = None
    high: float | None = None
    """The upper end of the speedup over IREE's default."""
    cold_us: float | None = None
    baseline_cold_us: float | None = None
    """The default's µs with a cold cache."""
    seconds: float | None = None
    """Seconds of the search."""
    date: str = ""
    command: str = ""
    earlier: str = ""
    """The earlier provenance of an entry that was proven again with another IREE."""

    def stamped(self, tools: Tools, speedup: Any = None, environment: Mapping[str, Any] | None = None) -> Provenance:
        """Adds the compiler, the date, the speedup with its interval, and the machine."""
        gain = {name: getattr(speedup, name) for name in ("low", "median", "high")} if speedup else {}
        stamped = replace(self, iree=tools.release, compiler=tools.build, date=today(), **gain)
        return stamped.on_machine(environment or {})

    def on_machine(self, environment: Mapping[str, Any]) -> Provenance:
        """Adds the device of a run's environment."""
        return replace(self, machine=machine_of(environment), driver=str(environment.get("driver") or ""))

    def attribute(self) -> str:
        """The MLIR dictionary; unknown fields are left out."""
        with text_context():
            values: dict[str, Any] = {}
            for name, value in asdict(self).items():
                if isinstance(value, float):
                    values[name] = ir.FloatAttr.get_f64(value)
                elif value:
                    values[name] = ir.StringAttr.get(value)
            return str(ir.DictAttr.get(values))


def machine_of(environment: Mapping[str, Any]) -> str:
    """The device's name in a run's environment; empty: unknown."""
    return str(environment.get("device_name") or "")


def heading(title: str, tools: Tools, said: Mapping[str, str]) -> list[str]:
    """The leading comment of a file: its title, and a line for each that is said; the target's also names IREE."""
    known = {**said, "target": f"{said['target']}; IREE {tools.release} ({tools.build})"}
    lines = (f"{f'{name}:':<12}{text}" for name, text in known.items() if text)
    return [" ".join(line.splitlines()) for line in (f"{title} {WRITTEN}", *lines)]


def today() -> str:
    """The date as specs have it."""
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"


def text_dictionary(values: Mapping[str, str]) -> str:
    """An MLIR dictionary of strings."""
    with text_context():
        return str(ir.DictAttr.get({name: ir.StringAttr.get(value) for name, value in values.items()}))
