"""Who of a cluster is used for what, by what the scheduler tells at the beginning of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autotuner.cluster.facts import FACTS, Facts, refused_as_builder, refused_as_device
from autotuner.targets import Target
from autotuner.targets.backends import backend_on


@dataclass(frozen=True)
class Member:
    """A worker that is used."""

    address: str
    name: str
    facts: Facts


@dataclass(eq=False)
class Roster:
    """Which workers are used for what; of each that is not, why."""

    own: Facts
    target: Target
    timed: bool
    """Devices are wanted."""
    wanted: str
    """The model that the user names; empty: whichever most have."""
    members: list[Member] = field(default_factory=list)
    devices: list[Member] = field(default_factory=list)
    """In the order of their names: a run that goes on takes the same one first."""
    refusals: dict[str, str] = field(default_factory=dict)
    """By the worker's name."""

    def update(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        """Of all workers that the scheduler knows."""
        self.members, self.devices, self.refusals = [], [], {}
        for address, told in sorted(workers.items(), key=lambda one: str(one[1]["name"])):
            name, facts = str(told["name"]), Facts.from_json(told.get(FACTS))
            why = refused_as_builder(told.get(FACTS), self.own)
            if facts is None or why:
                self.refusals[name] = why
            else:
                self.members.append(Member(address, name, facts))
        if self.timed:
            self._choose_devices()

    def _choose_devices(self) -> None:
        """Those of one kind: what `--device` names, or what is called like the target; else what most have."""
        there = [one for one in self.members if backend_on(one.facts.device) is self.target.backend]
        why = {one.name: refused_as_device(one.facts, self.own, target=self.target) for one in there}
        usable = [one.facts for one in there if not why[one.name] and one.facts.is_called(self.wanted)]
        counts = Counter(one.kind for one in usable)
        like_target = {one.kind for one in usable if one.resource == self.target.name}
        kind = min(counts, key=lambda one: (one not in like_target, -counts[one], one), default="")
        for member in there:
            if not why[member.name] and member.facts.kind == kind:
                self.devices.append(member)
            else:
                other = f"has another device ({member.facts.kind}) than is used ({kind or self.wanted})"
                self.refusals[member.name] = f"{why[member.name] or other}; it only builds"

    @property
    def builders(self) -> list[Member]:
        """Those that compile; on processors that are timed only where there are no others."""
        return [one for one in self.members if one.facts.host not in self._timed_hosts] or self.members

    @property
    def _timed_hosts(self) -> set[str]:
        """Where compiles would disturb timings: both are on the same processor."""
        return {one.facts.host for one in self.devices} if self.target.compiles_on_device else set()

    @property
    def shares_cores(self) -> bool:
        return any(one.facts.host in self._timed_hosts for one in self.builders)

    @property
    def for_builds(self) -> dict[str, Any]:
        """What Dask is told of a build. Whoever joins later builds, too, unless it may be where is timed."""
        apart = {"workers": [one.address for one in self.builders]} if self._timed_hosts else {}
        return {"resources": {self.own.build_resource: 1}, **apart}

    def builds_on(self, address: str, told: Mapping[str, Any]) -> bool:
        """Does Dask give builds to this worker?"""
        allowed = self.for_builds.get("workers", [address])
        return address in allowed and self.own.build_resource in told["resources"]

    @property
    def missing(self) -> str:
        """What a run lacks."""
        if not self.members:
            return "worker that can be used"
        return "worker with a device that can be timed" if self.timed and not self.devices else ""
