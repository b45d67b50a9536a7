"""The variants of a microkernel for one problem on one chip: its parameters as a space, and a call for each."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from elftools.common.exceptions import ELFError

from autotuner.errors import ToolMissingError, UsageError
from autotuner.iree.objects import hide
from autotuner.iree.processor import read_features
from autotuner.microkernels import check
from autotuner.microkernels.chips import is_gpu
from autotuner.microkernels.instance import Call, Instance, search_folders, shipped_folder
from autotuner.microkernels.library import all_manifests, find
from autotuner.microkernels.manifest import DoesNotFitError, Manifest
from autotuner.microkernels.providers import PROVIDERS
from autotuner.microkernels.providers.provider import Request, kept_object
from autotuner.problems import Problem
from autotuner.space import ABSENT, Config, Knob, Space
from autotuner.system.cache import Cache
from autotuner.system.digests import content_digest, path_digest
from autotuner.targets import NO_DEVICE, Target
from autotuner.targets.naming import which_device

AUTO = "auto"
LEADING = 10
"""Variants that a search begins with, where a manifest estimates what they take."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A microkernel as the user names it, with an object and a symbol of their own where they have one."""

    name: str
    objects: tuple[Path, ...] = ()
    symbol: str | None = None


@dataclass(frozen=True)
class Variants:
    """What a manifest offers here."""

    manifest: Manifest
    problem: Problem
    chip: str
    space: Space
    workspace: Path
    objects: tuple[Path, ...] = ()
    """The user's own, instead of the manifest's."""
    symbol: str | None = None
    executable_target: str = ""
    """What the compiler makes code for on a processor: it says which instructions a kernel in C may use."""
    ranked: tuple[Config, ...] = ()
    """By the manifest's estimate, the fastest first; empty where it has none."""
    expected: float = math.inf
    """What the first of these takes by it: estimates of all kernels for a chip have one unit."""

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        problem: Problem,
        chip: str,
        *,
        workspace: Path,
        kernel: Kernel | None = None,
        executable_target: str = "",
        first: Mapping[str, int] | None = None,
    ) -> Variants:
        """Refuses when no choice of its parameters fits the problem; `kernel` may bring an object of the user's.

        With `first` there is one variant: of those with these values the one that the manifest expects to be fastest,
        or else the defaults with these values; where none of them fits, of all.
        """
        own = kernel or Kernel(manifest.name)
        wanted = {name: value for name, value in (first or {}).items() if value in manifest.parameters.get(name, ())}
        settings = itertools.chain([{**next(manifest.settings()), **wanted}] if wanted else [], manifest.settings())
        given = manifest.given(problem, chip, symbol=own.symbol, features=read_features(executable_target))
        found: list[tuple[bool, int, dict[str, int]]] = []
        refused: DoesNotFitError | None = None
        for setting in settings:
            try:
                cost = manifest.expected(manifest.choose(given, setting))
            except DoesNotFitError as error:
                refused = refused or error
            else:
                found.append((not wanted.items() <= setting.items(), cost, setting))
                if first is not None and manifest.estimate is None:
                    break
        if not found:
            why = refused.message.removeprefix(f"{manifest.name}: ") if refused else ""
            remedy = "Choose another shape or kernel."
            raise DoesNotFitError(f"{manifest.name}: none of its variants fits: {why}", remedy=remedy)
        order = sorted(found, key=lambda one: one[:2]) if manifest.estimate else []
        if first is not None and order:
            found, order = order[:1], []
        knobs = [Knob(name, tuple(sorted(choices))) for name, choices in manifest.parameters.items()]
        rows = [[knob.values.index(setting[knob.name]) for knob in knobs] for *_, setting in found]
        space = Space(knobs, np.array(rows, np.int64).reshape(len(rows), len(knobs)))
        ranked = tuple(Config(tuple(setting.items())) for *_, setting in order)
        least = min((cost for _, cost, _ in order), default=math.inf)
        return cls(manifest, problem, chip, space, workspace, own.objects, own.symbol, executable_target, ranked, least)

    def digest(self) -> str:
        """Of all that it is made from: its folder, what all kernels share, and objects of the user's own."""
        shared = sorted(path for path in shipped_folder().iterdir() if path.is_file())
        return Cache.key([path_digest(path) for path in (self.manifest.file.parent, *shared, *self.objects)])

    def default(self) -> Config:
        """What the manifest expects to be fastest; without an estimate its first choice, or the nearest that fits."""
        if self.ranked:
            return self.ranked[0]
        wanted = next(self.manifest.settings())
        return self.space[self.space.nearest(dict(wanted))]

    def leading(self) -> tuple[Config, ...]:
        """What a search begins with."""
        return self.ranked[:LEADING] or (self.default(),)

    def call(self, config: Config, *, suffix: str = "") -> Call:
        """The kernel with these parameters: built where it comes from source, bound, and checked against its object.

        A `suffix` makes the symbol of a kernel in C its own: others of the same name may be linked beside it.
        """
        parameters = {
            name: int(value) for name, value in config.items if name in self.manifest.parameters and value != ABSENT
        }
        instance = self._instance(parameters, suffix)
        check.refuse(instance)
        if not is_gpu(self.chip):
            instance = replace(instance, objects=tuple(map(hidden_copy, instance.objects)))
        return Call(instance, self.problem)

    def _instance(self, parameters: dict[str, int], suffix: str) -> Instance:
        manifest, features = self.manifest, read_features(self.executable_target)
        bind = partial(manifest.bind, self.problem, self.chip, parameters=parameters, features=features)
        provider = PROVIDERS.get(manifest.provider.kind)
        if provider is None or self.objects:
            return bind(objects=self.objects, symbol=self.symbol)
        built = provider.build(
            Request(manifest, self.problem, self.chip, self.workspace, parameters, features, suffix=suffix)
        )
        return built.called(bind(objects=(built.path,), symbol=self.symbol, reports=built.reports))


def hidden_copy(path: Path) -> Path:
    """The same object where all of its names are hidden already, a copy of the same name otherwise.

    A name that is visible from outside is called through a table that a dynamic loader fills. The loader of IREE's
    embedded executables leaves that table as it is on aarch64: the first call of the kernel ends in SIGSEGV.
    """
    data = path.read_bytes()
    try:
        changed = hide(data)
    except (ValueError, ELFError) as error:
        raise UsageError(f"{path} is a damaged object: {error}.", remedy="Make or copy it again.") from None
    if changed == data:
        return path

    def make(making: Path) -> dict[str, int]:
        making.write_bytes(changed)
        return {}

    return kept_object(path.name, content_digest(changed), make)[0]


def fits(manifest: Manifest, problem: Problem, chip: str, *, executable_target: str = "") -> bool:
    """Does any choice of its parameters compute the problem? Mostly the first one tells."""
    with contextlib.suppress(DoesNotFitError):
        given = manifest.given(problem, chip, features=read_features(executable_target))
        for setting in manifest.settings():
            with contextlib.suppress(DoesNotFitError):
                manifest.choose(given, setting)
                return True
    return False


def find_variants(
    wanted: Sequence[Kernel],
    problem: Problem,
    *,
    chip: str,
    workspace: Path,
    executable_target: str = "",
) -> tuple[list[Variants], list[str]]:
    """Those that were asked for, which must fit, or with `auto` all that do; and why others were left out."""
    found: list[Variants] = []
    manifests, notes = find_manifests(wanted, chip=chip, workspace=workspace)
    unfit: dict[str, list[str]] = {}
    for manifest, kernel in manifests:
        try:
            variants = Variants.of(
                manifest, problem, chip, workspace=workspace, kernel=kernel, executable_target=executable_target
            )
        except DoesNotFitError as error:
            if kernel is not None:
                raise
            why = error.message.removeprefix(f"{manifest.name}: ").rstrip(".")
            unfit.setdefault(why, []).append(manifest.name)
        else:
            found.append(variants)
    for why, names in unfit.items():
        notes.append(f"microkernel{'s' * (len(names) > 1)} left out ({why}): {', '.join(names)}")
    return found, notes


def refuse_unfit(wanted: Sequence[Kernel], problem: Problem, *, chip: str, workspace: Path) -> None:
    """Before anything is compiled: a kernel that was named and is not there, or computes something else."""
    named = [kernel for kernel in wanted if kernel.name != AUTO]
    for manifest, kernel in find_manifests(named, chip=chip, workspace=workspace)[0]:
        if not manifest.computes(problem, chip):
            Variants.of(manifest, problem, chip, workspace=workspace, kernel=kernel)  # says why not


def find_manifests(
    wanted: Sequence[Kernel], *, chip: str, workspace: Path
) -> tuple[list[tuple[Manifest, Kernel | None]], list[str]]:
    """Those that were asked for, each once, with what the user said of it or None where `auto` found it; and notes."""
    folders = search_folders(workspace)
    found: dict[str, tuple[Manifest, Kernel | None]] = {}
    notes = []
    for kernel in wanted:
        if kernel.name != AUTO:
            manifest = find(kernel.name, folders)
            found[manifest.name] = (manifest, kernel)
            continue
        listing = all_manifests(folders)
        notes += [f"microkernel {broken.name} is left out: {broken.why}" for broken in listing.broken]
        without: dict[str, list[str]] = {}
        for manifest in listing.manifests:
            if lacking := _lacking(manifest, chip):
                without.setdefault(lacking, []).append(manifest.name)
            else:
                found.setdefault(manifest.name, (manifest, None))
        for lacking, names in without.items():
            notes.append(f"microkernel{'s' * (len(names) > 1)} {', '.join(names)} left out: {lacking}")
    return list(found.values()), notes


def _lacking(manifest: Manifest, chip: str) -> str:
    """What must be installed before this kernel can be built for this chip: those for which there are others do not end
    a run for want of it, nor fail one by one."""
    provider = PROVIDERS.get(manifest.provider.kind)
    if provider is None or chip not in manifest.chips:
        return ""
    try:
        provider.require(chip)
    except ToolMissingError as error:
        return str(error)
    return ""


def kernel_chip(target: Target, device: str) -> str:
    """What a kernel's object must be for: the chip that it runs on, not the one that IREE compiles for."""
    there = target.backend.chip_there(which_device(device)) if device != NO_DEVICE else None
    if target.chip and there and there != target.chip:
        raise UsageError(f"--chip {target.chip}, and {device} is {there}.", remedy="Leave it out: the device is asked.")
    return there or target.kernel_chip
