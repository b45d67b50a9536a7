"""Who is in a cluster: workers join, are refused or used, and are lost when they are gone or silent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from autotuner.cluster.facts import FACTS, Facts, Kind, chosen_kind, refused_as_builder, refused_as_device
from autotuner.targets import Target
from autotuner.targets.backends import backend_on

SILENT_SECONDS = 20.0
"""Workers say twenty times as often that they are there, at the least."""


@dataclass(eq=False)
class Member:
    """A worker that is used."""

    address: str
    name: str
    facts: Facts
    times: bool = False
    """Its device is used as well."""
    lost: bool = False
    calls: set[Future[Any]] = field(default_factory=set)
    """Those under way on its device: they end when it is lost."""
    _said: Any = None
    _heard: float = 0.0

    def silent(self, said: Any, now: float) -> bool:
        """`said` is what changes with each sign of life."""
        if said != self._said:
            self._said, self._heard = said, now
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
    members: dict[str, Member] = field(default_factory=dict)
    """By address."""
    dropped: set[str] = field(default_factory=set)
    """Addresses that were used once."""
    _refused: set[str] = field(default_factory=set)

    def update(self, workers: Mapping[str, Mapping[str, Any]], now: float | None = None) -> list[Member]:
        """Takes note of all workers that the scheduler knows; those that are silent, whom it should forget."""
        moment, silent = monotonic() if now is None else now, []
        self._join({one: told for one, told in sorted(workers.items()) if one not in self._known})
        for address, member in list(self.members.items()):
            if address not in workers:
                self.drop(member, "is gone")
            elif member.silent(workers[address].get("last_seen"), moment):
                self.drop(member, f"has said nothing for {SILENT_SECONDS:.0f} s")
                silent.append(member)
        return silent

    def drop(self, member: Member, why: str) -> None:
        """It is not used again, and what it was doing is others' work."""
        if self.members.pop(member.address, None) is not None:
            self.dropped.add(member.address)
            self.note(f"worker {member.name} {why}: its work goes to others")
            self.lose(member)

    def lose(self, member: Member) -> None:
        """Ends all calls that wait for it."""
        member.lost = True
        for call in list(member.calls):
            call.cancel()

    def builders(self) -> list[Member]:
        """Those that compile; on processors that are timed only where there are no others."""
        members = list(self.members.values())
        if not self.target.compiles_on_device or not self.timed:
            return members
        hosts = {member.facts.host for member in members if member.times}
        return [member for member in members if member.facts.host not in hosts] or members

    def devices(self) -> list[Member]:
        """In the order of their names: a run that goes on takes the same one first."""
        return sorted((member for member in list(self.members.values()) if member.times), key=lambda one: one.name)

    @property
    def shares_cores(self) -> bool:
        """Compiles disturb timings: both would be on the same processor."""
        hosts = {member.facts.host for member in self.devices()}
        return self.target.compiles_on_device and any(member.facts.host in hosts for member in self.builders())

    @property
    def missing(self) -> str:
        """What a run still lacks."""
        if not self.builders():
            return "worker that can be used"
        return "worker with a device that can be timed" if self.timed and not self.devices() else ""

    @property
    def _known(self) -> set[str]:
        return {*self.members, *self._refused, *self.dropped}

    def _join(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        joined = []
        for address, told in workers.items():
            name = str(told.get("name", address))
            why = refused_as_builder(told.get(FACTS), self.own)
            facts = Facts.from_json(told.get(FACTS))
            if facts is None or why:
                self._refused.add(address)
                self._refuse(name, why)
            else:
                self.members[address] = Member(address, name, facts)
                joined.append(self.members[address])
        if self.timed:
            self._choose_devices([one for one in joined if backend_on(one.facts.device) is self.target.backend])

    def _choose_devices(self, candidates: list[Member]) -> None:
        why = {one.address: refused_as_device(one.facts, self.own, target=self.target) for one in candidates}
        if self.kind is None:
            usable = (member.facts.kind for member in candidates if not why[member.address])
            self.kind = chosen_kind(usable, wanted=self.wanted, target=self.target)
        for member in candidates:
            member.times = not why[member.address] and member.facts.kind == self.kind
            if not member.times:
                other = f"has another device ({member.facts.kind}) than is used ({self.kind or self.wanted})"
                self._refuse(member.name, f"{why[member.address] or other}; it only builds")

    def _refuse(self, name: str, why: str) -> None:
        if self.refusals.get(name) != why:
            self.refusals[name] = why
            self.note(f"worker {name} is refused: it {why}")

    @property
    def reasons(self) -> str:
        """Why workers are refused, each with its name."""
        return "; ".join(f"{name} {why}" for name, why in sorted(self.refusals.items()))
