"""The variants of a microkernel for one problem on one chip: a search space of its parameters, and a call for each
point."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from autotuner.errors import ToolMissingError, UsageError
from autotuner.iree.processor import read_features
from autotuner.microkernels import check
from autotuner.microkernels.instance import Call, Instance, search_folders, shipped_folder
from autotuner.microkernels.library import all_manifests, find, is_shipped
from autotuner.microkernels.manifest import DoesNotFitError, Manifest
from autotuner.microkernels.providers import PROVIDERS
from autotuner.microkernels.providers.provider import Request
from autotuner.problems import Operation, Problem
from autotuner.space import ABSENT, Config, Knob, Space
from autotuner.system.cache import Cache
from autotuner.system.digests import path_digest
from autotuner.targets import NO_DEVICE, Target
from autotuner.targets.naming import which_device

AUTO = "auto"
LEADING = 10
"""How many variants a search begins with, where the manifest has an estimate."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A microkernel as the user names it, with the user's own object and symbol if given."""

    name: str
    objects: tuple[Path, ...] = ()
    symbol: str | None = None
    trusted: bool = False
    """The user vouches for it: hazards in its object are not refused."""


@dataclass(frozen=True)
class Variants:
    """The variants of one manifest for one problem and chip."""

    manifest: Manifest
    problem: Problem
    chip: str
    space: Space
    workspace: Path
    objects: tuple[Path, ...] = ()
    """The user's own objects, instead of the manifest's."""
    symbol: str | None = None
    executable_target: str = ""
    """The compiler's executable target on a processor: it says which instructions a kernel in C may use."""
    ranked: tuple[Config, ...] = ()
    """Configurations by the manifest's estimate, the fastest first; empty without one."""
    expected: float = math.inf
    """The estimate of the first: those of all kernels for a chip are comparable."""
    trusted: bool = False

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
        """The variants that fit the problem; a refusal where none does. `kernel` may bring the user's own object.

        With `first` there is one variant: the fastest by the manifest's estimate of those with these values, else the
        defaults with these values; where none of these fits, of all.
        """
        own = kernel or Kernel(manifest.name)
        wanted = {name: value for name, value in (first or {}).items() if value in manifest.parameters.get(name, ())}
        features = read_features(executable_target)
        fitting = _fitting(manifest, manifest.given(problem, chip, symbol=own.symbol, features=features), wanted)
        # Where nothing is estimated, the first that fits is told without the thousands behind it.
        found = list(fitting if first is None or manifest.estimate is not None else itertools.islice(fitting, 1))
        if manifest.estimate is not None:
            found.sort(key=lambda one: (not wanted.items() <= one[1].items(), one[0]))
        if first is not None:
            found = found[:1]
        knobs = [Knob(name, tuple(sorted(choices))) for name, choices in manifest.parameters.items()]
        rows = [[knob.values.index(setting[knob.name]) for knob in knobs] for _, setting in found]
        space = Space(knobs, np.array(rows, np.int64).reshape(len(rows), len(knobs)))
        many = manifest.estimate is not None and first is None
        ranked = tuple(Config(tuple(setting.items())) for _, setting in found) if many else ()
        least = found[0][0] if many else math.inf
        fields = (own.objects, own.symbol, executable_target, ranked, least, own.trusted)
        return cls(manifest, problem, chip, space, workspace, *fields)

    @property
    def shipped(self) -> bool:
        """Whether it comes with autotune, with its own object."""
        return not self.objects and is_shipped(self.manifest.name)

    def digest(self) -> str:
        """The digest of all that it is made from: its folder, the shared headers, and the user's own objects."""
        shared = sorted(path for path in shipped_folder().iterdir() if path.is_file())
        return Cache.key([path_digest(path) for path in (self.manifest.file.parent, *shared, *self.objects)])

    def default(self) -> Config:
        """The fastest by the manifest's estimate; without one, the default parameters or the nearest that fit."""
        if self.ranked:
            return self.ranked[0]
        wanted = next(self.manifest.settings())
        return self.space[self.space.nearest(dict(wanted))]

    def leading(self) -> tuple[Config, ...]:
        """The variants that a search begins with."""
        return self.ranked[:LEADING] or (self.default(),)

    def call(self, config: Config) -> Call:
        """The kernel with these parameters: built if it comes from source, bound, and checked against its object."""
        parameters = {
            name: int(value) for name, value in config.items if name in self.manifest.parameters and value != ABSENT
        }
        instance = self._instance(parameters)
        check.refuse(instance)
        if not (self.trusted or self.shipped):
            check.refuse_hazards(instance.name, instance.objects)
        view = self.manifest.declared(self.problem, self.chip)
        return Call(instance, self.problem, view if view != self.problem else None)

    def _instance(self, parameters: dict[str, int]) -> Instance:
        manifest, features = self.manifest, read_features(self.executable_target)
        bind = partial(manifest.bind, self.problem, self.chip, parameters=parameters, features=features)
        entry = PROVIDERS.get(manifest.provider.kind)
        if entry is None or self.objects:
            return bind(objects=self.objects, symbol=self.symbol)
        built = entry.load().build(Request(manifest, self.problem, self.chip, self.workspace, parameters, features))
        return built.called(bind(objects=(built.path,), symbol=self.symbol, reports=built.reports))


def _fitting(
    manifest: Manifest, given: Mapping[str, int], wanted: Mapping[str, int] | None = None
) -> Iterator[tuple[int, dict[str, int]]]:
    """The parameter choices that fit, each with its estimate, the defaults with those `wanted` before all; a refusal
    where none does."""
    refused: DoesNotFitError | None = None
    none = True
    first = [_chosen(manifest, given, {**next(manifest.settings()), **wanted})] if wanted else []
    for numbers in itertools.chain(first, manifest.choices(given)):
        if isinstance(numbers, DoesNotFitError):
            refused = refused or numbers
        else:
            none = False
            yield manifest.expected(numbers), {name: numbers[name] for name in manifest.parameters}
    if none:
        why = refused.message.removeprefix(f"{manifest.name}: ") if refused else ""
        remedy = "Choose another shape or kernel."
        raise DoesNotFitError(f"{manifest.name}: none of its variants fits: {why}", remedy=remedy)


def _chosen(
    manifest: Manifest, given: Mapping[str, int], setting: Mapping[str, int]
) -> dict[str, int] | DoesNotFitError:
    try:
        return manifest.choose(given, setting)
    except DoesNotFitError as error:
        return error


def fits(manifest: Manifest, problem: Problem, chip: str, *, executable_target: str = "") -> bool:
    """Whether any parameter choice computes the problem; mostly the first one tells."""
    try:
        given = manifest.given(problem, chip, features=read_features(executable_target))
        return any(True for _ in _fitting(manifest, given))
    except DoesNotFitError:
        return False


def find_variants(
    wanted: Sequence[Kernel],
    problem: Problem,
    *,
    chip: str,
    workspace: Path,
    executable_target: str = "",
) -> tuple[list[Variants], list[str]]:
    """The variants of the kernels that were named, which must fit, or with `auto` of all shipped ones that do; and what
    others lack to be built."""
    found: list[Variants] = []
    fitting = partial(fits, problem=problem, chip=chip, executable_target=executable_target)
    manifests, notes = find_manifests(
        wanted, chip=chip, workspace=workspace, operations=_own_operation(problem), fitting=fitting
    )
    for manifest, kernel in manifests:
        with suppress(*([DoesNotFitError] if kernel is None else [])):
            found.append(
                Variants.of(
                    manifest, problem, chip, workspace=workspace, kernel=kernel, executable_target=executable_target
                )
            )
    return found, notes


def refuse_unfit(wanted: Sequence[Kernel], problem: Problem, *, chip: str, workspace: Path) -> None:
    """Refuses kernels that were named and do not exist or do not fit, before anything is compiled."""
    for kernel in wanted:
        if kernel.name != AUTO:
            find(kernel.name, search_folders(workspace), _own_operation(problem)).declared(problem, chip)


def _own_operation(problem: Problem) -> Mapping[str, type[Operation]]:
    """The problem's own operation, and those that it can be seen as: manifests for others are passed over."""
    return {view.op: type(view) for view in problem.views()} if isinstance(problem, Operation) else {}


def find_manifests(
    wanted: Sequence[Kernel],
    *,
    chip: str,
    workspace: Path,
    operations: Mapping[str, type[Operation]],
    fitting: Callable[[Manifest], bool] = lambda _: True,
) -> tuple[list[tuple[Manifest, Kernel | None]], list[str]]:
    """The manifests that were named, each once, with the user's words, or None where `auto` found it; and what must be
    installed for others that are `fitting`."""
    found: dict[str, tuple[Manifest, Kernel | None]] = {}
    lacking: dict[str, list[str]] = {}
    for kernel in wanted:
        if kernel.name != AUTO:
            found[kernel.name] = (find(kernel.name, search_folders(workspace), operations), kernel)
            continue
        for manifest in all_manifests([shipped_folder()], operations).manifests:
            if not (lack := _lacking(manifest, chip)):
                found.setdefault(manifest.name, (manifest, None))
            elif fitting(manifest):
                lacking.setdefault(lack, []).append(manifest.name)
    return list(found.values()), [
        f"microkernels that may be several times faster are left out ({', '.join(names)}): {lack}"
        for lack, names in lacking.items()
    ]


def _lacking(manifest: Manifest, chip: str) -> str:
    """What must be installed to build this kernel for this chip; empty: nothing. With `auto` such a kernel is left out
    of the run."""
    entry = PROVIDERS.get(manifest.provider.kind)
    if entry is None or chip not in manifest.chips:
        return ""
    try:
        entry.load().require(chip)
    except ToolMissingError as error:
        return str(error)
    return ""


def kernel_chip(target: Target, device: str) -> str:
    """The chip of a kernel's object: the one that it runs on, not the one that IREE compiles for."""
    there = target.backend.chip_there(which_device(device)) if device != NO_DEVICE else None
    if target.chip and there and there != target.chip:
        raise UsageError(f"--chip {target.chip}, and {device} is {there}.", remedy="Leave it out: the device is asked.")
    return there or target.kernel_chip
