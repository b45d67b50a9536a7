"""Microkernels and tuned dispatches in one model: each kernel proven there, right as a whole, and worth its place."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from autotuner._version import __version__
from autotuner.build.ship import write_parts
from autotuner.carriers.calls import kernel_calls, prove
from autotuner.carriers.carrier import MicrokernelCarrier, Parts, Said
from autotuner.carriers.microkernel import function_name
from autotuner.errors import AutotuneError, OutOfTimeError
from autotuner.iree.compile import PREPROCESSED, Compiled, CompilerRefusal, first_error
from autotuner.jobs.model.dispatches import Dispatches
from autotuner.jobs.model.entries import Entry, applied
from autotuner.jobs.model.kernels import KernelEntry
from autotuner.jobs.model.places import Library, Place, has_norm
from autotuner.jobs.model.whole import Tuned, WholeModel
from autotuner.microkernels.instance import Call
from autotuner.programs.flow import root_key
from autotuner.programs.shares import Shares
from autotuner.programs.structure import ModelStructure
from autotuner.space import Config
from autotuner.system import process
from autotuner.system.execution import local_executor
from autotuner.system.settings import usable_cores
from autotuner.system.text import count

KERNELS = "kernels"


@dataclass(frozen=True)
class _Mixed:
    """The model with some kernels, and the entries as its dispatches are called then."""

    kernels: tuple[KernelEntry, ...]
    entries: tuple[Entry, ...]
    parts: Parts
    build: Compiled


@dataclass
class KernelMix:
    """Puts kernels into the model beside what tuning made of it, and takes out again what does not hold up there."""

    whole: WholeModel
    name: str
    """Of the model that is made, and of its folder."""
    calls: dict[str, Call] = field(default_factory=dict)
    """Each kernel is built once for its place."""

    @property
    def dispatches(self) -> Dispatches:
        return self.whole.dispatches

    def make(self, kernels: Sequence[KernelEntry], tuned: Tuned | None) -> Tuned | None:
        """The model with kernels and with the entries of `tuned`; None when no kernel is left."""
        context, tried = self.dispatches.context, self.whole.tried
        context.stage(f"compiling the model with {count(len(kernels), 'microkernel')} on route {tried.route.name}")
        row = context.row("microkernel", tried.route)
        entries = tuned.entries if tuned else ()
        numbered = [replace(entry, number=number) for number, entry in enumerate(kernels)]
        made = self._applied(self._called(numbered), entries, self.name)
        lost = self._losing(made, entries, tuned.build if tuned else tried.build) if made else {}
        if made is not None and lost:
            made = self._with_fewer(made, lost, entries) if self.whole.has_time(made.build.seconds) else made
        if made is None:
            context.session.store.record_failure(row, "not-applied", stderr="no microkernel was left")
            return None
        return self._checked(made, row)

    def _called(self, kernels: Sequence[KernelEntry]) -> tuple[KernelEntry, ...]:
        """Those that the preprocessed program calls: that takes seconds, and a whole compile for nothing minutes.

        Where some are not called, others that fit what is left of the program may be.
        """
        built = self._built(kernels)
        text = self._preprocessed(built) if built else None
        if text is None:
            return built  # the whole compile fails in the same way, and what it says is kept
        kept = self._proven(built, text)
        more = self.dispatches.kernels.more(text) if kept and len(kept) < len(built) else []
        numbered = [replace(entry, number=len(kernels) + number) for number, entry in enumerate(more)]
        both = (*kept, *self._built(numbered))
        text = self._preprocessed(both) if len(both) > len(kept) else None
        return self._proven(both, text) if text is not None else kept

    def _preprocessed(self, kernels: Sequence[KernelEntry]) -> str | None:
        """The program as far as it calls them; None where it does not compile with them."""
        context, files = self.dispatches.context, self.whole.files(self.name)
        flags = [*context.flags(self.whole.tried.route), *write_parts(files, self._parts(kernels))]
        try:
            with context.clocked("build"):
                return context.builder.preprocessed(flags, timeout=context.compile_timeout)
        except CompilerRefusal:
            return None

    def _applied(self, kernels: Sequence[KernelEntry], entries: Sequence[Entry], name: str) -> _Mixed | None:
        """The model with those of the kernels that it calls; None where it calls none, or does not compile."""
        kept: Sequence[KernelEntry] = tuple(kernels)
        while kept:
            made = self._mixed(kept, entries, name)
            if made is None or len(made.kernels) == len(kept):
                return made
            kept = made.kernels  # entries of the tuning spec may have taken an operation from a kernel
        return None

    def _with_fewer(self, made: _Mixed, lost: Mapping[str, str], entries: Sequence[Entry]) -> _Mixed | None:
        """The model without those that lose; as it is, where there is no time for that."""
        left = [entry for entry in made.kernels if entry.label not in lost]
        try:
            # In a folder of its own: what is made already is not to be lost.
            fewer = self._applied(left, entries, f"{self.name}-fewer")
        except OutOfTimeError:
            self.dispatches.context.note("no time to compile the model without microkernels that lose: they stay")
            return made
        if fewer is not None and self.whole.faster(made.build, fewer.build) is made.build:
            self.dispatches.context.note(f"the model is faster with all {len(made.kernels)} microkernels: they stay")
            return made
        for entry in made.kernels:
            if entry.label in lost:
                self._drop([entry], lost[entry.label])
        return fewer

    def _mixed(self, kernels: Sequence[KernelEntry], entries: Sequence[Entry], name: str) -> _Mixed | None:
        """Compiles the model with these kernels, and says which are called in it; None where it does not compile."""
        built = self._built(kernels)
        if not built:
            return None
        there, both, build = self._with_entries(entries, self._parts(built), name)
        if not build.ok:
            self._drop(built, f"the model does not compile with it: {first_error(build.stderr, most=160)}")
            return None
        (text,) = build.dumped[PREPROCESSED]
        return _Mixed(self._proven(built, text), there, both, build)

    def _proven(self, kernels: Sequence[KernelEntry], text: str) -> tuple[KernelEntry, ...]:
        """Those that a preprocessed program calls; the others are left out, and that is said."""
        found = prove(text, kernel_calls([self._call(entry) for entry in kernels])).found
        for entry, often in zip(kernels, found, strict=True):
            self.dispatches.kernels.set_row(entry.label, applied=often)
            if not often:
                self._drop([entry], "it is called nowhere in the model")
        return tuple(entry for entry, often in zip(kernels, found, strict=True) if often)

    def _with_entries(
        self, entries: Sequence[Entry], kernels: Parts, name: str
    ) -> tuple[tuple[Entry, ...], Parts, Compiled]:
        """The model with kernels and those of the entries that apply beside them."""
        if not entries:
            return ((), *self.whole.build((), name, kernels=kernels))
        context, route = self.dispatches.context, self.whole.tried.route
        structure = context.configured(route, more=write_parts(self.whole.files(name), kernels))
        moved = tuple(_moved(entries, structure))
        both, build = self.whole.build(moved, name, structure=structure, kernels=kernels)
        there = tuple(entry for entry in moved if applied(build, entry)[0]) if build.ok else moved
        if len(there) < len(moved):
            both, build = self.whole.build(there, name, structure=structure, kernels=kernels)
        return there, both, build

    def _built(self, kernels: Sequence[KernelEntry]) -> tuple[KernelEntry, ...]:
        """Those whose objects can be made, side by side: each is a compile in a process of its own."""
        missing = [entry for entry in kernels if entry.label not in self.calls]
        with local_executor(self.dispatches.context.options.jobs or usable_cores()) as builders:
            for job in [builders.submit(self._builds_quietly, entry) for entry in missing]:
                job.result()
        return tuple(entry for entry in kernels if self._builds(entry))

    def _builds_quietly(self, entry: KernelEntry) -> None:
        """What goes wrong is told, in the order of the kernels, when it is asked for."""
        with suppress(AutotuneError):
            self._call(entry)

    def _builds(self, entry: KernelEntry) -> bool:
        try:
            self._call(entry)
        except OutOfTimeError:
            raise
        except AutotuneError as error:
            self._drop([entry], f"it cannot be built: {error.message}")
            return False
        return True

    def _call(self, entry: KernelEntry) -> Call:
        if entry.label not in self.calls:
            self.calls[entry.label] = entry.call()
        return self.calls[entry.label]

    def _parts(self, kernels: Sequence[KernelEntry]) -> Parts:
        """The spec of these kernels and their objects."""
        context = self.dispatches.context
        calls = tuple(self._call(entry) for entry in kernels)
        forms = tuple(entry.place.forms for entry in kernels)
        tools = context.session.tools
        said = Said(
            [
                f"{MicrokernelCarrier.title} by autotune {__version__}",
                f"target:     {context.target.name}; IREE {tools.release} ({tools.build})",
                *(f"kernel:     {call.instance.name} for {call.problem.name}" for call in calls),
                f"made by:    {' '.join(self.whole.command.split())}",
            ],
            each=[entry.provenance(context, self.whole.command) for entry in kernels],
        )
        return MicrokernelCarrier(calls, self.dispatches.kernels.executable_target, forms).parts(said)

    def _losing(self, made: _Mixed, entries: Sequence[Entry], without: Compiled | None) -> dict[str, str]:
        """Kernels that are slower inside the model than the compiler's code there, or without which it is faster."""
        if without is None:
            return {}
        context = self.dispatches.context
        context.stage("looking for microkernels that lose inside the model")
        before, after = self.whole.readings(without, made.build)
        if before is not None and after is not None:
            return slower_inside(made.kernels, before, after)
        name = f"without-{self.name}"

        def build(some: Sequence[KernelEntry]) -> Compiled:
            fewer = self._mixed(some, entries, name)
            return fewer.build if fewer is not None else Compiled.refused("no microkernel is called")

        lost = self.whole.losers(made.kernels, made.build, without, build)
        shutil.rmtree(context.folder / name, ignore_errors=True)
        return lost

    def _checked(self, made: _Mixed, row: int) -> Tuned | None:
        """Its outputs are those of the untuned model, as far as rounding explains them."""
        with process.however_late():  # one call of what took a compile
            error, wrong = self.whole.check(made.build, row)
        if wrong:
            self._drop(made.kernels, wrong)
            return None
        return Tuned(
            self.whole.tried, self.name, made.entries, made.parts, made.build, error, row, kernels=made.kernels
        )

    def _drop(self, kernels: Sequence[KernelEntry], why: str) -> None:
        for entry in kernels:
            self.dispatches.kernels.set_row(entry.label, state="dropped", reason=why, applied=0)
        what = f"the microkernel for {kernels[0].label} is" if len(kernels) == 1 else f"{len(kernels)} microkernels are"
        self.dispatches.context.note(f"{what} left out: {why}")


def slower_inside(kernels: Sequence[KernelEntry], before: Shares, after: Shares) -> dict[str, str]:
    """Kernels whose dispatches take longer within the model than the compiler's for the same, and how much.

    What the model has no more beside them, such as packing, was theirs too: in proportion to what they read and write.
    """
    lost = {}
    olds = [_compilers_us(entry.place, before) for entry in kernels]
    news = [after.us.get(function_name(number), 0.0) for number in range(len(kernels))]
    gone = max((before.total - sum(olds)) - (after.total - sum(news)), 0.0)
    moved = [entry.place.calls * entry.place.problem.bytes for entry in kernels]
    for entry, alone, new, part in zip(kernels, olds, news, moved, strict=True):
        old = alone + gone * part / sum(moved)
        if new > old and alone > 0:
            lost[entry.label] = f"within the model it takes {new:.1f} µs, the compiler's code {old:.1f} µs"
    return lost


def _compilers_us(place: Place, before: Shares) -> float:
    """What the dispatches of a place take; 0 where they are not known."""
    if place.group is None:
        return 0.0
    part = min(place.calls / place.group.calls, 1.0)
    return part * sum(before.us.get(piece.export, 0.0) for piece in place.group.pieces)


def kernels_first(whole: WholeModel, library: Library, *, kept: float) -> Tuned | None:
    """All microkernels that fit, by their defaults, in one compile: where they gain most is searched after that.

    Where some take norms of their rows with them, they are put beside those that do not: the faster stays. `kept` are
    the seconds that must be left for a verdict.
    """
    context, dispatches = whole.dispatches.context, whole.dispatches
    found: Tuned | None = None
    name = f"{KERNELS}-{whole.tried.route.name}"
    try:
        with process.until(context.clock.at(context.clock.budget - kept)):
            normed, found = _by_defaults(whole, library, name)
            search = dispatches.kernels
            if normed and (context.timed or found is None):
                _, alone = _by_defaults(whole, replace(library, norms=False), f"{name}-norms-apart")
                if found is not None and _faster(whole, found, alone) is found:
                    dispatches.kernels = search
                else:
                    found = alone
    except OutOfTimeError:
        if found is not None:
            dispatches.kernels = search
            context.note("no time to compile the model with norms apart from products: they stay with these")
        else:
            context.note("no time to compile the model with microkernels: a longer --budget would try them")
    return whole.timed(found) if found else None


def _by_defaults(whole: WholeModel, library: Library, name: str) -> tuple[bool, Tuned | None]:
    """Whether some kernels take norms, and the model with all of them."""
    kernels = whole.dispatches.find_kernels(library).defaults()
    normed = any(has_norm(entry.place.problem) for entry in kernels)
    return normed, KernelMix(whole, name).make(kernels, None) if kernels else None


def put_together(whole: WholeModel, entries: Sequence[Entry], first: Tuned | None = None) -> list[Tuned]:
    """The model with these entries, then with microkernels too, as far as there is time before the race begins.

    `first` is the model with microkernels by their defaults. Of the two with kernels the faster is raced. Kernels that
    were searched gain more than entries beside them: where there is no time for two compiles, entries are left out.
    """
    context, kernels = whole.dispatches.context, whole.dispatches.chosen_kernels
    found: list[Tuned] = []
    what, searched = count(len(entries), "entry"), first is None or _configs(kernels) != _configs(first.kernels)
    if entries and kernels and first is not None and searched and not whole.has_time(2 * first.build.seconds):
        context.note(
            f"no time to compile the model with {what} and with microkernels: a longer --budget would try both"
        )
        entries = ()
    try:
        with process.until(context.clock.at(context.clock.budget - whole.racing)):
            tuned = whole.make(entries) if entries else None
            found += [tuned] if tuned else []
            what = f"{len(kernels)} microkernels"
            if kernels and (tuned or searched):
                mixed = KernelMix(whole, f"tuned-{whole.tried.route.name}-{KERNELS}").make(kernels, tuned)
                first = _faster(whole, first, mixed)
                if first is not None and first.us is None:
                    first = whole.timed(first)
    except OutOfTimeError:
        context.note(f"no time to compile the model with {what}: a longer --budget would try them")
    return [*found, *([first] if first else [])]


def _faster(whole: WholeModel, first: Tuned | None, mixed: Tuned | None) -> Tuned | None:
    """Of the model with kernels by their defaults and with those that were searched; timed in turns."""
    if first is None or mixed is None:
        return mixed or first
    return first if whole.faster(first.build, mixed.build) is first.build else mixed


def _configs(kernels: Sequence[KernelEntry]) -> dict[str, Config]:
    return {entry.label: entry.config for entry in kernels}


def _moved(entries: Sequence[Entry], structure: ModelStructure) -> list[Entry]:
    """The entries on the dispatches that are left beside the kernels, which have other names there."""
    groups = {root_key(group.root): group for group in structure.groups}
    there = [(entry, groups.get(root_key(entry.group.root))) for entry in entries]
    return [replace(entry, group=group) for entry, group in there if group is not None]
