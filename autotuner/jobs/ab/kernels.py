"""A microkernel in a program: which of its operations it fits, the spec that calls it there, and the proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from autotuner.build import Builder
from autotuner.carriers.calls import Proof, kernel_calls, prove
from autotuner.carriers.carrier import MicrokernelCarrier
from autotuner.errors import NoCandidateError
from autotuner.iree.compile import CompilerRefusal, first_error, inspect
from autotuner.iree.processor import executable_target
from autotuner.jobs.ab.recipe import ArmSite, Recipe
from autotuner.microkernels.instance import search_folders
from autotuner.microkernels.library import find
from autotuner.microkernels.manifest import DoesNotFitError
from autotuner.microkernels.variants import Kernel, Variants
from autotuner.patterns.operations import Operation, Reading, forms_of, read_operations
from autotuner.problems import Problem
from autotuner.problems.operations import OPERATIONS
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.system.text import listed

Fitting = Mapping[Problem, tuple[Variants, list[Reading]]]
"""By problem: what the kernel offers for it, and where it stands in the program."""


def with_kernel(at: ArmSite, kernel: Kernel) -> Recipe:
    """The kernel in the place of the operation of the problem, or of all that it fits, and the proof."""
    operations = [operation.accepting(at.allow) for operation in read_operations(_preprocessed(at, at.plain))]
    made_for = _executable_target(at) if at.target.backend.on_host else ""
    found = _fitting(at, kernel, operations, made_for)
    forms = tuple(forms_of(readings) for _, readings in found.values())
    calls = [variants.call(variants.default()) for variants, _ in found.values()]
    recipe, proof = _proven(at, MicrokernelCarrier(tuple(calls), made_for, forms))
    if not any(proof.found):
        raise NoCandidateError(
            f"{kernel.name} is called nowhere in {at.name}: {proof.reason(kernel_calls(calls))}",
            remedy="It must stand there as the problem has it: the types, and zeros to start from.",
        )
    if not proof.applied:
        kept = [(call, those) for call, those, n in zip(calls, forms, proof.found, strict=True) if n]
        lost = [call.problem.name for call, n in zip(calls, proof.found, strict=True) if not n]
        notes = tuple(f"{name} stands in another form there: {kernel.name} is not called for it" for name in lost)
        some, those = zip(*kept, strict=True)
        recipe, proof = _proven(at, MicrokernelCarrier(some, made_for, those))
        recipe = replace(recipe, notes=notes)
    return replace(recipe, applied=sum(proof.found), counts=proof.found)


def _fitting(at: ArmSite, kernel: Kernel, operations: Sequence[Operation], made_for: str) -> Fitting:
    """The largest part of each operation that the kernel can compute."""
    found: dict[Problem, tuple[Variants, list[Reading]]] = {}
    reasons = []
    for operation in operations:
        why = "no problem has this form"
        for reading in operation.readings:
            if at.problem not in (None, reading.problem, reading.bare):
                why = f"it is not {at.problem.name}"
                continue
            try:
                if reading.problem not in found:
                    found[reading.problem] = _variants(at, kernel, reading.problem, made_for), []
            except DoesNotFitError as error:
                why = error.message
            else:
                found[reading.problem][1].append(reading)
                break
        else:
            reasons.append(f"{operation.text}: {why}")
    if not found and at.problem is not None:
        return {at.problem: (_variants(at, kernel, at.problem, made_for), [Reading(at.problem, None)])}
    if not found:
        there = "\n".join(["the program has:", *listed(reasons)])
        raise NoCandidateError(
            f"{kernel.name} fits no operation of {at.name}; "
            f"{there if reasons else 'the program has no product, convolution or attention'}",
            remedy="`autotune ab --list` names the microkernels there are.",
        )
    return found


def _variants(at: ArmSite, kernel: Kernel, problem: Problem, made_for: str) -> Variants:
    """Refuses a problem that no choice of the kernel's parameters fits."""
    manifest = find(kernel.name, search_folders(at.workspace), OPERATIONS)
    return Variants.of(manifest, problem, at.chip, workspace=at.workspace, kernel=kernel, executable_target=made_for)


def _executable_target(at: ArmSite) -> str:
    builder = Builder(at.tools, Cache(cache_dir()))
    try:
        return executable_target(builder.executables(at.program, at.flags, timeout=at.timeout)[0])
    except (CompilerRefusal, IndexError) as error:
        words = first_error(error.stderr) if isinstance(error, CompilerRefusal) else "it has no dispatch"
        raise NoCandidateError(f"{at.name}: {words}", remedy="Check the program and --flag.") from error


def _proven(at: ArmSite, carrier: MicrokernelCarrier) -> tuple[Recipe, Proof]:
    """The recipe with these calls, and how many of each it puts into the program."""
    recipe = replace(at.plain, carrier=carrier.name, kernel=carrier, counts=(0,) * len(carrier.calls))
    return recipe, prove(_preprocessed(at, recipe), kernel_calls(carrier.calls))


def _preprocessed(at: ArmSite, recipe: Recipe) -> str:
    """The program as IREE's own pipelines get it."""
    job = recipe.job(at.program, timeout=at.timeout)
    try:
        return inspect(replace(job, timed=False, stop="preprocessing", dumps=()), at.tools).text
    except CompilerRefusal as refusal:
        raise NoCandidateError(
            f"iree-compile does not take {at.name}: {first_error(refusal.stderr)}",
            remedy="Check the program, --flag and --target.",
        ) from refusal
