"""The contents of a tuned model: tuned dispatches, and microkernels where they fit; their files, and the proof that
they arrive."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from autotuner._version import __version__
from autotuner.build.proof import proven
from autotuner.carriers.carrier import (
    FileHeader,
    FlagsCarrier,
    MicrokernelCarrier,
    Parts,
    SpecCarrier,
    SubstitutionCarrier,
)
from autotuner.carriers.provenance import Provenance
from autotuner.errors import AutotuneError, OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.iree.tools import Tools
from autotuner.jobs.model.context import Context
from autotuner.microkernels.instance import Call
from autotuner.microkernels.manifest import Manifest
from autotuner.microkernels.variants import Variants, find_manifests, fits
from autotuner.patterns.forms import Forms
from autotuner.patterns.operations import Operation, Reading, forms_of, read_joins, read_operations
from autotuner.problems import Problem
from autotuner.problems.accuracy import Precision
from autotuner.problems.operations import OPERATIONS
from autotuner.programs.flow import Group
from autotuner.registry.folder import Known
from autotuner.space import Config
from autotuner.specfiles.merge import merge
from autotuner.system.execution import local_executor
from autotuner.tuning.plan import Candidate
from autotuner.tuning.result import Result
from autotuner.tuning.ship import ESTIMATED


@dataclass(frozen=True)
class Entry:
    """A dispatch, or several with the same root, that is faster with this configuration."""

    label: str
    group: Group
    result: Result | None
    """None: it was not searched here, and its spec says where it comes from."""
    candidate: Candidate = field(repr=False)

    def provenance(self, command: str, tools: Tools) -> Provenance | None:
        result = self.result
        if result is None:
            return None
        return Provenance(
            problem=self.label,
            target=result.target,
            device=result.device,
            verdict=_verdict(result),
            us=result.best.us if result.best else None,
            baseline_us=result.baseline.us,
            command=command,
        ).stamped(tools, result.speedup, result.environment if result.best and result.best.us else None)


@dataclass(frozen=True)
class KernelEntry:
    """A kernel that goes into the model."""

    label: str
    place: Place
    variants: Variants = field(repr=False)
    config: Config = field(repr=False)
    result: Result | None = None
    """None without a search: it is taken by its defaults, or as the registry knows it."""
    known: Known | None = None

    @cached_property
    def call(self) -> Call:
        """Its object is built when it is first needed."""
        return self.variants.call(self.config)

    def provenance(self, context: Context, command: str) -> Provenance:
        result = self.result
        if self.known is not None and result is None:
            return self.known.entry.provenance(self.label)
        return Provenance(
            problem=self.label,
            target=context.target.name,
            device=context.session.device,
            verdict="judged in the model" if context.timed else "compile-only: proven in the model, never timed",
            us=result.best.us if result and result.best else None,
            baseline_us=result.baseline.us if result else None,
            command=command,
        ).stamped(context.session.tools, None, context.run.environment if context.timed else None)


def _verdict(result: Result) -> str:
    if result.verdict == "compile-only":
        return ESTIMATED
    return "win" if result.verdict == "win" else "judged in the model"


def build_objects(kernels: Sequence[KernelEntry], *, jobs: int) -> dict[str, str]:
    """Makes their objects side by side, each in a process of its own; why some cannot be made, by their labels."""

    def made(entry: KernelEntry) -> str:
        try:
            _ = entry.call
        except OutOfTimeError:
            raise
        except AutotuneError as error:
            return error.message
        return ""

    with local_executor(jobs) as builders:
        begun = [(entry.label, builders.submit(made, entry)) for entry in kernels]
        return {label: why for label, job in begun if (why := job.result())}


def kernel_parts(context: Context, kernels: Sequence[KernelEntry], executable_target: str, *, command: str) -> Parts:
    """The spec of these kernels and their objects; `command` made the model."""
    tools, calls = context.session.tools, tuple(entry.call for entry in kernels)
    said = FileHeader(
        [
            f"{MicrokernelCarrier.title} by autotune {__version__}",
            f"target:     {context.target.name}; IREE {tools.release} ({tools.build})",
            *(f"kernel:     {call.instance.name} for {call.problem.name}" for call in calls),
            f"made by:    {' '.join(command.split())}",
        ],
        each=[entry.provenance(context, command) for entry in kernels],
    )
    return MicrokernelCarrier(calls, executable_target, tuple(entry.place.forms for entry in kernels)).parts(said)


def assemble(
    entries: Sequence[Entry], configured: Mapping[str, str], *, tools: Tools, command: str, spec_flag: str
) -> Parts:
    """One spec of all entries that a spec carries; the model's own executables, configured, for the others."""
    texts: list[str] = []
    executables: dict[str, str] = {}
    for entry in entries:
        carrier = entry.candidate.carrier
        said = FileHeader([f"{carrier.title} by autotune {__version__}"], entry.provenance(command, tools))
        parts = carrier.parts_in({symbol: configured[symbol] for symbol in entry.group.symbols}, said)
        texts += [parts.spec] if parts.spec is not None else []
        executables.update(parts.executables)
    spec = merge(texts, tools=tools, force=True).text if texts else None
    main = SpecCarrier if texts else SubstitutionCarrier if executables else FlagsCarrier
    return Parts(main.name, spec, spec_flag, executables)


def applied(build: Compiled, entry: Entry) -> tuple[int, str]:
    """In how many of its dispatches an entry's configuration really is, and what is wrong with the first other one."""
    if entry.candidate.info is None:
        return 0, "it has no configuration"
    count, wrong = 0, ""
    for symbol in entry.group.symbols:
        text = build.executables.get(symbol)
        found, why = proven([text], entry.candidate.info) if text is not None else (0, "the model does not have it")
        count += bool(found)
        wrong = wrong or ("" if found else f"{symbol}: {why}")
    return count, wrong


def carriers(entries: Iterable[Entry]) -> dict[str, int]:
    """How many entries each way of carrying has."""
    return dict(Counter(entry.candidate.carrier.name for entry in entries))


@dataclass(frozen=True)
class Place:
    """Operations of the model that are one problem, with what IREE fuses to them, and kernels that compute it."""

    problem: Problem
    forms: Forms
    calls: int
    kernels: tuple[str, ...]
    """The first that fits; where it is searched, all that do."""
    constant: bool
    """The weights of all of them are constants."""
    group: Group | None = None
    """The dispatches that the compiler makes of them; None where they are not known."""


@dataclass(frozen=True)
class Library:
    """The microkernels that were asked for, and what is known of which problem they compute."""

    context: Context
    manifests: tuple[Manifest, ...]
    chip: str
    executable_target: str
    """What the compiler makes code for, on a processor."""
    allow: Precision = ""
    """The accuracy that is accepted of their results."""
    _first: dict[Problem, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def open(cls, context: Context, executable_target: str) -> Library:
        chip, workspace = context.session.chip, context.session.workspace.root
        found, notes = find_manifests(
            context.options.microkernels, chip=chip, workspace=workspace, operations=OPERATIONS
        )
        for note in notes:
            context.note(note)
        manifests = tuple(manifest for manifest, _ in found)
        return cls(context, manifests, chip, executable_target, allow=context.model.allow)

    def places(self, preprocessed: str) -> list[Place]:
        """Those of a program as a spec finds it; none where it cannot be read, and that is said."""
        try:
            allow = self.allow
            joins = [j for j in read_joins(preprocessed) if all(self.first(p.accepting(allow)) for p in j.problems)]
            return self._places([one.accepting(allow) for one in read_operations(preprocessed, joins=tuple(joins))])
        except OutOfTimeError:
            raise
        except AutotuneError as error:
            self.context.note(f"no microkernel joins: {error}")
            return []

    def _places(self, operations: Sequence[Operation]) -> list[Place]:
        """By problem: of each operation the most that some kernel computes as one piece."""
        found: dict[Problem, list[Reading]] = {}
        chosen: dict[int, Reading] = {}
        for place in reversed(range(len(operations))):  # what includes others stands behind them
            if not any(place in reading.covers for reading in chosen.values()):
                fitting = (reading for reading in operations[place].readings if self.first(reading.problem))
                if (reading := next(fitting, None)) is not None:
                    chosen[place] = reading
        for place in sorted(chosen):
            found.setdefault(chosen[place].problem, []).append(chosen[place])
        return [
            Place(problem, forms_of(readings), len(readings), self.first(problem), all(r.constant for r in readings))
            for problem, readings in found.items()
        ]

    def first(self, problem: Problem) -> tuple[str, ...]:
        """Of the kernels that take the problem as it is the one that is expected to be fastest; only a search needs the
        others.

        What is transposed around a kernel is no part of its estimate, and cannot be: how much of that is left in the
        model is up to what stands before and behind it. So such a kernel is the first only where there is no other.
        """
        if problem not in self._first:
            fitting = [manifest for manifest in self.manifests if self._fits(manifest, problem)]
            fitting = [one for one in fitting if not one.moves(problem)] or fitting
            if len(fitting) > 1:  # to ask one for its estimates takes tenths of a second
                fitting.sort(key=lambda one: self._expected(one, problem))
            self._first[problem] = tuple(manifest.name for manifest in fitting[:1])
        return self._first[problem]

    def all(self, problem: Problem) -> tuple[str, ...]:
        return tuple(manifest.name for manifest in self.manifests if self._fits(manifest, problem))

    def _expected(self, manifest: Manifest, problem: Problem) -> float:
        # Nothing is built: the workspace does not matter.
        offer = Variants.of(manifest, problem, self.chip, workspace=Path(), executable_target=self.executable_target)
        return offer.expected

    def _fits(self, manifest: Manifest, problem: Problem) -> bool:
        return fits(manifest, problem, self.chip, executable_target=self.executable_target)
