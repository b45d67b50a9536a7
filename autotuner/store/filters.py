"""Which runs are meant: conditions on the table of runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import ColumnElement, func, or_, select

from autotuner.store.schema import ENVIRONMENT, RUNS, VERDICTS


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """What a run must have; None: anything."""

    op: str | None = None
    shape: str | None = None
    """A whole part of the problem's name, `512x512x1024`."""
    target: str | None = None
    device: str | None = None
    """IREE's device, with or without what follows `://`, or a piece of the device's own name."""
    since: datetime | None = None
    verdict: str | None = None
    """The verdict, or of a run that has none its status."""

    @property
    def names_problem(self) -> bool:
        """A problem is meant wherever it was tuned, also as a part of a suite or a model."""
        return self.op is not None or self.shape is not None

    def conditions(self) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = []
        if self.op is not None:
            found.append(RUNS.c.problem["op"].as_string() == self.op)
        if self.shape is not None:
            # The name between two underscores, so that 12x12x12 is not found in 512x12x12.
            padded = "_" + RUNS.c.problem["name"].as_string() + "_"
            found.append(padded.contains(f"_{self.shape}_", autoescape=True))
        if self.target is not None:
            found.append(RUNS.c.target == self.target)
        if self.device is not None:
            found.append(_on_device(self.device))
        if self.since is not None:
            found.append(RUNS.c.started >= self.since.astimezone(UTC).isoformat(timespec="microseconds"))
        if self.verdict is not None:
            found.append(_verdict() == self.verdict)
        return found


ALL_RUNS = RunFilter()


def _on_device(device: str) -> ColumnElement[bool]:
    named = func.lower(ENVIRONMENT.c.document["device_name"].as_string())
    return or_(
        RUNS.c.device == device,
        ("," + RUNS.c.device + ",").contains(f",{device},", autoescape=True),  # one of several
        RUNS.c.device.startswith(f"{device}://", autoescape=True),
        select(ENVIRONMENT.c.id)
        .where(ENVIRONMENT.c.run == RUNS.c.id, named.contains(device.lower(), autoescape=True))
        .exists(),
    )


def _verdict() -> ColumnElement[str]:
    """As `history` shows it."""
    last = (
        select(VERDICTS.c.verdict)
        .where(VERDICTS.c.run == RUNS.c.id)
        .order_by(VERDICTS.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return func.coalesce(RUNS.c.result["verdict"].as_string(), last, RUNS.c.status)
