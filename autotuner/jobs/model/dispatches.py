"""Tunes the dispatches of a model on one route: those that take its time, each through the core loop."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from autotuner.build import Builder
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import Compiled
from autotuner.jobs.model.breakdown import kind_of
from autotuner.jobs.model.context import RANKING, Context
from autotuner.jobs.model.entries import Entry, KernelEntry, Library
from autotuner.jobs.model.kernels import KernelSearch, no_time
from autotuner.jobs.model.result import Row, Untunable
from autotuner.jobs.suite.defaults import DefaultTimer
from autotuner.measure.schedule import longer
from autotuner.programs.dispatch import DispatchProblem, called_flops, runs_alone
from autotuner.programs.flow import Group
from autotuner.programs.structure import ModelStructure, Shares, by_work, from_statistics
from autotuner.system import process
from autotuner.system.progress import Clock
from autotuner.system.text import count
from autotuner.targets import PLAIN, Route, Target
from autotuner.tuning.options import Task
from autotuner.tuning.pool import WORK
from autotuner.tuning.result import Result
from autotuner.tuning.single import SingleRun
from autotuner.tuning.together import Part, Together

RACED_FROM = 120.0
"""Seconds for each dispatch from which it is raced alone: fewer serve the search, and the model is the judge."""
SEEDS = 4
"""Earlier winners that a search begins with."""
_OPENING = 2.5
"""Seconds, about, that each of many searches needs on an idle machine: until its default is timed, and in the end."""
_SHOWN = 20
_KIND = {"contraction": "matmul", "convolution": "conv", "attention": "attention"}


@dataclass
class Dispatches:
    """The dispatches of a model on one route, ranked, and what became of each."""

    context: Context
    route: Route
    structure: ModelStructure
    shares: Shares
    rows: dict[str, Row] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)
    seconds: float = field(default=0.0, init=False)
    """What all of them have together."""
    kernels: KernelSearch = field(init=False)
    chosen_kernels: list[KernelEntry] = field(default_factory=list)
    """The microkernels that are to be put into the model."""

    def __post_init__(self) -> None:
        self.kernels = KernelSearch(self.context, on_route(self.context.target, self.route))
        self.rank(self.shares)

    def rank(self, shares: Shares) -> None:
        """By these, which tell more than what was known before; nothing is tuned yet."""
        self.shares, self.rows = shares, {}
        timed = self.context.timed and not shares.estimated
        for group in sorted(self.structure.groups, key=self._share, reverse=True):
            us = sum(shares.us.get(piece.export, 0.0) for piece in group.pieces) if timed else None
            label = _label(group, taken=self.rows)
            self.rows[label] = Row(label, group, self._share(group), us, "ranked")
        self.kernels.rank(self.structure.flops, shares)

    @property
    def others(self) -> float:
        """The share of dispatches that have no root to tune; what the compiler adds to pack operands is among them."""
        return max(1 - sum(row.share for row in self.rows.values()), 0.0) if self.shares.total else 0.0

    @property
    def untunable(self) -> tuple[Untunable, ...]:
        found = [
            Untunable(piece.export, piece.calls, self.shares.of([piece.export]), kind_of(piece.export))
            for piece in self.structure.others
        ]
        return tuple(sorted(found, key=lambda one: one.share, reverse=True))

    @property
    def tunable(self) -> float:
        """The share of those that can be run alone."""
        return sum(row.share for row in self.rows.values() if self._obstacle(row.group) == "")

    def find_kernels(self, library: Library | None = None) -> KernelSearch:
        """Where microkernels fit."""
        context, target = self.context, self.kernels.target
        self.kernels = KernelSearch.find(context, target, self.route, self.structure, self.shares, library)
        return self.kernels

    def tune(self, *, budget: float, standing: Sequence[KernelEntry] = (), gains: bool = False) -> list[Entry]:
        """The entries that won or are ahead, the largest share first. All are tuned side by side.

        `standing` are the microkernels that are in the model by their defaults; `gains` says that it is faster so.
        """
        context, self.seconds = self.context, budget
        chosen = self._choose()
        short = budget < RACED_FROM * (len(chosen) + len(self.kernels.wanted))
        if gains and (short or not context.timed):
            chosen = self._without(chosen, {entry.place.group for entry in standing})
        context.session.reporter.note(self.ranking())
        if budget <= 0:
            for label in chosen:
                self._no_time(label)
            self.chosen_kernels = self.kernels.decide({}, standing)
            self.kernels.leave_rest(no_time(budget))
            return []
        if context.timed:
            chosen = self._begun(chosen, budget)
        count = len(chosen) + len(self.kernels.wanted)
        race = budget >= RACED_FROM * count
        parts = [self._part(label, number, count, budget, race) for number, label in enumerate(chosen, 1)]
        kernels = self.kernels.begin(budget=budget, number=len(chosen) + 1, count=count)
        both = sorted([*kernels, *parts], key=lambda part: part.share, reverse=True)
        if context.timed:
            jobs, overlapped = context.session.jobs, not context.session.shares_cores
            stop, seconds = context.session.stop, context.run.account.seconds
            Together(both, jobs, overlapped, stop, seconds, context.session.devices).tune(budget)
        else:
            self._build_each(both, budget)
        entries = [entry for part in parts if (entry := self._entry(part)) is not None]
        self.chosen_kernels = self.kernels.decide(self._codegen_us(), standing)
        self.results += self.kernels.results
        return entries

    def _begun(self, chosen: Sequence[str], budget: float) -> list[str]:
        """Those that come to their first timing, the largest share first; the others say what would do for them."""
        wanted = self.kernels.wanted
        # Of the same dispatches the kernels come first: their defaults are mostly good, and soon timed.
        shares = [(row.place.share, False, label) for label, row in wanted.items()]
        shares += [(self.rows[label].share, True, label) for label in chosen]
        shares.sort(key=lambda one: one[0], reverse=True)
        context = self.context
        each = context.crowding * _OPENING
        count = max(int(budget / each), 1)
        missing = max(each * len(shares) - budget, 0.0)
        would_do = longer(context.clock.budget + missing)
        why = f"not begun, with {budget:.0f} s left for all dispatches: {would_do}"
        for _, is_dispatch, label in shares[count:]:
            if is_dispatch:
                self.set_row(label, state="left-out", reason=why, out_of_time=True)
            else:
                self.kernels.set_row(label, state="left-out", reason=why)
        begun = {label for _, is_dispatch, label in shares[:count] if is_dispatch}
        if count < len(shares):
            self.context.note(f"{len(shares) - count} of {len(shares)} searches are {why}")
        return [label for label in chosen if label in begun]

    def _no_time(self, label: str) -> None:
        """A dispatch was not tuned, and nothing but the budget is in the way."""
        self.set_row(label, state="left-out", reason=no_time(self.seconds), out_of_time=True)

    def _without(self, chosen: Sequence[str], computed: Collection[Group | None]) -> list[str]:
        """Where time is short, or nothing is timed, what a microkernel computes is not searched."""
        taken = [label for label in chosen if self.rows[label].group in computed]
        for label in taken:
            self._set(label, "left-out", "a microkernel computes it")
        return [label for label in chosen if label not in taken]

    def _codegen_us(self) -> dict[Group, float]:
        """What the best code of the compiler for a dispatch takes alone, as far as it was timed."""
        found: dict[Group, float] = {}
        for row in self.rows.values():
            if row.result is not None:
                times = [row.result.best.us if row.result.best else None, row.result.baseline.us]
                known = [us for us in times if us is not None]
                found |= {row.group: min(known)} if known else {}
        return found

    def _part(self, label: str, number: int, count: int, budget: float, race: bool) -> Part:
        context, row = self.context, self.rows[label]
        piece = row.group.leading(self.shares.us)
        problem = DispatchProblem(piece, row.group.root, label).accepting(context.model.allow)
        task = Task(
            race=race,
            ship=False,
            cold=False,
            recall=True,
            seeds=context.session.store.winners(context.target.name)[:SEEDS],
        )
        options = replace(context.options, budget=budget, microkernels=())
        session = context.run.within(f"[{number}/{count}] {label}: ")
        return Part(label, SingleRun(problem, on_route(context.target, self.route), options, session, task), row.share)

    def _build_each(self, parts: Sequence[Part], budget: float) -> None:
        """Without a device: one after the other, each with its part of the time by its share."""
        clock = Clock(budget)
        for number, part in enumerate(parts):
            if self.context.session.stop.requested or (number and clock.left <= 0):
                return
            rest = sum(other.share for other in parts[number:])
            part.tune(max(clock.left, 1.0) * (part.share / rest if rest else 1.0))

    def _entry(self, part: Part) -> Entry | None:
        """What becomes of a dispatch in the whole model."""
        context, label = self.context, part.label
        row = self.rows[label]
        if part.found is None:
            if part.error is None or isinstance(part.error, OutOfTimeError):
                self._no_time(label)
            else:
                self._set(label, "skipped", part.error.message)
                context.note(f"{label}: {part.error.message}")
            return None
        found, result = part.found, part.found.result
        self.results.append(result)
        spent = {step: used for step, used in result.seconds.items() if step not in WORK}
        context.run.account.add(spent)
        context.session.reporter.note(f"{label}: {result.verdict}, {result.reason}")
        # What is only ahead so far may join as well: the whole model is the judge of it.
        winner = found.winner or found.leader
        if winner is None or winner.info is None:
            state, reason = ("no-gain", result.reason) if len(found.plan.space) else ("no-knobs", found.plan.obstacle)
            state = "left-out" if result.verdict == "inconclusive" else state
            self.rows[label] = replace(row, state=state, reason=reason, result=result)
            return None
        state = "ahead" if found.winner is None else "tuned" if context.timed else "estimated"
        self.rows[label] = replace(row, state=state, reason=result.reason, result=result)
        return Entry(label, row.group, row.group.leading(self.shares.us), row.share, result, winner)

    def ranking(self) -> str:
        """The dispatches by their shares, for people."""
        lines = [f"dispatches on route {self.route.name}, by {self.shares.how}:"]
        for row in list(self.rows.values())[:_SHOWN]:
            why = f", {row.state}: {row.reason}" if row.reason else ""
            lines.append(f"  {row.share:6.1%}  {row.label}, {count(row.group.calls, 'call')}{why}")
        more = len(self.rows) - _SHOWN
        lines += [f"  and {more} more"] if more > 0 else []
        return "\n".join([*lines, f"  {self.others:6.1%}  all others, which have nothing to tune"])

    def _choose(self) -> list[str]:
        """Which dispatches are tuned; every other one says why it is not."""
        chosen: list[str] = []
        for label, row in self.rows.items():
            obstacle = self._obstacle(row.group)
            if obstacle:
                self._set(label, "skipped", obstacle)
            elif why := self.context.model.leaves_out(row.share, chosen=len(chosen)):
                self._set(label, "left-out", why)
            else:
                chosen.append(label)
        return chosen

    def set_row(self, label: str, **values: object) -> None:
        self.rows[label] = replace(self.rows[label], **values)  # type: ignore[arg-type]

    def _set(self, label: str, state: str, reason: str) -> None:
        self.set_row(label, state=state, reason=reason)

    def _share(self, group: Group) -> float:
        return self.shares.of([piece.export for piece in group.pieces])

    def _obstacle(self, group: Group) -> str:
        if self.shares.idle([piece.export for piece in group.pieces]):
            return "the call does not come to it: --input with other values may"
        return runs_alone(group.leading(self.shares.us), group.root)


def measure_shares(context: Context, route: Route, structure: ModelStructure, build: Compiled | None) -> Shares:
    """By the runtime's statistics; where it has none, by timing each dispatch; without a device, by arithmetic."""
    if build is None:
        return by_work(structure.groups)
    found = from_statistics(context.statistics(build))
    if found is not None:
        return found
    with context.clocked("time"):
        return _alone(context, route, structure)


def on_route(target: Target, route: Route) -> Target:
    """The target with a route's flags for its own: within it there is no other route."""
    return replace(target, user_flags=(*target.user_flags, *route.flags), routes=(PLAIN,))


def alone_timer(context: Context, route: Route) -> DefaultTimer:
    """Times problems out of the model by themselves, as this route compiles them."""
    return DefaultTimer(
        on_route(context.target, route),
        context.session,
        Builder(context.session.tools, context.builder.cache),
        context.options.effort,
        context.options.seed,
        jobs=context.session.jobs,
    )


def _alone(context: Context, route: Route, structure: ModelStructure) -> Shares:
    """Each dispatch timed on its own, times its calls; what there is no time for is estimated by its arithmetic."""
    context.stage("timing each dispatch alone: this device keeps no statistics")
    pieces = [(g, p) for g in structure.groups for p in g.pieces if not runs_alone(p, g.root)]
    # The most work first: what is estimated in the end is of little weight.
    pieces.sort(key=lambda pair: called_flops(pair[1], pair[0].root), reverse=True)
    problems = [DispatchProblem(piece, group.root, f"piece_{n}") for n, (group, piece) in enumerate(pieces)]
    timer = alone_timer(context, route)
    clock = context.clock
    us: dict[str, float] = {}
    with suppress(OutOfTimeError), process.until(clock.at(clock.elapsed + RANKING * clock.budget)):
        for problem, default in timer.time(problems, should_stop=lambda: context.session.stop.requested):
            if default.us is not None and isinstance(problem, DispatchProblem):
                us[problem.piece.export] = default.us * problem.piece.calls
    work = {piece.export: called_flops(piece, group.root) for group, piece in pieces}
    known = sum(work[name] for name in us)
    rate = sum(us.values()) / known if known else 1.0
    missing = {name: rate * amount for name, amount in work.items() if name not in us}
    how = "each dispatch timed alone" + (f", {len(missing)} estimated by their arithmetic" if missing else "")
    return Shares({**us, **missing}, how, timed_alone=True, estimated=bool(missing))


def _label(group: Group, *, taken: Sequence[str] | dict[str, Row]) -> str:
    root = group.root
    sizes = "x".join("D" if d in root.dynamic else str(size) for d, size in enumerate(root.loops))
    types = "_".join(dict.fromkeys(e for e in (root.element_types[0], root.element_types[-1])))
    name = f"{_KIND[root.kind]}_{sizes}_{types}"
    number = 2
    label = name
    while label in taken:
        label, number = f"{name}_{number}", number + 1
    return label
