"""What a killed part of a running command loses or leaves behind: `python -m benchmarks.chaos --rounds 200 FILE`.

Each round runs a command on this processor in a workspace and a cache of its own, and kills one part of it (SIGKILL)
at random moments: the command itself, a compile, the device's process, a worker or the scheduler of its cluster, the
database server. What ends by that goes on with --resume, and is killed again, until it ends or was killed six times. A
moment is drawn by the clock, or comes once the results have so many records more: rows that ended, and timings. With
--late it is the command itself, in the race of the finalists, or from its first file in specs/ to its report. No
finished row may ever be missing or doubled, the verdict must be there, and no process, held lock, temporary folder or
shared memory may be left.

FILE (.jsonl) gets a line a round; rounds that are in it are not run again. What they came to is printed.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

from autotuner.store.rows import CandidateRow, RunRow
from autotuner.system.settings import cache_dir
from benchmarks.machine import machine
from benchmarks.place import COMMANDS, LATE, PROGRAMS, RACE, SOON, Place, differences, ended
from tests.store.postgresql import Server, own_server
from tests.support.clusters import LocalCluster, local_cluster
from tests.support.patience import wait_until

PARTS = ("coordinator", "compile", "device", "worker", "scheduler", "postgresql")
"""What is killed. A cluster builds and times for gemm alone, which is enough to lose its parts."""
KILLS = 6
"""At most so often a command is killed before it may come to its end."""
BY_THE_CLOCK = 0.25
"""The share of moments that are drawn by the clock: of a start that lasts, most of them strike before it times."""
IN_THE_RACE = 0.4
"""The share of late moments that are in a race."""
MOST_RECORDS = 20
"""The largest number of records after which something is killed: a search of these commands has some ten."""
MOMENTS = ("before a row had ended", "among candidates", "after a race began", "among files", "after the verdict")


@dataclass
class Round:
    """What was killed when, and what came of it."""

    number: int
    command: str
    part: str
    killed_after: list[float] = field(default_factory=list)
    """Seconds from the command's start, or the kill before, to each kill."""
    moments: list[str] = field(default_factory=list)
    """What the results held at each kill; not of rounds that an earlier form of this benchmark has played."""
    started: int = 0
    """How often the command was started."""
    rows: int = 0
    """Finished rows at the last kill."""
    verdict: str = ""
    wrong: list[str] = field(default_factory=list)
    """What must not be."""


def play(number: int, seed: int, usual: Mapping[str, float], folder: Path, *, late: bool) -> Round:
    """One round. `usual` are the seconds of each command that nobody disturbs."""
    rng = random.Random(f"{seed}/{number}")
    part = "coordinator" if late else PARTS[number % len(PARTS)]
    command = "gemm" if part in ("worker", "scheduler") else rng.choice(list(COMMANDS))
    words = COMMANDS[command]
    if late:
        command, words = list(LATE.items())[number % len(LATE)]
    found = Round(number, command, part)
    shared = set(os.listdir("/dev/shm"))
    with ExitStack() as stack:
        place = Place(folder, f"{seed}-{number}")
        servers = Servers(stack, place, part)
        runs, before, done = list[RunRow](), dict[int, CandidateRow](), False
        while not done and found.started < len(found.killed_after) + 4:
            document = folder / f"{found.started}.json"
            running, found.started = place.start((*words, *servers.words), document), found.started + 1
            known = len(found.killed_after)
            strike = partial(kill_late, place) if late else partial(kill, servers, usual=usual.get(command, 0.0))
            while len(found.killed_after) < KILLS and (killed := strike(running=running, rng=rng)):
                found.killed_after.append(killed[0])
                found.moments.append(killed[1])
                if part not in PROGRAMS:  # the command does not go on without it
                    break
            code, any_killed = ended(running), len(found.killed_after) > known
            if any_killed:
                servers.start_again()
            if code == 2:
                words = longer(words)
            said = document.with_suffix(".err").read_text()
            complain(found, said, code, own=any_killed and part == "coordinator")
            runs_before, rows_before = runs, before
            runs, before = place.rows()
            found.wrong += differences(runs_before, rows_before, runs, before)
            found.rows = len(before) if any_killed else found.rows
            done = code in (0, 6) or any(run.parent is None and run.status == "finished" for run in runs)
        if done and not document.read_text().strip():  # it was killed after its verdict: --resume shows it
            document = folder / "shown.json"
            ended(place.start((*words, *servers.words), document))
        text = document.read_text()
        found.verdict = json.loads(text).get("verdict") or "" if text.strip() else ""
        if not found.verdict:
            found.wrong.append(f"no verdict after {found.started} starts: {said[-300:]}")
        found.wrong += place.left()
    found.wrong += [f"shared memory: {name}" for name in set(os.listdir("/dev/shm")) - shared if "autotune" in name]
    return found


def kill(
    servers: Servers, *, running: subprocess.Popen[bytes], usual: float, rng: random.Random
) -> tuple[float, str] | None:
    """Kills a part of the command at a random moment, or as soon as there is one; after how many seconds, and when."""
    began, (rows, phases) = time.monotonic(), servers.place.seen()
    seconds, records = 0.0, len(phases) + rows
    if rng.random() < BY_THE_CLOCK:
        seconds = rng.uniform(0.05, 1.0) * usual
    else:
        records += round(MOST_RECORDS ** rng.random())
    while running.poll() is None:
        due = time.monotonic() - began > seconds and len(phases) + rows >= records
        if due and (victims := servers.victims(running)):
            with suppress(ProcessLookupError):
                os.kill(victims[0], signal.SIGKILL)
                when = 0 if not rows else 2 if RACE & {*phases} else 1
                return round(time.monotonic() - began, 2), MOMENTS[when]
        time.sleep(0.01 if due else 0.1)
        rows, phases = servers.place.seen()
    return None


def kill_late(place: Place, *, running: subprocess.Popen[bytes], rng: random.Random) -> tuple[float, str] | None:
    """Kills the command in its race, or soon after its first file in specs/; after how many seconds, and when."""
    began, before, race = time.monotonic(), place.files(), rng.random() < IN_THE_RACE
    seconds, due = rng.uniform(0.0, 5.0) if race else 10 ** rng.uniform(-3.0, 0.7), math.inf
    known = Counter(place.seen()[1])
    while running.poll() is None:
        if due == math.inf and (racing(place, known) if race else place.files() != before):
            due = time.monotonic() + seconds
        if time.monotonic() > due:
            running.kill()
            running.wait()
            ended = any(run.parent is None and run.status == "finished" for run in place.rows()[0])
            when = 4 if ended else 3 if place.files() != before else 2
            return round(time.monotonic() - began, 2), MOMENTS[when]
        time.sleep(0.1 if race and due == math.inf else 0.001)
    return None


def racing(place: Place, known: Counter[str]) -> bool:
    """Finalists are timed that were not."""
    return any(count > known[phase] for phase, count in Counter(place.seen()[1]).items() if phase in RACE)


def longer(words: tuple[str, ...]) -> tuple[str, ...]:
    """With twice the budget, which was too short on a busy machine."""
    at = words.index("--budget") + 1
    return (*words[:at], f"{2 * int(words[at][:-1])}s", *words[at + 1 :])


def complain(found: Round, said: str, code: int, *, own: bool) -> None:
    """An error is one line with a remedy; a bug is neither. `own`: the command itself was killed."""
    if "Traceback" in said or "this is a bug" in said:
        found.wrong.append(f"a bug: {said[-600:]}")
    elif code < 0 and not own:
        found.wrong.append(f"exit code {code}: {said[-300:]}")


class Servers:
    """What a round needs beside the command: a cluster, a database server; and whom it may kill."""

    def __init__(self, stack: ExitStack, place: Place, part: str) -> None:
        self.part, self.words, self.place = part, tuple[str, ...](), place
        self.server: Server | None = None
        self.cluster_stack = stack.enter_context(ExitStack())
        if part == "postgresql":
            self.server = stack.enter_context(own_server())
            place.storage = ("--storage", self.server.url)
        if part in ("worker", "scheduler"):
            self._cluster()

    def _cluster(self) -> None:
        folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=self.place.folder))

        def share(cache: Path) -> None:
            cache.mkdir()
            (cache / "digests").symlink_to(cache_dir() / "digests")

        self.cluster: LocalCluster = self.cluster_stack.enter_context(local_cluster(folder, share))
        self.cluster.start("cpu", device=True)
        self.cluster.join("cpu")
        self.words = ("--cluster", self.cluster.address, "--device", "cpu")
        self.place.more = {"DASK_CONFIG": str(self.cluster.dask_config)}

    def victims(self, running: subprocess.Popen[bytes]) -> list[int]:
        if self.part == "coordinator":
            return [running.pid]
        if self.part == "postgresql":
            assert self.server is not None
            return [int((self.server.folder / "db" / "postmaster.pid").read_text().split()[0])]
        if self.part == "worker":
            return [self.cluster.workers["cpu"].process.pid]
        if self.part == "scheduler":
            return [self.cluster.scheduler.process.pid]
        return self.place.programs(PROGRAMS[self.part])

    def start_again(self) -> None:
        """What was killed is there again, as a service that is always restarted."""
        if self.server is not None:
            # What the killed one has left goes a moment later.
            assert wait_until(self._started, seconds=SOON)
        if self.part in ("worker", "scheduler"):
            self.cluster_stack.close()
            self._cluster()

    def _started(self) -> bool:
        assert self.server is not None
        with suppress(AssertionError):
            self.server.start()
            return True
        return False


def table(rounds: list[Round]) -> str:
    """What the rounds came to, by what was killed; kills by moment and by command."""
    lines = [
        "| killed | rounds | kills | starts | finished rows at the last kill | verdicts | wrong |",
        "|---|---:|---:|---:|---:|---|---|",
    ]
    for part in PARTS:
        mine = [one for one in rounds if one.part == part]
        verdicts = ", ".join(f"{count} {name}" for name, count in Counter(one.verdict for one in mine).most_common())
        kills, starts = sum(len(one.killed_after) for one in mine), sum(one.started for one in mine)
        wrong = sum(bool(one.wrong) for one in mine)
        rows = sum(one.rows for one in mine)
        lines.append(f"| {part} | {len(mine)} | {kills} | {starts} | {rows} | {verdicts} | {wrong or 'none'} |")
    counts: tuple[tuple[str, Iterable[str], Callable[[Round, str], int]], ...] = (
        ("at", MOMENTS, lambda one, key: one.moments.count(key)),
        ("of", COMMANDS, lambda one, key: len(one.killed_after) if one.command == key else 0),
    )
    for title, keys, count in counts:
        lines += ["", f"| kills {title} | {' | '.join(keys)} |", f"|---|{'---:|' * len([*keys])}"]
        for part in (*PARTS, "all"):
            mine = [one for one in rounds if part in (one.part, "all")]
            lines.append(f"| {part} | {' | '.join(str(sum(count(one, key) for one in mine)) for key in keys)} |")
    lines.append("")
    lines += [f"- round {one.number} ({one.command}, {one.part}): {why[:200]}" for one in rounds for why in one.wrong]
    return "\n".join(lines) + "\n"


def usual_seconds(folder: Path) -> dict[str, float]:
    """What each command takes that nobody disturbs."""
    found = {}
    for name, words in COMMANDS.items():
        (folder / name).mkdir()
        place, began = Place(folder / name, f"usual-{name}"), time.monotonic()
        if ended(place.start(words, folder / f"{name}.json")):
            sys.exit((folder / f"{name}.err").read_text())
        found[name] = time.monotonic() - began
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="no round begins later")
    parser.add_argument("--part", default="0/1", help="I/N: of each N rounds the one with this number")
    parser.add_argument("--late", action="store_true", help="kill the command alone, at the end of its work")
    parser.add_argument("--table", action="store_true", help="run nothing more")
    asked = parser.parse_args()
    lines = asked.file.read_text().splitlines() if asked.file.exists() else []
    if not lines:
        with tempfile.TemporaryDirectory(prefix="chaos-") as name:
            usual = {} if asked.late else usual_seconds(Path(name))
            lines.append(json.dumps({"machine": machine(), "usual": usual}))
        asked.file.write_text(f"{lines[0]}\n")
    head, rounds = json.loads(lines[0]), [Round(**json.loads(line)) for line in lines[1:]]
    mine, of = map(int, asked.part.split("/"))
    ends = time.monotonic() + 60 * asked.minutes
    for number in () if asked.table else sorted({*range(mine, asked.rounds, of)} - {one.number for one in rounds}):
        if time.monotonic() > ends:
            break
        with tempfile.TemporaryDirectory(prefix="chaos-") as name:
            rounds.append(play(number, asked.seed, head["usual"], Path(name), late=asked.late))
        with asked.file.open("a") as file:
            file.write(json.dumps(asdict(rounds[-1])) + "\n")
        print(rounds[-1], file=sys.stderr, flush=True)
    print(f"{len(rounds)} rounds of `python -m benchmarks.chaos`, seed {asked.seed}. Machine: {head['machine']}.\n")
    print(table(rounds))


if __name__ == "__main__":
    main()
