"""Which spec or flagfile is the tuned one of a problem: the user's own, one of a folder, or the last that won here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import Arm, FlagfileArm, SpecArm, parse_arm
from autotuner.store.rows import RunRow
from autotuner.targets import Target


@dataclass(frozen=True)
class SpecFolder:
    """Specs of several problems, by the names under which they are shipped."""

    path: Path
    workspace: Path
    trust: bool

    @property
    def reads(self) -> tuple[Path, ...]:
        return (self.path,)

    def arm(self, problem: str, target: Target) -> Arm | str:
        """The one of this problem, or why there is none, in words."""
        shipped = [self.path / f"{problem}-{target.name}{ending}" for ending in (".mlir", ".flags")]
        for file in (file for file in shipped if file.is_file()):
            return parse_arm(str(file), workspace=self.workspace, trust=self.trust)
        return f"{self.path} has no {shipped[0].name} or .flags"


def given_arm(path: Path | None, *, workspace: Path, trust: bool) -> Arm | SpecFolder | None:
    """`--spec FILE`: a spec (.mlir) or a flagfile (.flags); or a folder of specs."""
    if path is None:
        return None
    if path.is_dir():
        return SpecFolder(path, workspace, trust)
    if path.suffix not in (".mlir", ".flags"):
        raise UsageError(
            f"--spec {path} is neither a spec (.mlir) nor a flagfile (.flags), nor a folder.",
            remedy="Name one of them.",
        )
    return parse_arm(str(path), workspace=workspace, trust=trust)


def tuned_arm(given: Arm | SpecFolder | None, problem: str, runs: Sequence[RunRow], target: Target) -> Arm | str:
    """The user's own for this problem, or what the last of these runs that won has shipped; or why there is none."""
    if isinstance(given, SpecFolder):
        return given.arm(problem, target)
    return given or won_arm(runs, target)


def won_arm(runs: Sequence[RunRow], target: Target) -> Arm | str:
    """What the last of these runs that won has shipped; or why there is nothing, in words."""
    won = [run for run in runs if run.target == target.name and (run.result or {}).get("verdict") == "win"]
    if not won:
        tuned = any(run.target == target.name for run in runs)
        return "it was tuned, and nothing won" if tuned else "it was not tuned in this workspace"
    for run in won:
        shipped = {name: (run.result or {}).get(name) for name in ("flagfile", "spec")}
        flagfile, spec = (Path(path) if path else None for path in shipped.values())
        if flagfile is not None and flagfile.is_file():
            return FlagfileArm(str(flagfile), flagfile.absolute())
        if spec is not None and spec.is_file():
            return SpecArm(str(spec), spec.absolute())
    return f"the files of run {won[0].id} are gone"
