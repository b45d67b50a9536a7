"""What a worker says of itself when it joins, and whether a coordinator may use it: plain data, no code is run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any

from autotuner._version import __version__
from autotuner.devices.environment import capture
from autotuner.iree.tools import Tools
from autotuner.system import machine
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
    code: str
    """Digest of the package's own files."""
    iree: str
    compiler: str
    """Digest of the compiler."""
    runtime: str
    """Digest of what runs modules."""
    host: str
    processor: str
    """What code for `host` is made for there."""
    cores: int
    """Usable ones."""
    builds: int
    """At once."""
    device: str = ""
    """URI of the device; empty: it only builds."""
    resource: str = ""
    """What the device is called among Dask's resources: its model."""
    model: str = ""
    """As the device's driver names it."""
    chip: str = ""
    """What microkernels for the device are made for; empty: the target says."""
    environment: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_this_machine(cls, tools: Tools, *, builds: int, device: str = "", resource: str = "") -> Facts:
        environment = capture(device, tools) if device else {}
        model = str(environment.get("device_name", ""))
        backend = backend_on(device) if device else None
        return cls(
            autotune=__version__,
            code=package_digest(),
            iree=tools.release,
            compiler=tools.identity,
            runtime="|".join(tools.programs[1:]),
            host=machine_id(),
            processor=tools.processor,
            cores=usable_cores(),
            builds=builds,
            device=device,
            resource=(resource or resource_of(device, model)) if device else "",
            model=model,
            chip=(backend.chip_there(which_device(device)) if backend else None) or "",
            environment=environment,
        )

    @property
    def kind(self) -> str:
        """Of its device: times on devices of one kind can be compared."""
        return f"{self.resource}: {self.model or 'of unknown model'}, {self.device.partition('://')[0]}"

    @property
    def build_resource(self) -> str:
        """What Dask gives a build by: the same for all workers that build the same."""
        same = "|".join((self.autotune, self.code, self.iree, self.compiler))
        return f"build-{hashlib.sha256(same.encode()).hexdigest()[:12]}"

    def is_called(self, wanted: str) -> bool:
        """Does `--device` name its device? An empty name is any."""
        return wanted.lower() in ("", self.resource.lower(), self.model.lower())

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "environment": dict(self.environment)}

    @classmethod
    def from_json(cls, document: Any) -> Facts | None:
        """None where they are not those of this version."""
        names = {one.name for one in fields(cls)}
        if not isinstance(document, Mapping) or set(document) != names:
            return None
        return cls(**document)


def resource_of(device: str, model: str) -> str:
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


def refused_as_builder(document: Any, own: Facts) -> str:
    """Why a worker that says this may not build for this machine; empty: it may."""
    facts = Facts.from_json(document)
    if facts is None or facts.autotune != own.autotune:
        version = document.get("autotune") if isinstance(document, Mapping) else None
        return f"has autotune {version}, not {own.autotune}" if version else "was not started by `autotune worker`"
    if facts.code != own.code:
        return f"has other files of autotune {own.autotune} ({facts.code[:8]}, not {own.code[:8]})"
    if facts.iree != own.iree:
        return f"has IREE {facts.iree}, not {own.iree}"
    if facts.compiler != own.compiler:
        return f"has another build of IREE {own.iree}"
    return ""


def refused_as_device(facts: Facts, own: Facts, *, target: Target) -> str:
    """Why the device of a worker that may build cannot be used for this target; empty: it can."""
    if facts.runtime != own.runtime:
        return f"has another runtime of IREE {own.iree}"
    if target.backend.on_host and (facts.processor, facts.cores) != (own.processor, own.cores):
        return (
            f"has another processor ({facts.model}, {facts.cores} cores) than the coordinator, whose code it would run"
        )
    if target.chip and facts.chip not in ("", target.chip):
        return f"has a {facts.chip}, not the {target.chip} that --chip names"
    prefix, name = target.backend.chip_prefix, facts.resource
    if prefix and not target.backend.assembled_on_load and name.startswith(prefix) and name != target.name:
        return f"has a {name}, which does not run code for {target.name}"
    return ""


@lru_cache(maxsize=1)
def package_digest() -> str:
    """Of all that the package is made of: two checkouts of one version may differ."""
    root, whole = Path(__file__).parents[1], hashlib.sha256()
    for file in sorted(root.rglob("*.py")):
        whole.update(f"{file.relative_to(root)}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def machine_id() -> str:
    """The same for all processes of one machine: whether two disturb each other depends on it."""
    return machine.read("/proc/sys/kernel/random/boot_id") or machine.read("/etc/hostname")
