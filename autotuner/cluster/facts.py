"""The facts that workers report when they join, and the choice of workers: plain data."""

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
"""The key of these facts in a worker's report."""
_VENDORS = ("NVIDIA ", "AMD ", "Instinct ", "Radeon ", "GeForce ", "Tesla ")


@dataclass(frozen=True)
class Facts:
    """The facts that decide whether a worker builds and times as this machine would."""

    autotune: str
    """Version and digest of the package's own files: two checkouts of one version may differ."""
    iree: str
    """Version and digest of the compiler."""
    runtime: str
    """Digest of the runtime programs."""
    processor: str
    """The processor of code for `host`, and the usable cores."""
    builds: int
    """Builds at once."""
    device: str = ""
    """URI of the device; empty: it only builds."""
    called: str = ""
    """The device's model, which a coordinator's `--device` names."""
    chip: str = ""
    """The chip of microkernels for the device; empty: the target's."""
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
        """The device's name from its driver."""
        return str(self.environment.get("device_name", ""))

    @property
    def kind(self) -> str:
        """The kind of its device: times on one kind can be compared."""
        return f"{self.called}: {self.model or 'of unknown model'}, {self.device.partition('://')[0]}"

    @property
    def build_resource(self) -> str:
        """The Dask resource of builds, which workers with equal builds share."""
        same = f"{self.autotune}|{self.iree}"
        return f"build-{hashlib.sha256(same.encode()).hexdigest()[:12]}"

    def is_called(self, wanted: str) -> bool:
        """Whether `--device` names its device; an empty name is any."""
        return wanted.lower() in ("", self.called.lower(), self.model.lower())


def name_of(device: str, model: str) -> str:
    """A device's model for `--device`: `H200` for an NVIDIA H200, `gfx942` for an MI300X, `cpu` for a processor."""
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
    """Why a worker may not build for this machine; empty: it may."""
    if "autotune" not in told:
        return "was not started by `autotune worker`"
    if told["autotune"] != own.autotune:
        return f"has autotune {told['autotune']}, not {own.autotune}"
    return f"has IREE {told['iree']}, not {own.iree}" if told["iree"] != own.iree else ""


def refused_as_device(facts: Facts, own: Facts, *, target: Target) -> str:
    """Why a builder's device cannot be used for this target; empty: it can."""
    if facts.runtime != own.runtime:
        return "has another runtime of IREE"
    if target.backend.on_host and facts.processor != own.processor:
        return f"has another processor ({facts.model}) than the coordinator, whose code it would run"
    if target.chip and facts.chip not in ("", target.chip):
        return f"has a {facts.chip}, not the {target.chip} that --chip names"
    prefix, name = target.backend.chip_prefix, facts.called
    if prefix and not target.backend.assembled_on_load and name.startswith(prefix) and name != target.arch:
        return f"has a {name}, which does not run code for {target.name}"
    return ""


@lru_cache(maxsize=1)
def package_digest() -> str:
    """The digest of the package's files."""
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
    """The workers of a run and their uses, with the reasons of refusals."""

    own: Facts
    target: Target
    timed: bool
    """Devices are wanted."""
    wanted: str
    """The user's model of devices; empty: the most common one."""
    members: list[Member] = field(default_factory=list)
    """All of them build."""
    devices: list[Member] = field(default_factory=list)
    """Workers with devices, by name, so that a resumed run takes the same one first."""
    refusals: dict[str, str] = field(default_factory=dict)
    """Refusals by the worker's name."""

    def update(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        """Updates the roster with the scheduler's workers."""
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
        """Chooses devices of one kind: the `--device`, else the target's name, else the most common."""
        there = [one for one in self.members if backend_on(one.facts.device) is self.target.backend]
        why = {one.name: refused_as_device(one.facts, self.own, target=self.target) for one in there}
        usable = [one.facts for one in there if not why[one.name] and one.facts.is_called(self.wanted)]
        counts = Counter(one.kind for one in usable)
        like_target = {one.kind for one in usable if one.called in (self.target.name, self.target.arch)}
        kind = min(counts, key=lambda one: (one not in like_target, -counts[one], one), default="")
        for member in there:
            if not why[member.name] and member.facts.kind == kind:
                self.devices.append(member)
            else:
                other = f"has another device ({member.facts.kind}) than is used ({kind or self.wanted})"
                self.refusals[member.name] = f"{why[member.name] or other}; it only builds"

    @property
    def missing(self) -> str:
        """What is missing for a run; empty: nothing."""
        if not self.members:
            return "worker that can be used"
        return "worker with a device that can be timed" if self.timed and not self.devices else ""
