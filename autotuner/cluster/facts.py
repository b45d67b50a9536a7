"""What workers say of themselves when they join, and which of them a coordinator uses for what: plain data."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from autotuner._version import __version__
from autotuner.devices.environment import capture
from autotuner.iree.tools import Tools
from autotuner.system.settings import usable_cores
from autotuner.targets import Target
from autotuner.targets.backends import backend_on
from autotuner.targets.catalog import peak_of
from autotuner.targets.naming import which_device

FACTS = "autotune"
"""Under this name a worker tells them."""
_VENDORS = ("NVIDIA ", "AMD ", "Instinct ", "Radeon ", "GeForce ", "Tesla ")


@dataclass(frozen=True)
class Facts:
    """All that decides whether what a worker builds and times is what this machine would build and time."""

    autotune: str
    """Version and digest of the package's own files: two checkouts of one version may differ."""
    iree: str
    """Version and digest of the compiler."""
    runtime: str
    """Digest of what runs modules."""
    processor: str
    """What code for `host` is made for there, and the cores that may be used."""
    builds: int
    """At once."""
    device: str = ""
    """URI of the device; empty: it only builds."""
    called: str = ""
    """What `--device` of a coordinator calls the device: its model."""
    chip: str = ""
    """What microkernels for the device are made for; empty: the target says."""
    environment: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_this_machine(cls, tools: Tools, *, builds: int, device: str = "") -> Facts:
        environment = capture(device, tools) if device else {}
        backend = backend_on(device) if device else None
        return cls(
            autotune=f"{__version__} ({package_digest()[:12]})",
            iree=tools.build,
            runtime="|".join(tools.programs[1:]),
            processor=f"{tools.processor}, {usable_cores()} cores",
            builds=builds,
            device=device,
            called=name_of(device, str(environment["device_name"])) if device else "",
            chip=(backend.chip_there(which_device(device)) if backend else None) or "",
            environment=environment,
        )

    @property
    def model(self) -> str:
        """As the device's driver names it."""
        return str(self.environment.get("device_name", ""))

    @property
    def kind(self) -> str:
        """Of its device: times on devices of one kind can be compared."""
        return f"{self.called}: {self.model or 'of unknown model'}, {self.device.partition('://')[0]}"

    @property
    def build_resource(self) -> str:
        """What Dask gives a build by: the same for all workers that build the same."""
        same = f"{self.autotune}|{self.iree}"
        return f"build-{hashlib.sha256(same.encode()).hexdigest()[:12]}"

    def is_called(self, wanted: str) -> bool:
        """Does `--device` name its device? An empty name is any."""
        return wanted.lower() in ("", self.called.lower(), self.model.lower())


def name_of(device: str, model: str) -> str:
    """`H200` of an NVIDIA H200, `gfx942` of an MI300X, `cpu` of a processor: what a coordinator's `--device` names."""
    backend = backend_on(device)
    if backend is not None and backend.on_host:
        return "cpu"
    if backend is not None and not backend.assembled_on_load and (known := peak_of("", device=model)) is not None:
        return known.chip
    words = model
    for vendor in _VENDORS:
        words = words.removeprefix(vendor)
    return "-".join(words.split()) or device.partition("://")[0]


def refused_as_builder(told: Mapping[str, Any], own: Facts) -> str:
    """Why a worker that tells this may not build for this machine; empty: it may."""
    if "autotune" not in told:
        return "was not started by `autotune worker`"
    if told["autotune"] != own.autotune:
        return f"has autotune {told['autotune']}, not {own.autotune}"
    return f"has IREE {told['iree']}, not {own.iree}" if told["iree"] != own.iree else ""


def refused_as_device(facts: Facts, own: Facts, *, target: Target) -> str:
    """Why the device of a worker that may build cannot be used for this target; empty: it can."""
    if facts.runtime != own.runtime:
        return "has another runtime of IREE"
    if target.backend.on_host and facts.processor != own.processor:
        return f"has another processor ({facts.model}) than the coordinator, whose code it would run"
    if target.chip and facts.chip not in ("", target.chip):
        return f"has a {facts.chip}, not the {target.chip} that --chip names"
    prefix, name = target.backend.chip_prefix, facts.called
    if prefix and not target.backend.assembled_on_load and name.startswith(prefix) and name != target.name:
        return f"has a {name}, which does not run code for {target.name}"
    return ""


@lru_cache(maxsize=1)
def package_digest() -> str:
    """Of all that the package is made of."""
    root, whole = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        whole.update(f"{file.relative_to(root)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


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
    """All of them build."""
    devices: list[Member] = field(default_factory=list)
    """In the order of their names: a run that goes on takes the same one first."""
    refusals: dict[str, str] = field(default_factory=dict)
    """By the worker's name."""

    def update(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        """Of all workers that the scheduler knows."""
        self.members, self.devices, self.refusals = [], [], {}
        for address, told in sorted(workers.items(), key=lambda one: str(one[1]["name"])):
            name, said = str(told["name"]), told.get(FACTS) or {}
            if why := refused_as_builder(said, self.own):
                self.refusals[name] = why
            else:
                self.members.append(Member(address, name, Facts(**said)))
        if self.timed:
            self._choose_devices()

    def _choose_devices(self) -> None:
        """Those of one kind: what `--device` names, or what is called like the target; else what most have."""
        there = [one for one in self.members if backend_on(one.facts.device) is self.target.backend]
        why = {one.name: refused_as_device(one.facts, self.own, target=self.target) for one in there}
        usable = [one.facts for one in there if not why[one.name] and one.facts.is_called(self.wanted)]
        counts = Counter(one.kind for one in usable)
        like_target = {one.kind for one in usable if one.called == self.target.name}
        kind = min(counts, key=lambda one: (one not in like_target, -counts[one], one), default="")
        for member in there:
            if not why[member.name] and member.facts.kind == kind:
                self.devices.append(member)
            else:
                other = f"has another device ({member.facts.kind}) than is used ({kind or self.wanted})"
                self.refusals[member.name] = f"{why[member.name] or other}; it only builds"

    @property
    def missing(self) -> str:
        """What a run lacks."""
        if not self.members:
            return "worker that can be used"
        return "worker with a device that can be timed" if self.timed and not self.devices else ""
