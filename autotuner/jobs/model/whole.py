"""Tuned dispatches and microkernels in the whole model: each proven there, right as a whole, and worth its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from autotuner.build.ship import write_parts
from autotuner.carriers.calls import kernel_calls, prove
from autotuner.carriers.carrier import Parts
from autotuner.carriers.microkernel import function_name
from autotuner.carriers.outputs import MODEL, Outputs
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import PREPROCESSED, Compiled, CompilerRefusal, first_error, shell_line
from autotuner.iree.folder import SPEC
from autotuner.iree.run import benchmark_command
from autotuner.jobs.model.contestant import Contestant, Member
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.entries import Entry, KernelEntry, Place, applied, assemble, build_objects, kernel_parts
from autotuner.jobs.model.parts import PartSearch
from autotuner.jobs.model.routes import RouteRace
from autotuner.measure.contest import REPETITIONS, SLOW_US
from autotuner.programs.flow import root_key
from autotuner.programs.structure import ModelStructure, Shares, from_statistics, repeated
from autotuner.system import process
from autotuner.system.files import write_whole
from autotuner.system.settings import usable_cores
from autotuner.system.text import count


@dataclass
class WholeModel:
    """Puts entries and kernels into the model on one route, and takes out those that lose there."""

    parts: PartSearch
    on: Contestant
    """The route as it is."""
    race: RouteRace | None
    """How models are timed and outputs compared; None without a device."""
    ends: float
    """The moment at which the race begins."""

    @property
    def context(self) -> Context:
        return self.parts.context

    def make(self, name: str, entries: Sequence[Entry], kernels: Sequence[KernelEntry] = ()) -> Contestant | None:
        """The model with those that stay applied and right; None when none does."""
        context, route = self.context, self.on.route
        what = count(len(kernels), "microkernel") if kernels else count(len(entries), "entry")
        context.trying(f"compiling the model with {what} on route {route.name}")
        row = context.row("microkernel" if kernels else "codegen", route)
        called = self._called(kernels, name) if kernels else ()
        made = self._applied(entries, called, name, row)
        made = self._without_losers(made) if made is not None else None
        if made is None:
            context.session.store.record_failure(row, "not-applied", stderr="nothing was left of it")
            return None
        return self._timed(self.race, made) if self.race is not None else made

    def unbuilt(self, name: str, entries: Sequence[Entry], kernels: Sequence[KernelEntry]) -> Contestant | None:
        """The same not compiled yet, with what the preprocessed program calls: what ships is compiled, and proven."""
        context, route = self.context, self.on.route
        context.trying(f"preparing the model on route {route.name}")
        called = self._called(kernels, name) if kernels else ()
        if not entries and not called:
            return None
        return self._assembled(entries, called, name, context.row("microkernel" if called else "codegen", route))

    # --- what is in it ----------------------------------------------------------------------------------------------

    def _called(self, kernels: Sequence[KernelEntry], name: str) -> tuple[KernelEntry, ...]:
        """Those that the preprocessed program calls: that takes seconds, and a whole compile for nothing minutes.

        Where some are not called, others that fit what is left of the program may be.
        """
        tried = self._built(kernels)
        while tried:
            text = self._preprocessed(tried, name)
            if text is None:
                break  # the whole compile fails in the same way, and what it says is kept
            kept = self._proven(tried, text)
            if len(kept) == len(tried):
                break
            tried = (*kept, *self._built(self.parts.more_kernels(text)))
        return tried

    def _preprocessed(self, kernels: Sequence[KernelEntry], name: str) -> str | None:
        """The program as far as it calls them; None where it does not compile with them."""
        context = self.context
        flags = [*context.flags(self.on.route), *write_parts(self._files(name), self._kernel_parts(kernels))]
        try:
            with context.clocked("build"):
                return context.builder.preprocessed(flags, timeout=context.compile_timeout)
        except CompilerRefusal:
            return None

    def _applied(
        self, entries: Sequence[Entry], kernels: Sequence[KernelEntry], name: str, row: int
    ) -> Contestant | None:
        """The model with those that are found in it; None where none is, or it does not compile."""
        while entries or kernels:
            made = self._build(entries, kernels, name, row)
            if not made.module.ok:
                why = f"the model does not compile with it: {first_error(made.module.stderr, most=160)}"
                self._drop(made.judged, why)
                failure = made.module.failure or "compile-error"
                self.context.session.store.record_failure(row, failure, stderr=made.module.stderr)
                return None
            # Entries of a tuning spec may take an operation from a kernel, and a kernel one from an entry.
            there = self._proven(made.kernels, made.module.dumped[PREPROCESSED][0]) if kernels else ()
            found = tuple(entry for entry in made.entries if self._applies(entry, made))
            if len(there) == len(made.kernels) and len(found) == len(made.entries):
                return made
            entries, kernels = found, there
        return None

    def _applies(self, entry: Entry, made: Contestant) -> bool:
        """Entries that the compiled model does not have are dropped."""
        often, why = applied(made.module, entry)
        self.parts.set_row(entry.label, applied=often)
        if not often:
            self._drop([entry], f"it does not apply in the model: {why}")
        return bool(often)

    def _proven(self, kernels: Sequence[KernelEntry], text: str) -> tuple[KernelEntry, ...]:
        """Those that a preprocessed program calls; the others are left out, and that is said."""
        if not kernels:
            return ()
        found = prove(text, kernel_calls([entry.call for entry in kernels])).found
        for entry, often in zip(kernels, found, strict=True):
            self.parts.set_row(entry.label, applied=often)
            if not often:
                self._drop([entry], "it is called nowhere in the model")
        return tuple(entry for entry, often in zip(kernels, found, strict=True) if often)

    def _build(self, entries: Sequence[Entry], kernels: Sequence[KernelEntry], name: str, row: int) -> Contestant:
        """The model with these, in a folder of its own with what a person needs to repeat it."""
        context, folder = self.context, self.context.folder / name
        made = self._assembled(entries, kernels, name, row)
        flags = [*context.flags(self.on.route), *write_parts(self._files(name), made.parts)]
        with context.clocked("build"):
            build = context.builder.build_fresh(flags, folder=folder, timeout=context.compile_timeout)
        lines = [shell_line(context.builder.command(flags, vmfb=build.vmfb))]
        if self.race is not None:
            session, benchmark = context.session, self.race.benchmark
            lines.append(shell_line(benchmark_command(session.tools, build.vmfb, benchmark, device=session.device)))
        write_whole(folder / "command.txt", "\n".join(lines) + "\n")
        write_whole(folder / "stderr.txt", build.stderr)
        return replace(made, build=build)

    def _assembled(self, entries: Sequence[Entry], kernels: Sequence[KernelEntry], name: str, row: int) -> Contestant:
        """The files of the model with these, not compiled yet."""
        context, structure = self.context, self.parts.structure
        brought = self._kernel_parts(kernels) if kernels else None
        if brought is not None and entries:
            structure = context.configured(self.on.route, more=write_parts(self._files(name), brought))
            entries = _moved(entries, structure)
        flag = context.target.spec_flag
        parts = assemble(
            entries, structure.configured, tools=context.session.tools, command=self.context.run.command, spec_flag=flag
        )
        parts = parts.with_kernels(brought) if brought is not None else parts
        return Contestant(name, self.on.route, row, parts=parts, entries=tuple(entries), kernels=tuple(kernels))

    def _files(self, name: str) -> Outputs:
        """Those of a model that is tried, in a folder of its own."""
        folder = self.context.folder / name
        return Outputs(folder / SPEC, MODEL, folder / "written.json")

    def _built(self, kernels: Sequence[KernelEntry]) -> tuple[KernelEntry, ...]:
        """Those whose objects can be made."""
        failed = build_objects(kernels, jobs=self.context.options.jobs or usable_cores())
        for entry in kernels:
            if entry.label in failed:
                self._drop([entry], f"it cannot be built: {failed[entry.label]}")
        return tuple(entry for entry in kernels if entry.label not in failed)

    def _kernel_parts(self, kernels: Sequence[KernelEntry]) -> Parts:
        return kernel_parts(self.context, kernels, self.parts.executable_target, command=self.context.run.command)

    # --- what loses in it -------------------------------------------------------------------------------------------

    def _without_losers(self, made: Contestant) -> Contestant | None:
        """The model without entries that are slower inside it than the compiler's code, by the runtime's statistics."""
        lost = self._losers(made) if self.race is not None and self.on.build is not None else {}
        if not lost:
            return made
        entries, kernels = made.without(lost)
        try:
            fewer = self._applied(entries, kernels, f"{made.id}-fewer", made.row)
        except OutOfTimeError:
            self.context.note(f"no time to compile the model without {count(len(lost), 'entry')} that lose: they stay")
            return made
        for member in made.judged:
            if member.label in lost:
                self._drop([member], lost[member.label])
        return fewer

    def _losers(self, made: Contestant) -> dict[str, str]:
        """None without the runtime's statistics: the race judges the whole."""
        self.context.trying("looking for what loses inside the model")
        before, after = self._readings(self.on.module, made.module)
        if before is None or after is None:
            return {}
        if made.kernels:
            return slower_kernels(made.kernels, before, after)
        return slower_entries(made.entries, before, after)

    def _readings(self, without: Compiled, build: Compiled) -> tuple[Shares | None, Shares | None]:
        """The dispatches of a model without and with what was tuned, read in turns.

        A call that is so long that it is a measurement by itself is read once.
        """
        old: list[Shares] = []
        new: list[Shares] = []
        for _ in range(REPETITIONS):
            for module, readings in ((without, old), (build, new)):
                if readings and readings[0].total > SLOW_US:
                    continue
                found = from_statistics(self.context.statistics(module))
                if found is None:
                    return None, None
                readings.append(found)
        return repeated(old), repeated(new)

    # --- compared and timed -----------------------------------------------------------------------------------------

    def _timed(self, race: RouteRace, made: Contestant) -> Contestant | None:
        """With its time and the error of its outputs; None where they are wrong."""
        with process.however_late():  # one call of what took a compile, and one timing
            made = race.measured(made)
        if made.failure == "wrong-result":
            self._drop(made.judged, f"the model's outputs are not the untuned one's: {made.detail}")
        elif made.failure is not None:
            self._drop(made.judged, f"the model does not run with it: {made.detail}")
        return made if made.ok else None

    def _drop(self, members: Sequence[Member], why: str) -> None:
        for one in members:
            self.parts.set_row(one.label, state="dropped", reason=why, applied=0)
        if members:
            what = f"{members[0].label} is" if len(members) == 1 else f"{len(members)} entries are"
            self.context.note(f"{what} left out: {why}")


def slower_entries(entries: Sequence[Entry], before: Shares, after: Shares) -> dict[str, str]:
    """Entries whose dispatches take longer within the model than without them, and how much."""
    exports = [[piece.export for piece in entry.group.pieces] for entry in entries]
    olds, news = ([sum(one.us.get(name, 0.0) for name in names) for names in exports] for one in (before, after))
    told = "within the model it takes {:.1f} µs, without it {:.1f} µs"
    times = zip(entries, olds, news, strict=True)
    return {entry.label: told.format(new, old) for entry, old, new in times if new >= old > 0}


def slower_kernels(kernels: Sequence[KernelEntry], before: Shares, after: Shares) -> dict[str, str]:
    """Kernels whose dispatches take longer within the model than the compiler's for the same, and how much.

    What the model has no more beside them, such as packing, was theirs too: in proportion to what they read and write.
    """
    olds = [_compilers_us(entry.place, before) for entry in kernels]
    news = [after.us.get(function_name(number), 0.0) for number in range(len(kernels))]
    gone = max((before.total - sum(olds)) - (after.total - sum(news)), 0.0)
    moved = [entry.place.calls * entry.place.problem.bytes for entry in kernels]
    whole = [old + gone * part / sum(moved) if old else math.inf for old, part in zip(olds, moved, strict=True)]
    told = "within the model it takes {:.1f} µs, the compiler's code {:.1f} µs"
    times = zip(kernels, whole, news, strict=True)
    return {entry.label: told.format(new, old) for entry, old, new in times if new > old}


def _compilers_us(place: Place, before: Shares) -> float:
    """What the dispatches of a place take; 0 where they are not known."""
    if place.group is None:
        return 0.0
    part = min(place.calls / place.group.calls, 1.0)
    return part * sum(before.us.get(piece.export, 0.0) for piece in place.group.pieces)


def _moved(entries: Sequence[Entry], structure: ModelStructure) -> list[Entry]:
    """The entries on the dispatches that are left beside the kernels, which have other names there."""
    groups = {root_key(group.root): group for group in structure.groups}
    there = [(entry, groups.get(root_key(entry.group.root))) for entry in entries]
    return [replace(entry, group=group) for entry, group in there if group is not None]
