"""The files of a recorded space: rows as they happen, then NAME.csv.gz, and NAME.json with what it took."""

from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from autotuner.errors import UsageError
from autotuner.iree.compile import FailureClass
from autotuner.space import Config

TIME, FAILURE, BINARY = "time_ms", "failure", "binary"
RESULTS = (TIME, FAILURE, BINARY)
"""The columns that are not knobs."""


@dataclass(frozen=True)
class Row:
    """What became of one configuration."""

    config: Config
    binary: str
    """The first digits of its executables' hash: configurations that share it are one kernel."""
    failure: FailureClass | None = None
    time_ms: float | None = None
    detail: str = ""

    def cells(self) -> list[str]:
        ms = "" if self.time_ms is None else f"{self.time_ms:.6g}"
        return [*(str(value) for _, value in self.config.items), ms, self.failure or "", self.binary]


@dataclass
class Figures:
    """What one run took."""

    seconds: float = 0.0
    candidates: int = 0
    """Built, or found not to build."""
    build_s: float = 0.0
    """Of the compiler's processes, by the clock."""
    compiler_core_s: float = 0.0
    timed: int = 0
    """Taken to the device: neither failed builds nor the same binary again."""
    device_s: float = 0.0
    repeat: int = 1
    device_processes: int = 0
    baseline_ms: tuple[float, float] = (0.0, 0.0)
    """Before and after."""

    def built(self, seconds: float, *, core_s: float) -> None:
        self.candidates += 1
        self.build_s += seconds
        self.compiler_core_s += core_s

    def measured(self, seconds: float) -> None:
        self.timed += 1
        self.device_s += seconds

    def to_json(self) -> dict[str, Any]:
        built, timed = max(self.candidates, 1), max(self.timed, 1)
        return {
            **asdict(self),
            "build_s_per_candidate": round(self.build_s / built, 4),
            "core_s_per_candidate": round(self.compiler_core_s / built, 4),
            "device_s_per_candidate": round(self.device_s / timed, 4),
            "device_busy": round(self.device_s / self.seconds, 3) if self.seconds else None,
        }


class Rows:
    """The growing CSV; what is there from an earlier run is not done again."""

    def __init__(self, path: Path, *, known: Mapping[tuple[str, ...], str], file: TextIO) -> None:
        self._path, self._file, self._writer = path, file, csv.writer(file, lineterminator="\n")
        self._known = dict(known)

    @classmethod
    @contextmanager
    def open(cls, out: Path, name: str, *, knobs: Sequence[str]) -> Iterator[Rows]:
        path = out / f"{name}.csv"
        whole = _packed(path)
        if not path.exists() and whole.exists():
            path.write_bytes(gzip.decompress(whole.read_bytes()))
        text = path.read_bytes() if path.exists() else b""
        header = [*knobs, *RESULTS]
        complete = text[: text.rfind(b"\n") + 1]  # a killed run may have left half a row
        table = list(csv.reader(complete.decode().splitlines()))
        if table and table[0] != header:
            raise UsageError(f"{path} has other knobs than this space.", remedy="Choose another --out.")
        known = {tuple(cells[: len(knobs)]): cells[header.index(FAILURE)] for cells in table[1:]}
        with path.open("a", newline="") as file:
            file.truncate(len(complete))
            rows = cls(path, known=known, file=file)
            if not table:
                rows._writer.writerow(header)
            yield rows

    def __len__(self) -> int:
        return len(self._known)

    def has(self, config: Config) -> bool:
        return _key(config) in self._known

    def add(self, row: Row) -> None:
        self._known[_key(row.config)] = row.failure or ""
        self._writer.writerow(row.cells())
        self._file.flush()

    def finish(self, figures: Figures, *, about: Mapping[str, Any], environment: Mapping[str, Any]) -> Path:
        """Packs the rows, and adds this run to the file beside them."""
        self._file.close()
        packed, beside = _packed(self._path), self._path.with_suffix(".json")
        # Without a time in the header the same rows give the same file.
        packed.write_bytes(gzip.compress(self._path.read_bytes(), mtime=0))
        self._path.unlink()
        earlier = json.loads(beside.read_text())["runs"] if beside.exists() else []
        failures = Counter(failure for failure in self._known.values() if failure)
        machine = {k: v for k, v in environment.items() if k not in ("host", "user")}
        document = {
            **about,
            "rows": len(self),
            "failures": dict(sorted(failures.items())),
            "runs": [*earlier, {**figures.to_json(), "environment": machine}],
        }
        beside.write_text(json.dumps(document, indent=2) + "\n")
        return packed


def _packed(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def _key(config: Config) -> tuple[str, ...]:
    return tuple(str(value) for _, value in config.items)
