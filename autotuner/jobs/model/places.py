"""Where microkernels fit in a program: operations that are one problem, and kernels that compute it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autotuner.errors import AutotuneError, OutOfTimeError
from autotuner.jobs.model.context import Context
from autotuner.microkernels.manifest import Manifest
from autotuner.microkernels.variants import Variants, find_manifests, fits
from autotuner.patterns.forms import Forms
from autotuner.patterns.operations import Operation, Reading, forms_of, read_joins, read_operations
from autotuner.problems import Gemm, Problem
from autotuner.problems.accuracy import Precision
from autotuner.programs.flow import Group


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
    """The dispatches that the compiler makes of them; None where they could not be told."""
    share: float = 0.0


def has_norm(problem: Problem) -> bool:
    """It is a product with the norm of its rows."""
    return isinstance(problem, Gemm) and bool(problem.epilogue.norm)


@dataclass(frozen=True)
class Library:
    """The microkernels that were asked for, and what is known of which problem they compute."""

    context: Context
    manifests: tuple[Manifest, ...]
    chip: str
    executable_target: str
    """What the compiler makes code for, on a processor."""
    norms: bool = True
    """Products may take the norms of their rows with them."""
    allow: Precision = ""
    """The accuracy that is accepted of what they compute."""
    _first: dict[Problem, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def open(cls, context: Context, executable_target: str) -> Library:
        chip, workspace = context.session.chip, context.session.workspace.root
        found, notes = find_manifests(context.options.microkernels, chip=chip, workspace=workspace)
        for note in notes:
            if note not in context.run.account.notes:  # a run opens it more than once
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
        for operation in operations:
            for reading in operation.readings:
                if self._takes_norm(reading.problem) and self.first(reading.problem):
                    found.setdefault(reading.problem, []).append(reading)
                    break
        return [
            Place(problem, forms_of(readings), len(readings), self.first(problem), all(r.constant for r in readings))
            for problem, readings in found.items()
        ]

    def _takes_norm(self, problem: Problem) -> bool:
        """Whether it has none, or is expected to gain by it: the norm alone is a dispatch more."""
        if not isinstance(problem, Gemm) or not problem.epilogue.norm:
            return True
        alone = replace(problem, epilogue=replace(problem.epilogue, norm="", eps=0.0))
        return self.norms and self._least(problem) <= self._least(alone)

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

    def _least(self, problem: Problem) -> float:
        """What the best kernel for it is expected to add to the program; infinite where nothing says that."""
        fitting = (manifest for manifest in self.manifests if self._fits(manifest, problem))
        return min((self._expected(one, problem) - one.saved(problem) for one in fitting), default=math.inf)

    def _expected(self, manifest: Manifest, problem: Problem) -> float:
        # Nothing is built: the workspace does not matter.
        offer = Variants.of(manifest, problem, self.chip, workspace=Path(), executable_target=self.executable_target)
        return offer.expected

    def _fits(self, manifest: Manifest, problem: Problem) -> bool:
        return fits(manifest, problem, self.chip, executable_target=self.executable_target)
