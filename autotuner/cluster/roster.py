"""Who is in a cluster: workers join, are refused or used, and are lost when they are gone or silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from autotuner.cluster.facts import (
    FACTS,
    Facts,
    Kind,
    chosen_kind,
    refused_as_builder,
    refused_as_device,
    refused_unread,
    runs,
)
from autotuner.system.waiting import AwakeClock
from autotuner.targets import Target

SILENT_SECONDS = 20.0
"""Workers say twenty times as often that they are there, at the least."""
_LOOK_SECONDS = 5.0
"""The scheduler is asked more often, unless this process stands still: then nobody was silent."""


@dataclass(eq=False)
class Member:
    """A worker that is used."""

    address: str
    name: str
    facts: Facts
    times: bool = False
    """Its device is used as well."""
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    _said: Any = None
    _heard: float = 0.0

    def hear(self, said: Any, now: float) -> None:
        """What changes with each sign of life."""
        if said != self._said:
            self._said, self._heard = said, now

    def silent(self, now: float) -> bool:
        return now - self._heard > SILENT_SECONDS


@dataclass(eq=False)
class Roster:
    """Which workers are used for what. Of each that is not, it is said why, once."""

    own: Facts
    target: Target
    timed: bool
    """Devices are wanted."""
    wanted: str
    """The model that the user names; empty: whichever most have."""
    note: Callable[[str], None]
    refusals: dict[str, str] = field(default_factory=dict)
    """By the worker's name."""
    kind: Kind | None = None
    """The devices that are used; None until there is one."""
    _members: dict[str, Member] = field(default_factory=dict)
    _left: set[str] = field(default_factory=set)
    """Addresses that are not used, or not again."""
    dropped: set[str] = field(default_factory=set)
    """Those among them that were used once."""
    _clock: AwakeClock = field(default_factory=lambda: AwakeClock(_LOOK_SECONDS))

    def update(self, workers: Mapping[str, Mapping[str, Any]], now: float | None = None) -> None:
        """Takes note of all workers that the scheduler knows."""
        moment = self._clock.now() if now is None else now
        self._join(workers, moment)
        for address, member in list(self._members.items()):
            if address not in workers:
                self.drop(member, "is gone")
                continue
            member.hear(workers[address].get("last_seen"), moment)
            if member.silent(moment):
                self.drop(member, f"has said nothing for {SILENT_SECONDS:.0f} s")

    def drop(self, member: Member, why: str) -> None:
        """It is not used again, and what it was doing is others' work."""
        if self._members.pop(member.address, None) is not None:
            self._left.add(member.address)
            self.dropped.add(member.address)
            member.lost.set()
            self.note(f"worker {member.name} {why}: its work goes to others")

    def builders(self) -> list[Member]:
        """Those that compile; on processors that are timed only where there are no others."""
        members = list(self._members.values())
        if not self.target.compiles_on_device or not self.timed:
            return members
        hosts = {member.facts.host for member in members if member.times}
        return [member for member in members if member.facts.host not in hosts] or members

    def devices(self) -> list[Member]:
        """In the order of their names: a run that goes on takes the same one first."""
        return sorted((member for member in self._members.values() if member.times), key=lambda one: one.name)

    @property
    def shares_cores(self) -> bool:
        """Compiles disturb timings: both would be on the same processor."""
        hosts = {member.facts.host for member in self.devices()}
        return self.target.compiles_on_device and any(member.facts.host in hosts for member in self.builders())

    def _join(self, workers: Mapping[str, Mapping[str, Any]], now: float) -> None:
        new = [address for address in sorted(workers) if address not in self._members and address not in self._left]
        joined = []
        for address in new:
            told = workers[address]
            member = self._vetted(address, told)
            if member is not None:
                member.hear(told.get("last_seen"), now)
                joined.append(member)
        if self.timed:
            self._choose_devices(joined)

    def _vetted(self, address: str, told: Mapping[str, Any]) -> Member | None:
        name, document = str(told.get("name", address)), told.get(FACTS)
        facts = Facts.from_json(document)
        why = (
            refused_unread(document, self.own)
            if facts is None
            else refused_as_builder(facts, self.own, figures=self.target.figures)
        )
        if facts is None or why:
            self._left.add(address)
            self._refuse(name, why)
            return None
        self._members[address] = Member(address, name, facts)
        return self._members[address]

    def _choose_devices(self, joined: list[Member]) -> None:
        candidates = [member for member in joined if runs(member.facts, self.target)]
        why = {one.address: refused_as_device(one.facts, self.own, target=self.target) for one in candidates}
        if self.kind is None:
            usable = (member.facts.kind for member in candidates if not why[member.address])
            self.kind = chosen_kind(usable, wanted=self.wanted, target=self.target)
        used = self.kind or self.wanted
        for member in candidates:
            member.times = not why[member.address] and member.facts.kind == self.kind
            if not member.times:
                other = f"has another device ({member.facts.kind}) than is used ({used})"
                self._refuse(member.name, f"{why[member.address] or other}; it only builds")

    def _refuse(self, name: str, why: str) -> None:
        if self.refusals.get(name) != why:
            self.refusals[name] = why
            self.note(f"worker {name} is refused: it {why}")

    def reasons(self) -> Iterator[str]:
        """Why workers are refused, each with its name."""
        return (f"{name} {why}" for name, why in sorted(self.refusals.items()))
