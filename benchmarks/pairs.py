"""What two runs at once do to each other: `python -m benchmarks.pairs`.

Two products are tuned at once on this machine: with nothing else in common; with the device, the workspace, the cache
or the database in common; and with each pair of these. Each way is played twice: both go on to their ends, and the
first is killed (SIGKILL) in the middle. The second must end with a verdict, or be told in one line who holds what it
needs, and then go on when that is free. Rows of both must be whole, and nothing may be left.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotuner.errors import StorageError
from autotuner.store.store import Store
from benchmarks.machine import machine
from benchmarks.place import ENDED, Place, ended

SHARED = ("device", "workspace", "cache", "database")
SHAPES = ("96x64x128", "48x80x64")
WORDS = ("--dtype", "f32", "--effort", "quick", "--trials", "4", "--microkernels", "none", "--budget", "25s", "--json")
MIDDLE = 8.0
"""Seconds after which the first is killed, or the second begun: both are at work then."""


@dataclass
class Pair:
    """What became of two runs."""

    shared: Sequence[str]
    killed: bool
    codes: list[int] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    said: str = ""
    """Of the second, where it was refused."""
    wrong: list[str] = field(default_factory=list)


class Two:
    """Two runs' folders and words, some of them the same."""

    def __init__(self, folder: Path, shared: Sequence[str]) -> None:
        self.places, self.shared = [], shared
        for number in range(2):
            (folder / str(number)).mkdir()
            self.places.append(Place(folder / str(number), f"pair-{os.getpid()}-{'-'.join(shared)}-{number}"))
        if "cache" in shared:
            self.places[1].more = {"AUTOTUNE_CACHE_DIR": str(folder / "0" / "cache")}

    def words(self, number: int) -> tuple[str, ...]:
        owner = {name: 0 if name in self.shared else number for name in SHARED}
        workspace = self.places[owner["workspace"]].workspace
        database = self.places[owner["database"]].folder / "results.db"
        device = ("local-task", "local-sync")[owner["device"]]
        own = ("--workspace", str(workspace), "--storage", f"sqlite:///{database}", "--device", device)
        return "gemm", "--shape", SHAPES[number], *WORDS, *own

    def rows(self) -> Iterator[tuple[str, str]]:
        """What is wrong with the rows of both."""
        for place in self.places:
            path = place.folder / "results.db"
            try:
                with Store.open(f"sqlite:///{path}", workspace=place.workspace, create=False) as store:
                    for run in store.runs():
                        rows = [row for row in store.candidates(run.id) if row.state in ENDED]
                        keys = [row.config.key for row in rows if row.kind == "codegen"]
                        if len(keys) > len(set(keys)):
                            yield run.id, "has rows twice"
                        timed = sum(row.us is not None and row.duplicate_of is None for row in rows)
                        told = (run.result or {}).get("counts", {}).get("timed", 0)
                        if run.status == "finished" and timed < told:
                            yield run.id, f"has {timed} timed rows of {told}"
            except StorageError as error:
                if path.exists() and "holds no results" not in str(error):  # killed before its first row
                    yield str(path), str(error)


def play(shared: Sequence[str], killed: bool, folder: Path) -> Pair:
    found, two = Pair(shared, killed), Two(folder, shared)
    first = two.places[0].start(two.words(0), folder / "first.json")
    if not killed:
        time.sleep(MIDDLE / 2)
    second = two.places[1].start(two.words(1), folder / "second.json")
    if killed:
        time.sleep(MIDDLE)
        first.send_signal(signal.SIGKILL)
    found.codes = [ended(first), ended(second)]
    documents = ["first", "second"]
    if found.codes[1] == 5:
        found.said = (folder / "second.err").read_text().strip().splitlines()[-1]
        documents[1] = "later"
        if code := ended(two.places[1].start(two.words(1), folder / "later.json")):
            found.wrong.append(f"exit code {code} later: {(folder / 'later.err').read_text()[-300:]}")
    for name in documents[killed:]:
        text = (folder / f"{name}.json").read_text()
        found.verdicts.append(json.loads(text).get("verdict", "") if text.strip() else "")
    found.wrong += ["no verdict"] * found.verdicts.count("")
    for path in folder.glob("*.err"):
        if any(words in (text := path.read_text()) for words in ("Traceback", "this is a bug")):
            found.wrong.append(text[-400:])
    found.wrong += [" ".join(one) for one in two.rows()]
    found.wrong += [why for place in two.places for why in place.left()]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, help=".jsonl: a line a pair; what is in it is not run again")
    parser.add_argument("--minutes", type=float, default=1e9, help="none begins later")
    asked = parser.parse_args()
    ends = time.monotonic() + 60 * asked.minutes
    lines = asked.file.read_text().splitlines() if asked.file.exists() else []
    pairs = [Pair(**json.loads(line)) for line in lines]
    done = {(tuple(one.shared), one.killed) for one in pairs}
    ways = [way for count in (0, 1, 2, len(SHARED)) for way in itertools.combinations(SHARED, count)]
    for way, killed in itertools.product(ways, (False, True)):
        if (way, killed) in done or time.monotonic() > ends:
            continue
        with tempfile.TemporaryDirectory(prefix="pairs-") as name:
            pairs.append(play(way, killed, Path(name)))
        with asked.file.open("a") as file:
            file.write(json.dumps(pairs[-1].__dict__) + "\n")
        print(pairs[-1], file=sys.stderr, flush=True)
    print(f"`python -m benchmarks.pairs`. Machine: {machine()}.\n")
    print("| in common beside the machine | the first | exit codes | verdicts | the second was told | wrong |")
    print("|---|---|---|---|---|---|")
    for one in pairs:
        said = one.said.removeprefix("autotune: ").split(" (process")[0][:120]
        cells = (", ".join(one.shared) or "nothing", "killed" if one.killed else "goes on", one.codes, one.verdicts)
        print(f"| {' | '.join(map(str, (*cells, said, '; '.join(one.wrong) or 'nothing')))} |")


if __name__ == "__main__":
    main()
