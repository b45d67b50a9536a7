"""Which spec or flagfile is the tuned one of a problem: the user's own, or the last that won in this workspace."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import Arm, FlagfileArm, SpecArm, parse_arm
from autotuner.store.rows import RunRow
from autotuner.targets import Target


def given_arm(path: Path | None, *, workspace: Path, trust: bool) -> Arm | None:
    """`--spec FILE`: a spec (.mlir) or a flagfile (.flags)."""
    if path is None:
        return None
    if path.suffix not in (".mlir", ".flags"):
        raise UsageError(
            f"--spec {path} is neither a spec (.mlir) nor a flagfile (.flags).", remedy="Name one of them."
        )
    return parse_arm(str(path), workspace=workspace, trust=trust)


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
