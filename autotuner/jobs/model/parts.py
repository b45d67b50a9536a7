"""Searches the parts of a model on one route: its dispatches, and the operations that microkernels compute.

Each part goes through the core loop as a problem of its own, the largest first, with its share of the time.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from autotuner.carriers.microkernel import SPEC_FLAG
from autotuner.errors import AutotuneError, OutOfTimeError
from autotuner.iree.processor import executable_target
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.entries import Entry, KernelEntry, Library, Place
from autotuner.jobs.model.rows import DispatchRow, KernelRow, Row
from autotuner.jobs.model.shares import on_route
from autotuner.microkernels.instance import search_folders
from autotuner.microkernels.library import find
from autotuner.microkernels.variants import Kernel, Variants
from autotuner.problems import Problem
from autotuner.problems.operations import OPERATIONS
from autotuner.programs.dispatch import DispatchProblem, runs_alone
from autotuner.programs.flow import Group
from autotuner.programs.structure import ModelStructure, Shares, by_work
from autotuner.space import Config
from autotuner.space.table import Value
from autotuner.system.progress import LEAST_BUDGET
from autotuner.targets import PLAIN, Route
from autotuner.tuning.options import Task
from autotuner.tuning.plan import KERNEL
from autotuner.tuning.result import Result
from autotuner.tuning.run import Turn
from autotuner.tuning.single import Found
from autotuner.tuning.tune import search

PACKED = "packed"
"""The parameter of a manifest that has constant weights packed before the program runs."""
COMPUTED = "a microkernel computes it"
"""Why a dispatch is not searched beside the microkernels of the model."""
EXPECTED_GAIN = 0.3
"""The part of a dispatch's time that tuning may save, where nothing is known."""
_KIND = {"contraction": "matmul", "convolution": "conv", "attention": "attention"}


@dataclass
class PartSearch:
    """The parts of a model on one route, ranked, with the result of each."""

    context: Context
    route: Route
    structure: ModelStructure
    shares: Shares
    rows: dict[str, Row] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    library: Library | None = None

    def __post_init__(self) -> None:
        self.rank(self.shares)

    # --- what there is ----------------------------------------------------------------------------------------------

    @property
    def dispatches(self) -> list[DispatchRow]:
        return [row for row in self.rows.values() if isinstance(row, DispatchRow)]

    @property
    def places(self) -> list[KernelRow]:
        """Operations that microkernels compute."""
        return [row for row in self.rows.values() if isinstance(row, KernelRow)]

    @property
    def executable_target(self) -> str:
        return executable_target_of(self.context, self.structure)

    @property
    def others(self) -> float:
        """The share of dispatches that have no root to tune; what the compiler adds to pack operands is among them."""
        return max(1 - sum(row.share for row in self.dispatches), 0.0) if self.shares.total else 0.0

    @property
    def tunable(self) -> float:
        """The share of the dispatches that can be run alone."""
        return sum(row.share for row in self.dispatches if row.state != "skipped")

    def set_row(self, label: str, **values: object) -> None:
        self.rows[label] = replace(self.rows[label], **values)  # type: ignore[arg-type]

    def rank(self, shares: Shares) -> None:
        """Ranked by these, which are better known; nothing is tuned yet."""
        self.shares = shares
        timed = self.context.timed and not shares.estimated
        dispatches: dict[str, Row] = {}
        for group in sorted(self.structure.groups, key=self._share, reverse=True):
            us = sum(shares.us.get(piece.export, 0.0) for piece in group.pieces) if timed else None
            label = _label(group, taken=dispatches)
            dispatches[label] = DispatchRow(
                label=label, group=group, calls=group.calls, share=self._share(group), us=us
            )
        places = sorted(map(self._placed, self.places), key=lambda row: row.share, reverse=True)
        self.rows = {**dispatches, **{row.label: row for row in places}}
        self._choose()

    def _share(self, group: Group) -> float:
        return self.shares.of([piece.export for piece in group.pieces])

    def _placed(self, row: KernelRow) -> KernelRow:
        """With its part of the model's time: of its dispatches, or else by its arithmetic."""
        place, whole = row.place, self.structure.flops
        if place.group is not None:
            share = self._share(place.group) * min(place.calls / place.group.calls, 1.0)
        else:
            share = place.problem.flops * place.calls / whole if whole else 0.0
        again = {"state": "ranked", "reason": ""} if row.state == "left-out" else {}
        return replace(row, share=share, **again)  # type: ignore[arg-type]

    def _choose(self) -> None:
        """Which parts are searched; every other one says why it is not."""
        for some in (self.dispatches, self.places):
            chosen = 0
            for row in some:
                if row.state != "ranked":
                    continue
                obstacle = self._obstacle(row.group) if isinstance(row, DispatchRow) else ""
                why = obstacle or self.context.model.leaves_out(row.share, chosen=chosen)
                chosen += not why
                if why:
                    self.set_row(row.label, state="skipped" if obstacle else "left-out", reason=why)

    def _obstacle(self, group: Group) -> str:
        if self.shares.idle([piece.export for piece in group.pieces]):
            return "the call does not come to it: --input with other values may"
        return runs_alone(group.leading(self.shares.us), group.root)

    # --- kernels by their defaults ----------------------------------------------------------------------------------

    def find_kernels(self, library: Library) -> list[KernelEntry]:
        """Where microkernels fit, and one for every place, by its defaults; with --top for the first places only.

        The compiler says what operations the model has when a spec replaces some.
        """
        context, structure = self.context, self.structure
        if any(flag.startswith(SPEC_FLAG) for flag in context.flags(self.route)):
            context.note("no microkernel joins: there is a preprocessing spec already, and there can be only one")
            return []
        context.trying("looking for operations that microkernels compute")
        self.library = library
        self.rows = {row.label: row for row in self.dispatches}
        with context.clocked("space"):
            places = library.places(structure.preprocessed)
            groups = self._groups(places)
            for place in places:
                self._add(replace(place, group=groups.get(place.problem)))
            self.rank(self.shares)
        every = context.model.top is None
        return [self._default(row) for row in self.places if every or row.state == "ranked"]

    def more_kernels(self, preprocessed: str) -> list[KernelEntry]:
        """Kernels by their defaults for what a program still has that calls others already.

        Of two convolutions that are added, either may have the other as its residual: which one the compiler takes
        is known only then.
        """
        if self.library is None or self.context.model.top is not None:
            return []
        new = [place for place in self.library.places(preprocessed) if place.problem.name not in self.rows]
        for place in new:
            self._add(place, state="left-out", reason="found beside other microkernels")
        return [self._default(row) for row in self.places if row.place in new]

    def _add(self, place: Place, **values: str) -> None:
        label = place.problem.name
        self.rows[label] = KernelRow(label=label, calls=place.calls, place=place, **values)  # type: ignore[arg-type]

    def _default(self, row: KernelRow) -> KernelEntry:
        context, place, name = self.context, row.place, row.place.kernels[0]
        root = context.session.workspace.root
        fitting = self.library.all(place.problem) if self.library and context.registry.entries else ()
        known = context.registry.nearest(place.problem, fitting)
        if known is not None:
            name = known.entry.kernel
        variants = Variants.of(
            find(name, search_folders(root), OPERATIONS),
            place.problem,
            context.session.chip,
            workspace=root,
            kernel=next((kernel for kernel in context.options.microkernels if kernel.name == name), None),
            executable_target=self.executable_target,
            first=None if known and known.entry.config else {PACKED: 1} if place.constant else {},
        )
        self.set_row(row.label, kernel=name)
        config = _packed(variants, known.entry.config, place) if known and known.entry.config else variants.space[0]
        return KernelEntry(row.label, place, variants, config, known=known)

    def _groups(self, places: Sequence[Place]) -> dict[Problem, Group]:
        """The dispatches of each place: those whose operands have its sizes, as near as packing leaves them."""
        found = {}
        for problem in (place.problem for place in places):
            nearest = min(self.structure.groups, key=lambda group: problem.excess(group.root), default=None)
            if nearest is not None and math.isfinite(problem.excess(nearest.root)):
                found[problem] = nearest
        return found

    # --- the search -------------------------------------------------------------------------------------------------

    def tune(self, *, ends: float, standing: Sequence[KernelEntry] = ()) -> tuple[list[Entry], list[KernelEntry]]:
        """The entries that are ahead, the largest share first, and the microkernels of the model.

        `standing` are those that are in the model by their defaults: what they compute is not searched beside them.
        """
        computed = {entry.place.group for entry in standing}
        for row in self.dispatches:
            if row.state == "ranked" and row.group in computed:
                self.set_row(row.label, state="left-out", reason=COMPUTED)
        # Without a device nothing tells which variant of a kernel is the fastest.
        rows: list[Row] = [*self.dispatches, *(self.places if self.context.timed else ())]
        wanted = [row for row in rows if row.state == "ranked"]
        wanted.sort(key=lambda row: row.share, reverse=True)
        context = self.context
        seconds = context.clock.until(ends)
        parts = context.run.parts(
            wanted,
            self._tuned,
            name=lambda row: row.label,
            share=lambda row: row.share,
            before=ends,
            least=LEAST_BUDGET,
        )
        found = {row.label: self._ended(row.label, part_result, seconds) for row, part_result in parts}
        entries = [self._entry(row, found[row.label]) for row in self.dispatches if row.label in found]
        searched = [self._kernel(row, found[row.label]) for row in self.places if row.label in found]
        kernels = self._stand(standing, [one for one in searched if one is not None])
        return [entry for entry in entries if entry is not None], kernels

    def _stand(self, standing: Sequence[KernelEntry], found: Sequence[KernelEntry]) -> list[KernelEntry]:
        """The kernels of the model: as a search found them, or as they stand there by their defaults."""
        kernels = {entry.label: entry for entry in standing if self.rows[entry.label].state != "codegen"}
        kernels |= {entry.label: entry for entry in found}
        never = "" if self.context.timed else ", never timed"
        for entry in standing:
            row = self.rows[entry.label]
            if kernels.get(entry.label) is entry:
                late = f": {row.reason}" if row.out_of_time else ""
                name = entry.variants.manifest.name
                how = f"by the registry ({entry.known.words})" if entry.known else "by its defaults"
                self.set_row(entry.label, state="taken", reason=f"{how}{never}{late}", kernel=name)
            elif entry.label not in kernels:
                self.set_row(entry.label, applied=0)
        return list(kernels.values())

    def leave_kernels(self, why: str) -> None:
        """None of the places is searched."""
        for row in self.places:
            if row.state == "ranked":
                self.set_row(row.label, state="left-out", reason=why, applied=0)

    def _tuned(self, turn: Turn[Row]) -> Found:
        context, row = self.context, turn.what
        kernels = self._kernels(row) if isinstance(row, KernelRow) else ()
        if isinstance(row, DispatchRow):
            leading = row.group.leading(self.shares.us)
            problem: Problem = DispatchProblem(leading, row.group.root, row.label).accepting(context.model.allow)
        elif isinstance(row, KernelRow):
            problem = row.place.problem
        task = Task(race=False, ship=False, cold=False, recall=True, microkernels_alone=bool(kernels))
        options = replace(turn.options, microkernels=kernels)
        return search(problem, on_route(context.target, self.route), options=options, session=turn.session, task=task)

    def _kernels(self, row: KernelRow) -> tuple[Kernel, ...]:
        """All that fit a place, as the user has them."""
        names = self.library.all(row.place.problem) if self.library else row.place.kernels
        self.set_row(row.label, place=replace(row.place, kernels=names))
        own = {kernel.name: kernel for kernel in self.context.options.microkernels}
        return tuple(own.get(name, Kernel(name)) for name in names)

    # --- results ----------------------------------------------------------------------------------------------------

    def _ended(self, label: str, part_result: Found | AutotuneError | None, seconds: float) -> Found | None:
        """The result of a part's search; without one its row has the reason."""
        context = self.context
        if part_result is None or isinstance(part_result, OutOfTimeError):
            # Nothing but the budget is in the way.
            reason = f"no time for it: all dispatches together have {seconds:.0f} s (--budget)"
            self.set_row(label, state="left-out", reason=reason, out_of_time=True)
            return None
        if isinstance(part_result, AutotuneError):
            self.set_row(label, state="skipped", reason=part_result.message)
            context.note(f"{label}: {part_result.message}")
            return None
        result = part_result.result
        self.results.append(result)
        context.run.account.add(result.seconds)
        context.session.reporter.log(f"{label}: {result.verdict}, {result.reason}")
        self.set_row(label, result=result)
        return part_result

    def _entry(self, row: DispatchRow, found: Found | None) -> Entry | None:
        """The state of a dispatch in the whole model, which is the judge."""
        if found is None:
            return None
        result, winner = found.result, found.chosen
        if winner is None or winner.info is None:
            state, reason = ("no-gain", result.reason) if len(found.plan.space) else ("no-knobs", found.plan.obstacle)
            state = "left-out" if result.verdict == "inconclusive" else state
            self.set_row(row.label, state=state, reason=reason)
            return None
        self.set_row(row.label, state="ahead" if self.context.timed else "estimated", reason=result.reason)
        return Entry(row.label, row.group, result, winner)

    def _kernel(self, row: KernelRow, found: Found | None) -> KernelEntry | None:
        """The kernel that a search found, if it is faster alone than IREE's default for the same."""
        if found is None:
            return None
        label, place, result = row.label, row.place, found.result
        best, other = result.best, result.baseline.us
        own = best.us if best is not None and best.kind == "microkernel" else None
        self.set_row(label, us=own, codegen_us=other)
        winner = found.chosen
        if winner is None:
            if result.verdict == "inconclusive" and not result.counts.rivals:  # nothing speaks against it
                self.set_row(label, state="left-out", reason="the time was up before one was timed", out_of_time=True)
            else:
                self.set_row(label, state="codegen", reason=result.reason)
            return None
        variants = found.plan.kernels[str(winner.config[KERNEL])]
        values = {name: value for name, value in winner.config.items if name in variants.manifest.parameters}
        times = f"alone it takes {own:.1f} µs, the compiler's code {other:.1f}" if own and other else "it is not timed"
        slower = own is not None and other is not None and own >= other
        name = variants.manifest.name
        self.set_row(label, state="codegen" if slower else "taken", reason=times, kernel=name)
        config = _packed(variants, values, place)
        return None if slower else KernelEntry(label, place, variants, config, result)


def _packed(variants: Variants, values: Mapping[str, Value], place: Place) -> Config:
    """The variant of these values; where weights are constants with these packed, if the kernel can."""
    config = variants.space[variants.space.nearest(values)]
    wanted = {**config.as_dict(), PACKED: 1}
    if not place.constant or PACKED not in config.as_dict():
        return config
    nearest = variants.space[variants.space.nearest(wanted)]
    return nearest if nearest.as_dict() == wanted else config


def unranked(context: Context, one: Contestant, plain: ModelStructure) -> PartSearch:
    """The parts of a route by their arithmetic."""
    structure = plain if one.route == PLAIN or one.build is None else context.structure(one.build)
    return PartSearch(context, one.route, structure, by_work(structure.groups))


def _label(group: Group, *, taken: Collection[str]) -> str:
    root = group.root
    sizes = "x".join("D" if d in root.dynamic else str(size) for d, size in enumerate(root.loops))
    types = "_".join(dict.fromkeys(e for e in (root.element_types[0], root.element_types[-1])))
    name = f"{_KIND[root.kind]}_{sizes}_{types}"
    number = 2
    label = name
    while label in taken:
        label, number = f"{name}_{number}", number + 1
    return label


def executable_target_of(context: Context, structure: ModelStructure) -> str:
    """The processor features that the compiler uses; empty on GPUs, and where a model has no executable."""
    text = next(iter(structure.configured.values()), "") if context.target.backend.on_host else ""
    return executable_target(text) if text else ""
