"""Microkernels in a model's search: where they fit, how fast they are alone, and what speaks for or against each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autotuner.build import BuildJob
from autotuner.carriers.microkernel import SPEC_FLAG, executable_target
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import CONFIGURED, ROOT_ATTRIBUTES, CompilerRefusal
from autotuner.iree.mlir import read_root
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.entries import KernelEntry, Library, Place, gain_of
from autotuner.microkernels.instance import search_folders
from autotuner.microkernels.library import find
from autotuner.microkernels.variants import Kernel, Variants
from autotuner.problems import Problem
from autotuner.problems.render import problem_mlir
from autotuner.programs.flow import Group, root_key
from autotuner.programs.structure import ModelStructure, Shares
from autotuner.space import Config
from autotuner.targets import Route, Target
from autotuner.tuning.options import Task
from autotuner.tuning.plan import KERNEL
from autotuner.tuning.pool import WORK
from autotuner.tuning.result import Counts, Result
from autotuner.tuning.single import SingleRun
from autotuner.tuning.together import Part

PACKED = "packed"
"""The parameter of a manifest that has constant weights packed before the program runs."""
TASK = Task(race=False, ship=False, recall=True, microkernels_alone=True)
EXPECTED_GAIN = 0.3
"""The part of its time that a kernel is thought to save of a place as long as nothing is known."""


def no_time(seconds: float) -> str:
    """Why a dispatch or a place of kernels was not tuned that nothing but the budget is in the way of."""
    left = f"all dispatches together have {seconds:.0f} s" if seconds >= 1 else "none is left for dispatches"
    return f"no time for it: {left} (--budget)"


@dataclass(frozen=True)
class KernelRow:
    """A place, and what became of it."""

    place: Place
    state: str = "ranked"
    """`taken`, `codegen` (the compiler's code is faster), `skipped`, `left-out` or `dropped`."""
    reason: str = ""
    kernel: str = ""
    us: float | None = None
    """Of the kernel alone."""
    codegen_us: float | None = None
    """Of the compiler's best code for the same, alone."""
    result: Result | None = None
    applied: int = 0

    def to_json(self) -> dict[str, Any]:
        place, group = self.place, self.place.group
        best = self.result.best if self.result else None
        return {
            "problem": place.problem.name,
            "calls": place.calls,
            "share": place.share,
            "dispatches": list(group.symbols) if group else [],
            "fits": list(place.kernels),
            "kernel": self.kernel or None,
            "config": dict(best.config) if best else {},
            "us": self.us,
            "codegen_us": self.codegen_us,
            "state": self.state,
            "reason": self.reason,
            "applied": self.applied,
            "run": self.result.run if self.result else None,
        }


@dataclass
class KernelSearch:
    """The places of a model on one route, and the search of each one's kernels."""

    context: Context
    target: Target
    """With the route's flags."""
    executable_target: str = ""
    """What the compiler makes code for, on a processor."""
    library: Library | None = None
    rows: dict[str, KernelRow] = field(default_factory=dict)
    parts: dict[str, Part] = field(default_factory=dict)
    seconds: float = 0.0
    """That dispatches and places have in all."""

    @classmethod
    def find(
        cls,
        context: Context,
        target: Target,
        route: Route,
        structure: ModelStructure,
        shares: Shares,
        library: Library | None = None,
    ) -> KernelSearch:
        """Asks the compiler for the operations of the model as it has them when a spec replaces some."""
        found = cls(context, target, executable_target_of(context, structure))
        if not context.options.microkernels:
            return found
        if any(flag.startswith(SPEC_FLAG) for flag in context.flags(route)):
            context.note("no microkernel joins: there is a preprocessing spec already, and there can be only one")
            return found
        context.stage("looking for operations that microkernels compute")
        with context.clocked("space"):
            found.library = library or Library.open(context, found.executable_target)
            places = found.library.places(structure.preprocessed)
            groups = _groups(context, target, places, structure)
            for place in places:
                found.rows[place.problem.name] = KernelRow(replace(place, group=groups.get(place.problem)))
            found.rank(structure.flops, shares)
        if not places:
            context.note(f"no microkernel fits any operation of the model on route {route.name}")
        return found

    def rank(self, flops: int, shares: Shares) -> None:
        """Each place with its part of the time, the largest first; what was left out for its part may now be wanted.

        `flops` are the model's.
        """
        rows = [replace(row, place=_placed(row.place, flops, shares)) for row in self.rows.values()]
        rows = [replace(row, state="ranked", reason="") if row.state == "left-out" else row for row in rows]
        rows.sort(key=lambda row: row.place.share, reverse=True)
        self.rows = {row.place.problem.name: row for row in rows}
        self._leave_out()

    def _leave_out(self) -> None:
        """What the user wants no search for, as with dispatches."""
        for number, (label, row) in enumerate(self.rows.items()):
            if row.state != "ranked":
                continue
            if why := self.context.model.leaves_out(row.place.share, chosen=number):
                self.set_row(label, state="left-out", reason=why)

    @property
    def wanted(self) -> dict[str, KernelRow]:
        """Those that are searched."""
        return {label: row for label, row in self.rows.items() if row.state == "ranked"}

    def begin(self, *, budget: float, number: int, count: int) -> list[Part]:
        """A search for each place; the numbers are for those who watch."""
        context, self.seconds = self.context, budget
        for label in self.wanted:
            if self.library is not None:
                place = self.rows[label].place
                self.set_row(label, place=replace(place, kernels=self.library.all(place.problem)))
            row = self.rows[label]
            kernels = [kernel for kernel in context.options.microkernels if kernel.name in row.place.kernels]
            named = {kernel.name for kernel in kernels}
            kernels += [Kernel(name) for name in row.place.kernels if name not in named]
            options = replace(context.options, budget=budget, microkernels=tuple(kernels))
            session = context.run.within(f"[{number}/{count}] {label}: ")
            run = SingleRun(row.place.problem, self.target, options, session, TASK)
            self.parts[label] = Part(f"{label} by microkernels", run, row.place.share)
            number += 1
        return list(self.parts.values())

    def leave_rest(self, why: str) -> None:
        """None of those that are wanted is searched; what stands by its defaults is not among them."""
        for label in self.wanted:
            self.set_row(label, state="left-out", reason=why)

    def defaults(self) -> list[KernelEntry]:
        """A kernel for every place, by its defaults; with --top for the first ones only.

        Nothing is known of them alone: the model is the judge.
        """
        every = self.context.model.top is None
        return [self._default(label, row.place) for label, row in self.rows.items() if every or row.state == "ranked"]

    def more(self, preprocessed: str) -> list[KernelEntry]:
        """Kernels by their defaults for what a program still has that calls others already.

        Of two convolutions that are added, either may have the other as its residual: which one the compiler takes
        is known only then.
        """
        if self.library is None or self.context.model.top is not None:
            return []
        new = [place for place in self.library.places(preprocessed) if place.problem.name not in self.rows]
        for place in new:
            self.rows[place.problem.name] = KernelRow(place, state="left-out", reason="found beside other microkernels")
        return [self._default(place.problem.name, place) for place in new]

    def _default(self, label: str, place: Place) -> KernelEntry:
        context, name = self.context, place.kernels[0]
        root = context.session.workspace.root
        variants = Variants.of(
            find(name, search_folders(root)),
            place.problem,
            context.session.chip,
            workspace=root,
            kernel=next((kernel for kernel in context.options.microkernels if kernel.name == name), None),
            executable_target=self.executable_target,
            first={PACKED: 1} if place.constant else {},
        )
        self.set_row(label, kernel=name)
        return KernelEntry(label, place, place.share, EXPECTED_GAIN, variants, variants.space[0])

    def decide(self, codegen: Mapping[Group, float], standing: Sequence[KernelEntry]) -> list[KernelEntry]:
        """The kernels of the model: by what its search found, or as it stands there by its defaults.

        A kernel that is slower alone than the compiler's best code for the same dispatches (in µs) is none of them.
        """
        there = {entry.label: entry for entry in standing}
        reason = "by its defaults" if self.context.timed else "by its defaults, never timed"
        for label, entry in there.items():
            self.set_row(label, state="taken", reason=reason, kernel=entry.variants.manifest.name)
        for label in self.parts:
            found = self._decide(label, codegen)
            if found is not None:
                there[label] = found
            elif self.rows[label].state == "codegen":
                there.pop(label, None)
                self.set_row(label, applied=0)
        return list(there.values())

    def _decide(self, label: str, codegen: Mapping[Group, float]) -> KernelEntry | None:
        context, part, row = self.context, self.parts[label], self.rows[label]
        if part.found is None:
            timed_out = part.error is None or isinstance(part.error, OutOfTimeError)
            if timed_out:
                self._not_searched(label, "left-out", no_time(self.seconds))
            else:
                self._not_searched(label, "skipped", str(part.error))
            return None
        found, result = part.found, part.found.result
        spent = {step: used for step, used in result.seconds.items() if step not in WORK}
        context.run.account.add(spent)
        context.session.reporter.note(f"{label} by microkernels: {result.verdict}, {result.reason}")
        winner = found.winner or found.leader
        if winner is None and not context.timed and result.counts.built + result.counts.cached > 1:
            # Nothing tells which variant is faster: the manifest's own choice was built and proven.
            winner = found.plan.candidate(found.plan.first[0], id="default")
        there = codegen.get(row.place.group) if row.place.group is not None else None
        other = min((us for us in (there, result.baseline.us) if us is not None), default=None)
        own = result.best.us if result.best is not None else None
        self.set_row(label, result=result, us=own, codegen_us=other)
        if winner is None:
            if not says_something(result.verdict, result.counts):
                self._not_searched(label, "left-out", no_time(self.seconds))
            else:
                self.set_row(label, state="codegen", reason=result.reason)
            return None
        variants, config = _chosen(winner.config, found.plan.kernels, row.place)
        self.set_row(label, kernel=variants.manifest.name)
        if own is not None and other is not None and own >= other:
            self.set_row(label, state="codegen", reason=f"alone it takes {own:.1f} µs, the compiler's code {other:.1f}")
            return None
        times = f"alone it takes {own:.1f} µs, the compiler's code {other:.1f}" if own and other else "it is not timed"
        self.set_row(label, state="taken", reason=times)
        return KernelEntry(label, row.place, row.place.share, gain_of(result), variants, config, result)

    def _not_searched(self, label: str, state: str, why: str) -> None:
        """One that stands in the model by its defaults stays there."""
        if self.rows[label].state == "taken":
            self.set_row(label, reason=f"by its defaults: {why}")
        else:
            self.set_row(label, state=state, reason=why)

    @property
    def results(self) -> list[Result]:
        return [row.result for row in self.rows.values() if row.result is not None]

    def set_row(self, label: str, **values: object) -> None:
        self.rows[label] = replace(self.rows[label], **values)  # type: ignore[arg-type]


def says_something(verdict: str, counts: Counts) -> bool:
    """Whether a search tells anything against a kernel: one whose time was up before the first was timed does not."""
    return verdict != "inconclusive" or counts.rivals > 0


def executable_target_of(context: Context, structure: ModelStructure) -> str:
    """What the compiler makes code for on a processor; empty elsewhere, and where a model has no executable."""
    text = next(iter(structure.configured.values()), "") if context.target.backend.on_host else ""
    return executable_target(text) if text else ""


def _groups(
    context: Context, target: Target, places: Sequence[Place], structure: ModelStructure
) -> dict[Problem, Group]:
    """The dispatches of each place: those whose root is what the compiler makes of the problem alone."""
    known = {root_key(group.root): group for group in structure.groups}
    flags, timeout = (*target.compile_flags, ROOT_ATTRIBUTES), context.options.effort.compile_timeout
    jobs = {
        place.problem: context.session.executor.inspect(
            BuildJob(problem_mlir(place.problem), flags, timeout, stop=CONFIGURED, dumps=())
        )
        for place in places
    }
    found = {}
    for problem, job in jobs.items():
        try:
            root = read_root(job.result())
        except CompilerRefusal:
            continue
        if root is not None and root_key(root) in known:
            found[problem] = known[root_key(root)]
    return found


def _placed(place: Place, flops: int, shares: Shares) -> Place:
    """With its part of the model's time: of its dispatches, or else by its arithmetic."""
    if (group := place.group) is not None:
        share = shares.of([piece.export for piece in group.pieces])
        return replace(place, share=share * min(place.calls / group.calls, 1.0))
    return replace(place, share=place.problem.flops * place.calls / flops if flops else 0.0)


def _packed(variants: Variants, config: Config, place: Place) -> Config:
    """The same, where weights are constants with these packed before the program runs, if the kernel can."""
    wanted = {**config.as_dict(), PACKED: 1}
    if not place.constant or PACKED not in config.as_dict():
        return config
    nearest = variants.space[variants.space.nearest(wanted)]
    return nearest if nearest.as_dict() == wanted else config


def _chosen(config: Config, kernels: Mapping[str, Variants], place: Place) -> tuple[Variants, Config]:
    """The variant that was found."""
    variants = kernels[str(config[KERNEL])]
    values = {name: value for name, value in config.items if name in variants.manifest.parameters}
    return variants, _packed(variants, variants.space[variants.space.nearest(values)], place)
