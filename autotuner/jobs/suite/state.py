"""What a suite's run has done so far, written as it happens, so that --resume goes on from there."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from autotuner.carriers.flags import objection
from autotuner.errors import StorageError, UsageError
from autotuner.jobs.suite.rows import Row
from autotuner.system.workspace import write_whole

FILE = "state.json"
SCHEMA = 1


@dataclass(frozen=True)
class Identity:
    """What must be the same when a run is resumed; anything else may change."""

    input: str
    """SHA-256 of the file, or of the named suite's problems."""
    device: str
    flags: tuple[str, ...]
    seed: int
    sample: int | None
    reads: tuple[str, ...]
    """Digests of the programs that measure, and of files that flags name."""

    def differences(self, other: Mapping[str, Any]) -> list[str]:
        mine = {**asdict(self), "flags": list(self.flags), "reads": list(self.reads)}
        words = {
            "input": "the input has another content (SHA-256)",
            "reads": "IREE, or a file that --flag names, is another",
        }
        return [
            words.get(name, f"--{name.removesuffix('s')} was {other.get(name)}, now it is {value}")
            for name, value in mine.items()
            if other.get(name) != value
        ]


@dataclass
class State:
    """The rows by problem, and the times of the defaults."""

    path: Path
    identity: Identity
    run: str
    defaults: dict[str, float] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    running: str | None = None
    """The problem whose tuning run has begun and not ended."""

    @classmethod
    def begin(cls, folder: Path, identity: Identity) -> State:
        run = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        return cls(folder / FILE, identity, run)

    @classmethod
    def resume(cls, folder: Path, identity: Identity) -> State:
        """The state of the folder; a new one when there is none; an error when it belongs to another input."""
        path = folder / FILE
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return cls.begin(folder, identity)
        except (OSError, ValueError) as error:
            raise _damaged(path) from error
        try:
            if document["schema"] != SCHEMA:
                raise _damaged(path)
            if differences := identity.differences(document["identity"]):
                raise UsageError(
                    f"this suite's run in {folder} cannot be resumed: {'; '.join(differences)}.",
                    remedy="Run without --resume to start anew, or bring back what it was begun with.",
                )
            rows = {name: Row.from_json(record) for name, record in document["rows"].items()}
            # The file may have been written by anybody, and its flags go into a compile.
            if any(objection([f for f in row.flags if f not in identity.flags]) for row in rows.values()):
                raise _damaged(path)
            defaults = {str(name): float(us) for name, us in document["defaults"].items()}
            return cls(path, identity, str(document["run"]), defaults, rows, document["running"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _damaged(path) from error

    def save(self) -> None:
        document = {
            "schema": SCHEMA,
            "run": self.run,
            "identity": asdict(self.identity),
            "running": self.running,
            "defaults": self.defaults,
            "rows": {name: row.to_json() for name, row in self.rows.items()},
        }
        write_whole(self.path, json.dumps(document, indent=1) + "\n")


def _damaged(path: Path) -> StorageError:
    return StorageError(f"{path} is damaged.", remedy="Run without --resume to start anew.")
