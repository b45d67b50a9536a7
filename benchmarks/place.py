"""Where the benchmarks of faults run a command: a workspace and a cache of its own, and what may not be left of it."""

from __future__ import annotations

import fcntl
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from autotuner.errors import StorageError
from autotuner.store.rows import CandidateRow, RunRow
from autotuner.store.store import Store
from autotuner.system.cache import MAKING
from autotuner.system.settings import cache_dir
from tests.support.patience import wait_until

ROOT = Path(__file__).parents[1]
SHAPES = "op,shape,dtype\ngemm,96x64x128,f32\ngemm,48x80x64,f32\n"
SHORT = ("--effort", "quick", "--microkernels", "none", "--json", "--resume")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "gemm": ("gemm", "--shape", "96x64x128", "--dtype", "f32", "--budget", "30s", "--trials", "5", *SHORT),
    "model": ("model", str(ROOT / "tests/jobs/model/examples/three.mlir"), "--budget", "50s", "--trials", "3", *SHORT),
    "suite": ("suite", "shapes.csv", "--budget", "40s", "--trials", "3", *SHORT),
    "ab": ("ab", "sgemm_c", "--shape", "96x64x128", "--budget", "35s", "--json", "--resume"),
}
LARGER = ("--shape", "256x256x512")
LATE: Mapping[str, tuple[str, ...]] = {
    "gemm": ("gemm", *LARGER, "--dtype", "f32", "--budget", "60s", "--trials", "8", *SHORT),
    "model": ("model", "larger.mlir", "--budget", "240s", "--trials", "4", *SHORT),
    "suite": ("suite", "larger.csv", "--budget", "120s", "--trials", "6", *SHORT),
    "ab": ("ab", "sgemm_c", *LARGER, "--budget", "60s", "--json", "--resume"),
}
"""The same where IREE's default is mostly beaten, so that files are written."""
PROGRAMS = {"compile": "iree-compile", "device": "autotuner.devices.child"}
"""Words of the command lines of a command's own programs."""
ENDED = ("timed", "failed", "duplicate")
RACE = {"race", "confirm"}
_MARK = "AUTOTUNE_CHAOS"
_LONGEST = 600.0
SOON = 20.0
"""Seconds in which a command's programs are gone after it."""


def _fourfold(number: re.Match[str]) -> str:
    return str(4 * int(number[0]))


@dataclass
class Place:
    """Folders of a round, and the environment of its programs."""

    folder: Path
    mark: str
    storage: tuple[str, ...] = ()
    more: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    """Words before a command."""

    def __post_init__(self) -> None:
        for name in ("workspace", "cache", "tmp", "watch"):
            (self.folder / name).mkdir()
        (self.folder / "cache" / "digests").symlink_to(cache_dir() / "digests")  # to hash the compiler takes seconds
        (self.workspace / "shapes.csv").write_text(SHAPES)
        (self.workspace / "larger.csv").write_text(re.sub(r"\d+(?=x|,f)", _fourfold, SHAPES))
        model = (ROOT / "tests/jobs/model/examples/three.mlir").read_text()
        (self.workspace / "larger.mlir").write_text(re.sub(r"\d+(?=x)", _fourfold, model))

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def start(self, words: tuple[str, ...], log: Path) -> subprocess.Popen[bytes]:
        own = {_MARK: self.mark, "AUTOTUNE_CACHE_DIR": str(self.folder / "cache"), "TMPDIR": str(self.folder / "tmp")}
        with log.open("wb") as out, log.with_suffix(".err").open("wb") as err:
            return subprocess.Popen(
                [*self.before, sys.executable, "-m", "autotuner", *words, *self.storage],
                cwd=self.workspace,
                env={**os.environ, **own, **self.more},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
            )

    def programs(self, word: str = "") -> list[int]:
        """Processes of this round that have the word in their command line."""
        found, mark = [], f"{_MARK}={self.mark}".encode()
        for name in filter(str.isdecimal, os.listdir("/proc")):
            with suppress(OSError):
                if mark in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                    words = Path(f"/proc/{name}/cmdline").read_bytes().decode(errors="replace")
                    if words and word in words:
                        found.append(int(name))
        return found

    def rows(self) -> tuple[list[RunRow], dict[int, CandidateRow]]:
        """All runs, and the candidates that have ended."""
        url = self.storage[1] if self.storage else None
        with suppress(StorageError), Store.open(url, workspace=self.workspace, create=False) as store:
            runs = store.runs()
            rows = [row for run in runs for row in store.candidates(run.id) if row.state in ENDED]
            return runs, {row.id: row for row in rows}
        return [], {}

    def seen(self) -> tuple[int, list[str]]:
        """How many rows have ended, and the phases of all timings, as another program sees them beside the command."""
        url = self.storage[1] if self.storage else f"sqlite:///{self.workspace}/results/autotune.db"
        with suppress(StorageError), Store.open(url, workspace=self.folder / "watch", create=False) as store:
            runs = [run.id for run in store.runs()]
            rows = sum(row.state in ENDED for run in runs for row in store.candidates(run))
            return rows, [timing.phase for run in runs for timing in store.timings(run)]
        return 0, []

    def files(self) -> set[tuple[str, float]]:
        """What is written to specs/, without the file that shows at the beginning whether it can be."""
        with suppress(OSError):
            found = (path for path in (self.workspace / "specs").rglob("*") if ".executables." not in path.name)
            return {(path.name, path.stat().st_mtime) for path in found}
        return set()

    def left(self) -> Iterator[str]:
        """What is left when nothing of the round runs any more."""
        if not wait_until(lambda: not self.programs(), seconds=SOON):
            yield f"processes: {[Path(f'/proc/{pid}/cmdline').read_text() for pid in self.programs()]}"
        for lock in self.folder.rglob("*.lock"):
            with lock.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    yield f"a held lock: {lock.name}"
        yield from (f"temporary: {path.name}" for path in (self.folder / "tmp").iterdir())
        for name in (f"{MAKING}*", ".autotune-*"):
            found = (path for path in self.folder.rglob(name) if path.suffix != ".lock")
            yield from (f"half made: {path.relative_to(self.folder)}" for path in found)


def ended(running: subprocess.Popen[bytes]) -> int:
    try:
        return running.wait(_LONGEST)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()
        return -999


def differences(
    runs: list[RunRow], before: Mapping[int, CandidateRow], runs_after: list[RunRow], after: Mapping[int, CandidateRow]
) -> Iterator[str]:
    """Rows that are missing, changed or doubled."""
    for row in before.values():
        now = after.get(row.id)
        if now is None or (now.state, now.config.key, now.failure) != (row.state, row.config.key, row.failure):
            yield f"row {row.id} ({row.state}) is now {now and now.state}"
    kept = Counter((row.run, row.route, row.config.key) for row in after.values() if row.kind == "codegen")
    yield from (f"{run} has {times} rows of {route} {key}" for (run, route, key), times in kept.items() if times > 1)
    tops = [run for run in runs_after if run.parent is None]
    if len(tops) > max(1, sum(run.parent is None for run in runs)):
        yield f"--resume began another run: {[(run.id, run.status) for run in tops]}"
