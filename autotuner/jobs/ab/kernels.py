"""A microkernel in a program: which of its operations it fits, the spec that calls it there, and the proof."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotuner.build import Builder, BuildJob
from autotuner.carriers.calls import Proof, kernel_calls, preprocess, prove
from autotuner.carriers.carrier import MicrokernelCarrier
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG, executable_target, spec_mlir
from autotuner.errors import NoCandidateError
from autotuner.iree.compile import CompilerRefusal, first_error
from autotuner.iree.folder import PROBLEM, SPEC
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Call, search_folders
from autotuner.microkernels.library import find
from autotuner.microkernels.manifest import DoesNotFitError
from autotuner.microkernels.variants import Kernel, Variants
from autotuner.patterns.forms import Forms
from autotuner.patterns.operations import Operation, Reading, forms_of, read_operations
from autotuner.problems import Problem
from autotuner.problems.accuracy import Precision
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.targets import Target

OBJECTS = "objects"
LISTED = 12


@dataclass(frozen=True)
class InsertedKernel:
    """The kernel where it is called."""

    carrier: MicrokernelCarrier
    counts: tuple[int, ...]
    """How often the program calls each of its calls, as its preprocessed form shows."""
    spec: Path
    flags: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def carried_by(self, job: BuildJob) -> BuildJob:
        """The job with the kernel as plain data, not by the names of its files."""
        carried = self.carrier.carried()
        others = tuple(flag for flag in job.flags if flag not in self.flags)
        return replace(
            job,
            flags=(*others, *carried.flags),
            spec=carried.spec,
            spec_flag=carried.spec_flag,
            files=carried.files,
            kernels=carried.kernels,
        )

    def listed(self) -> tuple[Mapping[str, Any], ...]:
        pairs = zip(self.carrier.calls, self.counts, strict=True)
        return tuple({"problem": c.problem.name, "variant": c.instance.name, "calls": count} for c, count in pairs)


@dataclass(frozen=True)
class KernelSite:
    """Where a kernel is to be called."""

    program: str | Path
    flags: tuple[str, ...]
    """The target's and the program's own."""
    target: Target
    chip: str
    tools: Tools
    workspace: Path
    folder: Path
    """Where the spec and the objects go."""
    timeout: float
    problem: Problem | None
    """What a kernel is to compute; None: whatever it fits."""
    allow: Precision
    """The accuracy that is accepted of what it computes."""

    @property
    def name(self) -> str:
        """What messages call the program."""
        return self.program.name if isinstance(self.program, Path) else PROBLEM

    def insert(self, kernel: Kernel) -> InsertedKernel:
        """Replaces the operation of the problem, or all that the kernel fits, and proves it."""
        operations = [operation.accepting(self.allow) for operation in read_operations(self._preprocess(()))]
        made_for = self._executable_target() if self.target.backend.on_host else ""
        offers, found = self._fitting(kernel, operations, made_for)
        forms = {problem: forms_of(readings) for problem, readings in found.items()}
        calls = self._calls([offers[problem] for problem in found])
        proof = self._prove(calls, made_for, forms)
        kept = [call for call, count in zip(calls, proof.found, strict=True) if count]
        if not kept:
            raise NoCandidateError(
                f"{kernel.name} is called nowhere in {self.name}: {proof.reason(kernel_calls(calls))}",
                remedy="It must stand there as the problem has it: the types, and zeros to start from.",
            )
        notes = [
            f"{call.problem.name} stands in another form in the program: {kernel.name} is not called for it"
            for call in calls
            if call not in kept
        ]
        if notes:
            proof = self._prove(kept, made_for, forms)
        carrier = MicrokernelCarrier(tuple(kept), made_for, tuple(forms[call.problem] for call in kept))
        return InsertedKernel(carrier, proof.found, self.folder / SPEC, self._carriers(), tuple(notes))

    def _fitting(
        self, kernel: Kernel, operations: Sequence[Operation], made_for: str
    ) -> tuple[dict[Problem, Variants], dict[Problem, list[Reading]]]:
        """The kernel's variants by problem, and what it can compute of each operation: the most of it that it can."""
        offers: dict[Problem, Variants] = {}
        found: dict[Problem, list[Reading]] = {}
        reasons = []
        for operation in operations:
            why = "no problem has this form"
            for reading in operation.readings:
                if self.problem not in (None, reading.problem, reading.bare):
                    why = f"it is not {self.problem.name}"
                    continue
                try:
                    if reading.problem not in offers:
                        offers[reading.problem] = self._variants(kernel, reading.problem, made_for)
                except DoesNotFitError as error:
                    why = error.message
                else:
                    found.setdefault(reading.problem, []).append(reading)
                    break
            else:
                reasons.append(f"{operation.text}: {why}")
        if found:
            return offers, found
        if self.problem is not None:
            offers = {self.problem: self._variants(kernel, self.problem, made_for)}
            return offers, {self.problem: [Reading(self.problem, None)]}
        more = [f"and {len(reasons) - LISTED} more"] if len(reasons) > LISTED else []
        listed = "\n".join(["the program has:", *reasons[:LISTED], *more])
        raise NoCandidateError(
            f"{kernel.name} fits no operation of {self.name}; "
            f"{listed if reasons else 'the program has no product, convolution or attention'}",
            remedy="`autotune ab --list` names the microkernels there are.",
        )

    def _variants(self, kernel: Kernel, problem: Problem, made_for: str) -> Variants:
        """Refuses a problem that no choice of the kernel's parameters fits."""
        manifest = find(kernel.name, search_folders(self.workspace))
        return Variants.of(
            manifest, problem, self.chip, workspace=self.workspace, kernel=kernel, executable_target=made_for
        )

    def _calls(self, offers: Sequence[Variants]) -> list[Call]:
        """The default choice of the kernel's parameters for each."""
        calls = [variants.call(variants.default()) for variants in offers]
        if len({call.instance.objects for call in calls}) == 1:
            return calls
        # Executables are linked into one: of two functions of the same name both would call the first.
        return [variants.call(variants.default(), suffix=f"_{number}") for number, variants in enumerate(offers)]

    def _executable_target(self) -> str:
        builder = Builder(self.tools, Cache(cache_dir()))
        try:
            return executable_target(builder.executables(self.program, self.flags, timeout=self.timeout)[0])
        except (CompilerRefusal, IndexError) as error:
            words = first_error(error.stderr) if isinstance(error, CompilerRefusal) else "it has no dispatch"
            raise NoCandidateError(f"{self.name}: {words}", remedy="Check the program and --flag.") from error

    def _prove(self, calls: Sequence[Call], made_for: str, forms: Mapping[Problem, Forms]) -> Proof:
        """Writes the spec of these calls with their objects, and counts what it puts into the program."""
        objects = self.folder / OBJECTS
        shutil.rmtree(objects, ignore_errors=True)
        objects.mkdir(parents=True)
        for path in {path for call in calls for path in call.instance.objects}:
            shutil.copy(path, objects / path.name)
        text = spec_mlir(calls, target=made_for, forms=[forms[call.problem] for call in calls])
        (self.folder / SPEC).write_text(text)
        return prove(self._preprocess(self._carriers()), kernel_calls(calls))

    def _carriers(self) -> tuple[str, ...]:
        return f"{SPEC_FLAG}={self.folder / SPEC}", f"{OBJECTS_FLAG}={self.folder / OBJECTS}"

    def _preprocess(self, carriers: Sequence[str]) -> str:
        try:
            return preprocess(self.tools, self.program, [*self.flags, *carriers], timeout=self.timeout)
        except CompilerRefusal as refusal:
            raise NoCandidateError(
                f"iree-compile does not take {self.name}: {first_error(refusal.stderr)}",
                remedy="Check the program, --flag and --target.",
            ) from refusal
