"""What became of each part, night by night: one JSON object a line, written when it happens and never changed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

from autotuner.errors import StorageError
from autotuner.store.figures import Failure, Figure

Status = Literal["begun", "finished", "failed"]
_REMEDY = "Mend or move the file; docs/nightly.md says what a line holds."


@dataclass(frozen=True)
class Entry:
    """A line: a part began, or ended with what it measured."""

    night: str
    """The date, in UTC."""
    part: str
    status: Status
    time: str
    command: tuple[str, ...] = ()
    run: str | None = None
    exit_code: int = 0
    reason: str = ""
    seconds: float = 0.0
    figures: tuple[Figure, ...] = ()
    failures: tuple[Failure, ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> Entry:
        known = {one.name: table[one.name] for one in fields(cls) if one.name in table}
        known["command"] = tuple(known.get("command", ()))
        known["figures"] = tuple(Figure(**one) for one in known.get("figures", ()))
        known["failures"] = tuple(Failure(**one) for one in known.get("failures", ()))
        return cls(**known)


def read(path: Path) -> list[Entry]:
    """All lines. A last line that was cut off by a kill does not count; another that cannot be read is an error."""
    if not path.exists():
        return []
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(f"{path} cannot be read ({error}).", remedy=_REMEDY) from None
    entries = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entries.append(Entry.from_json(json.loads(line)))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            if number < len(lines):
                raise StorageError(f"{path}:{number} is not a line of a nightly history.", remedy=_REMEDY) from None
    return entries


def append(path: Path, entry: Entry) -> None:
    """Writes a line to the disk; one that was cut off before it is ended first."""
    line = json.dumps(entry.to_json(), ensure_ascii=False, allow_nan=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        whole = _whole(path)
        with path.open("r+b" if path.exists() else "xb") as file:
            file.truncate(whole)
            file.seek(whole)
            file.write(f"{line}\n".encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}.", remedy="Free some space.") from error


def _whole(path: Path) -> int:
    """Bytes up to the end of the last whole line."""
    return path.read_bytes().rfind(b"\n") + 1 if path.exists() else 0


def latest(entries: Iterable[Entry]) -> dict[str, Entry]:
    """By part, its last line."""
    return {entry.part: entry for entry in entries}


def nights(entries: Sequence[Entry]) -> list[str]:
    """The nights in which something was measured, in the order of their last lines.

    Not of their dates: where a clock was wrong once, a date that is still to come would be the last night for good.
    """
    return [*dict.fromkeys(entry.night for entry in reversed(entries) if entry.status != "begun")][::-1]
