"""Microkernels and tuned dispatches in one model: each kernel proven there, right as a whole, and worth its place."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from autotuner._version import __version__
from autotuner.build.ship import write_parts
from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.carrier import MicrokernelCarrier, Parts, Said
from autotuner.errors import AutotuneError, OutOfTimeError
from autotuner.iree.compile import Compiled, CompilerRefusal, first_error
from autotuner.jobs.model.context import ModelStructure
from autotuner.jobs.model.dispatches import Dispatches
from autotuner.jobs.model.entries import Entry, applied
from autotuner.jobs.model.extract import root_key
from autotuner.jobs.model.kernels import KernelEntry
from autotuner.jobs.model.whole import Tuned, WholeModel
from autotuner.microkernels.instance import Call
from autotuner.system import process


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
    calls: dict[tuple[str, int], Call] = field(default_factory=dict)
    """Each kernel is built once for its place and number."""

    @property
    def dispatches(self) -> Dispatches:
        return self.whole.dispatches

    @property
    def name(self) -> str:
        return f"tuned-{self.whole.tried.route.name}-kernels"

    def make(self, kernels: Sequence[KernelEntry], tuned: Tuned | None) -> Tuned | None:
        """The model with kernels and with the entries of `tuned`; None when no kernel is left."""
        context, tried = self.dispatches.context, self.whole.tried
        context.stage(f"compiling the model with {len(kernels)} microkernels on route {tried.route.name}")
        row = context.row("microkernel", tried.route)
        entries = tuned.entries if tuned else ()
        without = tuned.build if tuned else tried.build
        kept: Sequence[KernelEntry] = tuple(kernels)
        while kept:
            made = self._mixed(kept, entries, self.name)
            if made is None:
                return None
            if not made.build.ok:
                context.session.store.record_failure(row, made.build.failure or "", stderr=made.build.stderr)
                self._drop(kept, f"the model does not compile with it: {first_error(made.build.stderr)[:120]}")
                return None
            lost = self._losing(made, entries, without) if len(made.kernels) == len(kept) else {}
            if len(made.kernels) == len(kept) and not lost:
                return self._checked(made, row)
            kept = [entry for entry in made.kernels if entry.label not in lost]
        context.session.store.record_failure(row, "not-applied", stderr="no microkernel was left")
        return None

    def _mixed(self, kernels: Sequence[KernelEntry], entries: Sequence[Entry], name: str) -> _Mixed | None:
        """Compiles the model with those kernels that are called in it."""
        context, route = self.dispatches.context, self.whole.tried.route
        proven = self._proven(kernels, name)
        if not proven:
            return None
        parts = self._parts(proven)
        flags = write_parts(self.whole.files(name), parts)
        structure = context.structure(route, more=flags)
        moved = tuple(_moved(entries, structure))
        both, build = self.whole.build(moved, name, structure=structure, kernels=parts)
        there = tuple(entry for entry in moved if applied(build, entry)[0]) if build.ok else moved
        if len(there) < len(moved):
            both, build = self.whole.build(there, name, structure=structure, kernels=parts)
        return _Mixed(tuple(proven), there, both, build)

    def _proven(self, kernels: Sequence[KernelEntry], name: str) -> list[KernelEntry]:
        """Those that are called in the preprocessed model; a kernel that cannot be built is none of them."""
        context, tools = self.dispatches.context, self.dispatches.context.session.tools
        built = [entry for number, entry in enumerate(kernels) if self._builds(entry, number)]
        if not built:
            return []
        parts = self._parts(built)
        flags = write_parts(self.whole.files(name), parts)
        words = [*context.flags(self.whole.tried.route), *flags]
        try:
            text = preprocess(tools, context.program.path, words, timeout=context.compile_timeout)
        except CompilerRefusal as refusal:
            self._drop(built, f"the model does not take its spec: {first_error(refusal.stderr)[:120]}")
            return []
        proof = prove(text, kernel_calls([self._call(entry, number) for number, entry in enumerate(built)]))
        for entry, count in zip(built, proof.found, strict=True):
            self.dispatches.kernels.set_row(entry.label, applied=count)
            if not count:
                self._drop([entry], "it is called nowhere in the model")
        return [entry for entry, count in zip(built, proof.found, strict=True) if count]

    def _builds(self, entry: KernelEntry, number: int) -> bool:
        try:
            self._call(entry, number)
        except OutOfTimeError:
            raise
        except AutotuneError as error:
            self._drop([entry], f"it cannot be built: {error.message}")
            return False
        return True

    def _call(self, entry: KernelEntry, number: int) -> Call:
        key = (entry.label, number)
        if key not in self.calls:
            self.calls[key] = entry.call(number)
        return self.calls[key]

    def _parts(self, kernels: Sequence[KernelEntry]) -> Parts:
        """The spec of these kernels and their objects."""
        context = self.dispatches.context
        calls = tuple(self._call(entry, number) for number, entry in enumerate(kernels))
        forms = tuple(entry.place.forms for entry in kernels)
        tools = context.session.tools
        said = Said(
            [
                f"{MicrokernelCarrier.title} by autotune {__version__}",
                f"model:      {context.program.name}",
                f"target:     {context.target.name}; IREE {tools.release} ({tools.build})",
                *(f"kernel:     {call.instance.name} for {call.problem.name}" for call in calls),
                f"made by:    {' '.join(self.whole.command.split())}",
            ],
            each=[entry.provenance(context, self.whole.command) for entry in kernels],
        )
        return MicrokernelCarrier(calls, self.dispatches.kernels.executable_target, forms).parts(said)

    def _losing(self, made: _Mixed, entries: Sequence[Entry], without: Compiled | None) -> dict[str, str]:
        """Kernels without which the whole model is faster."""
        context, name = self.dispatches.context, f"without-{self.name}"
        if without is None:
            return {}
        context.stage("looking for microkernels that lose inside the model")

        def build(some: Sequence[KernelEntry]) -> Compiled:
            fewer = self._mixed(some, entries, name)
            return fewer.build if fewer is not None else Compiled.refused("no microkernel is called")

        lost = self.whole.losers(made.kernels, made.build, without, build)
        shutil.rmtree(context.folder / name, ignore_errors=True)
        for entry in made.kernels:
            if entry.label in lost:
                self._drop([entry], lost[entry.label])
        return lost

    def _checked(self, made: _Mixed, row: int) -> Tuned | None:
        """Its outputs are those of the untuned model, as far as rounding explains them."""
        error, wrong = self.whole.check(made.build, row)
        if wrong:
            self._drop(made.kernels, wrong)
            return None
        return Tuned(
            self.whole.tried, self.name, made.entries, made.parts, made.build, error, row, kernels=made.kernels
        )

    def _drop(self, kernels: Sequence[KernelEntry], why: str) -> None:
        for entry in kernels:
            self.dispatches.kernels.set_row(entry.label, state="dropped", reason=why)
            self.dispatches.context.note(f"the microkernel for {entry.label} is left out: {why}")


def put_together(whole: WholeModel, entries: Sequence[Entry]) -> list[Tuned]:
    """The model with these entries, then with microkernels too, as far as there is time before the race begins."""
    context, kernels = whole.dispatches.context, whole.dispatches.chosen_kernels
    found: list[Tuned] = []
    what = f"{len(entries)} entries"
    try:
        with process.until(context.clock.at(context.clock.budget - whole.racing)):
            tuned = whole.make(entries) if entries else None
            found += [tuned] if tuned else []
            what = f"{len(kernels)} microkernels"
            mixed = KernelMix(whole).make(kernels, tuned) if kernels else None
            found += [mixed] if mixed else []
    except OutOfTimeError:
        context.note(f"no time to compile the model with {what}: a longer --budget would try them")
    return found


def _moved(entries: Sequence[Entry], structure: ModelStructure) -> list[Entry]:
    """The entries on the dispatches that are left beside the kernels, which have other names there."""
    groups = {root_key(group.root): group for group in structure.groups}
    there = [(entry, groups.get(root_key(entry.group.root))) for entry in entries]
    return [replace(entry, group=group) for entry, group in there if group is not None]
