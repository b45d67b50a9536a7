"""Reads the provenance of a spec's entry from a file of anybody's, and words it."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import Any

from iree.compiler import ir

from autotuner.carriers.provenance import Provenance
from autotuner.system.text import printable


def read_provenance(attribute: Any) -> Provenance | None:
    """Reads the provenance; fields of wrong types are left out."""
    if not isinstance(attribute, ir.DictAttr):
        return None
    given = {entry.name: entry.attr for entry in attribute}
    values: dict[str, Any] = {}
    for field in fields(Provenance):
        value = given.get(field.name)
        if field.type == "str" and isinstance(value, ir.StringAttr):
            values[field.name] = printable(value.value_bytes.decode(errors="replace")).strip()
        elif field.type != "str" and isinstance(value, ir.FloatAttr) and 0 < value.value < math.inf:
            values[field.name] = float(value.value)
    return Provenance(**values)


def has_figures(provenance: Provenance) -> bool:
    return provenance.us is not None or provenance.median is not None


def to_json(provenance: Provenance) -> dict[str, Any]:
    known = asdict(provenance)
    interval = {name: known.pop(name) for name in ("low", "median", "high")}
    return {**known, "speedup": interval if provenance.median is not None else None}


def figures_of(provenance: Provenance) -> str:
    """Times and interval, in words."""
    words, of = [], provenance
    if of.us is not None and of.baseline_us is not None:
        words.append(f"{of.us:.1f} µs, default {of.baseline_us:.1f} µs")
    elif of.us is not None:
        words.append(f"{of.us:.1f} µs")
    if of.median is not None:
        interval = f" ({of.low:.3f} to {of.high:.3f})" if of.low is not None and of.high is not None else ""
        words.append(f"{of.median:.3f}x{interval}")
    if of.cold_us is not None and of.baseline_cold_us is not None:
        words.append(f"cold {of.cold_us:.1f} µs, default {of.baseline_cold_us:.1f} µs")
    return ", ".join(words) or "no figures"


def line_of(provenance: Provenance) -> str:
    """The provenance in a line, for a comment."""
    iree = f"IREE {provenance.iree}" if provenance.iree else ""
    parts = (provenance.problem, provenance.target, iree, provenance.verdict, figures_of(provenance), provenance.date)
    return "; ".join(part for part in parts if part)
