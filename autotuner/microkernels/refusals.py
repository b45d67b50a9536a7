"""Why no variant of a microkernel fits a problem: in the problem's own numbers, and not in knobs that nobody gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotuner.microkernels.manifest import DoesNotFitError, Manifest
from autotuner.problems import Operation, Problem


def none_fits(manifest: Manifest, problem: Problem, refused: Sequence[DoesNotFitError]) -> DoesNotFitError:
    """`refused` says why each variant does not fit, some reasons once: one that no choice of parameters changes is
    told; of others the problem's numbers are, that they depend on."""
    always = [one for one in refused if one.condition is None or not one.condition.names & manifest.chosen]
    if always:
        return always[0]
    names = {name for one in refused if one.condition is not None for name in one.condition.names}
    own = problem.variables() if isinstance(problem, Operation) else {}
    # What is 0 is not there: a bias, a mask, a transposed operand.
    given = [f"{name} = {own[name]}" for name in sorted(_sources(manifest, names)) if own.get(name)]
    if not given:
        return refused[0]
    message = f"{manifest.name}: none of its variants takes {', '.join(given)}."
    return DoesNotFitError(message, remedy=refused[0].remedy)


def _sources(manifest: Manifest, names: Iterable[str]) -> set[str]:
    """These names, and those that values among them are computed from."""
    found: set[str] = set()
    todo = set(names)
    while todo:
        name = todo.pop()
        found.add(name)
        if name in manifest.values:
            todo |= manifest.values[name].names - found
    return found
