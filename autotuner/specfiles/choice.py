"""Which entries of many specs stay: of two that match the same, the faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autotuner.carriers.provenance import Provenance
from autotuner.errors import UsageError
from autotuner.specfiles.entries import Entry


class Source(Protocol):
    """A spec: what users call it, and its entries in order."""

    @property
    def name(self) -> str: ...

    @property
    def entries(self) -> tuple[Entry, ...]: ...


@dataclass(frozen=True)
class Place:
    """An entry and where it stands."""

    source: int
    position: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Dropped:
    """An entry that is not in the merged spec."""

    entry: Entry
    source: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"name": self.entry.name, "source": self.source, "reason": self.reason}


def choose(sources: Sequence[Source], *, force: bool) -> tuple[list[Place], list[Dropped]]:
    """Of entries that match the same operations one stays: the faster by what is recorded, or the one that was timed.

    Where nothing tells, that is an error, unless `force` lets the later one win.
    """
    best: dict[str, Place] = {}
    dropped = []
    for number, source in enumerate(sources):
        for position, entry in enumerate(source.entries):
            new = Place(number, position, entry)
            old = best.get(entry.key)
            if old is None:
                best[entry.key] = new
                continue
            winner, reason = _better(old, new, sources, force=force)
            loser = new if winner is old else old
            best[entry.key] = winner
            dropped.append(Dropped(loser.entry, sources[loser.source].name, reason))
    return list(best.values()), dropped


def _better(old: Place, new: Place, sources: Sequence[Source], *, force: bool) -> tuple[Place, str]:
    first, second = sources[old.source].name, sources[new.source].name
    if old.source == new.source:
        return old, f"never reached: @{old.entry.name} before it matches the same"
    mine, yours = old.entry.provenance or Provenance(), new.entry.provenance or Provenance()
    same_place = mine.target and (mine.target, mine.device) == (yours.target, yours.device)
    if _same_configuration(old.entry, new.entry):
        newer = yours.has_figures and not mine.has_figures
        reason = "the same configuration as in {}"
    elif mine.us is not None and yours.us is not None and same_place:
        newer = yours.us < mine.us
        reason = f"slower: {max(mine.us, yours.us):.1f} µs, {{}} has {min(mine.us, yours.us):.1f} µs"
    elif mine.median is not None and yours.median is not None:
        newer = yours.median > mine.median
        reason = f"gains less: {min(mine.median, yours.median):.3f}x, {{}} has {max(mine.median, yours.median):.3f}x"
    elif mine.has_figures != yours.has_figures:
        newer, reason = yours.has_figures, "it has no figures, and {} was timed"
    elif force:
        newer, reason = True, "by --force: {} comes later and matches the same"
    else:
        raise UsageError(
            f"{first} (@{old.entry.name}) and {second} (@{new.entry.name}) match the same ({new.entry.matches.text}), "
            "and neither was timed: nothing tells which is faster.",
            remedy="Leave one out, or give --force: then the later file wins.",
        )
    return (new, reason.format(second)) if newer else (old, reason.format(first))


def _same_configuration(one: Entry, other: Entry) -> bool:
    return (one.compilation_info, one.decomposition_config) == (other.compilation_info, other.decomposition_config)
