"""A rehearsal of a retuning: what would be proven and raced, how long that may take, and what is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from autotuner.jobs.retune.origin import Left, Part
from autotuner.jobs.retune.plan import Plan, Wanted, read_plan
from autotuner.system.text import count
from autotuner.tuning.options import Options


@dataclass(frozen=True)
class Rehearsal:
    """What a retuning would do."""

    plan: Plan
    options: Options

    @property
    def seconds(self) -> float:
        return self.plan.seconds(self.options)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": 1,
            "target": self.plan.target.name,
            "seconds": self.seconds,
            "first_seconds": self.plan.first_seconds,
            "parts": [self._part(part) for part in self.plan.parts],
            "skipped": [_left(one) for one in self.plan.left],
        }

    def _part(self, part: Part) -> dict[str, Any]:
        return {
            "spec": str(part.unit.path),
            "problem": part.name,
            "entries": [entry.name for _, entry in part.entries],
            "seconds": self.plan.part_seconds(part, self.options),
            "old": part.old.to_json() if part.old else None,
            "place": dict(part.config),
        }

    def text(self) -> str:
        lines = [f"{count(len(self.plan.parts), 'program')} on {self.plan.target.name}, at most {self.seconds:.0f} s"]
        for part in self.plan.parts:
            what = ", ".join(entry.name for _, entry in part.entries) or "flags alone"
            old = f"; {part.old.figures()} by IREE {part.old.iree or '(not recorded)'}" if part.old else ""
            lines += [f"{part.unit.path}: {part.name}, {self.plan.part_seconds(part, self.options):.0f} s: {what}{old}"]
        for one in self.plan.left:
            entry = f" {one.entry}" if one.entry else ""
            lines.append(f"{one.unit.path}:{entry} skipped: {one.reason}")
        return "\n".join(lines)


def rehearse_retune(wanted: Wanted, *, options: Options) -> Rehearsal:
    """Reads files and results; compiles and writes nothing."""
    return Rehearsal(read_plan(wanted, options), options)


def _left(one: Left) -> dict[str, Any]:
    return {"spec": str(one.unit.path), "entry": one.entry, "reason": one.reason}
