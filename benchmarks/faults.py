"""What becomes of a run in which something fails: `python -m benchmarks.faults FILE`.

Each line of the table is a whole command on this processor, in a workspace and a cache of its own, with one fault: a
disk that is full from some write on, a cache that may not be written to or is damaged, a database that is damaged or
locked, a clock that runs backwards or jumps, compilers, benchmarks and devices that misbehave, a limit on memory.
It must end in rows of failures or in one line that says what to do; then, without the fault, the same command goes on
with --resume to a verdict. No finished row may be missing or doubled, and nothing may be left behind.

faults.c makes system calls fail; it is compiled by `cc`. FILE (.jsonl) gets a line a fault; what is in it is not run
again. Limits by cgroup need root.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from autotuner.iree.tools import Tools
from benchmarks.machine import machine
from benchmarks.place import COMMANDS, Place, differences, ended

FINE = (0, 2, 3, 5, 6)
"""Exit codes of a run that a fault has met: 2 where its time ran out. 4 is for wrong results, 1 for a bug."""
GROUPS = Path("/sys/fs/cgroup/memory")
SHORTEST = ("--trials", "1", "--budget", "300s")
_DRAWN = re.compile(
    r"(?<=making-)[^/]+|(?<=^tmp/)[^/]+|(?<=[/.]tmp)\w+$|(?<=s[.])\w{8}$|(?<=autotune-)\w+|(?<=linked-)\w+"
    r"|(?<=device-)\w+|(?<=/v\d/)[0-9a-f]{2}$|\d[0-9a-f-]*"
)
"""The parts of names that are others in each run."""
_COMPILER = """#!/bin/sh
case "$*" in *--iree-opt-data-tiling*|*tuning-spec-path*) ;; *) exec '{real}' "$@" ;; esac
[ ! -s "$0.fault" ] || {{ echo >> "$0.struck"; . "$0.fault"; }}
'{real}' "$@" || exit $?
[ ! -e module.vmfb ] || sha256sum < module.vmfb >> "$0.candidates"
"""
_BENCHMARK = """#!/bin/sh
for word in "$@"; do case "$word" in
  --module=*) path=${{word#*=}} ;;
  --benchmark_repetitions=*) count=${{word#*=}} ;;
esac; done
ms=100 known="${{0%/*}}/iree-compile.candidates"
if [ -e "$known" ] && grep -q "$(sha256sum < "$path")" "$known"; then
  ms=50; [ ! -s "$0.fault" ] || . "$0.fault"
fi
printf '{{"benchmarks": ['
while [ "$count" -gt 0 ]; do
  printf '{{"run_type": "iteration", "real_time": %s, "time_unit": "ms"}}' "$ms"
  count=$((count - 1)); [ "$count" -eq 0 ] || printf ','
done
printf ']}}'
"""
"""Candidates take 50 ms, all others 100: a verdict takes no time. What fails stands in a file beside the program, so
that the programs are the same ones afterwards."""


@dataclass
class Outcome:
    """What a fault led to."""

    name: str
    exit_code: int = 0
    states: dict[str, int] = field(default_factory=dict)
    """Candidates by state, or class of failure."""
    struck: int = 0
    """How often something failed by the fault, where that is counted: calls of the system, and compiles."""
    said: str = ""
    """The error, where the command ended with one."""
    verdict: str = ""
    """Of the command, or of the one that went on."""
    resumed: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Fault:
    """Something that fails in a round."""

    environment: Mapping[str, str] = field(default_factory=dict)
    before: tuple[str, ...] = ()
    """Words before the command."""
    compile: str = ""
    """What the compiler does with a candidate first."""
    benchmark: str | None = None
    """What the benchmark does with a candidate first; None: the real one times it."""
    damage: Callable[[Place, random.Random], None] | None = None
    """What happens to the files of an earlier run."""
    during: Callable[[Place], AbstractContextManager[None]] = lambda _: nullcontext()
    """What goes on beside the command."""
    words: tuple[str, ...] = ()
    """Of the command, beside those of any."""
    ends: bool = False
    """The results cannot be read any more: there is nothing to go on with."""


def corrupt(place: Place, rng: random.Random) -> None:
    path = place.workspace / "results" / "autotune.db"
    data = bytearray(path.read_bytes())
    for start in range(4096, len(data), 4096):  # the first page says that it is a database of autotune
        for _ in range(200):
            data[min(len(data) - 1, start + rng.randrange(4096))] = rng.randrange(256)
    path.write_bytes(data)


def cut(place: Place, rng: random.Random) -> None:
    path = place.workspace / "results" / "autotune.db"
    os.truncate(path, rng.randrange(4096, path.stat().st_size))


def every_module(change: Callable[[bytearray, random.Random], bytearray]) -> Callable[[Place, random.Random], None]:
    def damage(place: Place, rng: random.Random) -> None:
        modules = [*(place.folder / "cache").rglob("module.vmfb")]
        assert modules
        for path in modules:
            path.write_bytes(change(bytearray(path.read_bytes()), rng))

    return damage


def flipped(data: bytearray, rng: random.Random) -> bytearray:
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


@contextmanager
def locked(place: Place, seconds: float) -> Iterator[None]:
    """Another program holds the database, as soon as it is there."""
    path, over = place.workspace / "results" / "autotune.db", threading.Event()

    def hold() -> None:
        while not over.is_set():
            with (
                suppress(sqlite3.Error),
                closing(sqlite3.connect(f"file:{path}?mode=rw", uri=True, isolation_level=None)) as database,
            ):
                if database.execute("SELECT count(*) FROM candidates").fetchone()[0]:
                    database.execute("BEGIN EXCLUSIVE")
                    over.wait(seconds)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def faults() -> dict[str, Fault]:
    mib = 1 << 20
    clock = {"FAULTS_BEGAN": str(int(time.monotonic()))}
    written = '\nwhile [ $# -gt 1 ]; do [ "$1" != -o ] || out=$2; shift; done\n'
    found = {
        "no file larger than 64 kB": Fault(before=("prlimit", "--fsize=65536")),
        "cache read-only": Fault({"FAULTS_READONLY": "cache"}),
        "cache read-only, all builds in it": Fault({"FAULTS_READONLY": "cache"}, damage=lambda *_: None),
        "every module in the cache cut off": Fault(
            damage=every_module(lambda data, rng: data[: rng.randrange(len(data))])
        ),
        "a bit of every module in the cache flipped": Fault(damage=every_module(flipped)),
        "database corrupt": Fault(damage=corrupt, ends=True),
        "database cut off": Fault(damage=cut, ends=True),
        "database locked for 5 s": Fault(during=lambda place: locked(place, 5)),
        "database locked for good": Fault(during=lambda place: locked(place, 600)),
        "clock runs backwards": Fault({"FAULTS_CLOCK": "back", **clock}),
        "clock jumps by a day": Fault({"FAULTS_CLOCK": "jump", **clock}),
        "compiler prints a gigabyte": Fault(compile="head -c 1000000000 /dev/zero", benchmark=""),
        "compiler prints a gigabyte of errors": Fault(compile="head -c 1000000000 /dev/zero >&2; exit 1", benchmark=""),
        "compiler forks and lingers": Fault(compile="setsid sleep 2400 &", benchmark=""),
        "compiler hangs and ignores SIGTERM": Fault(
            compile="trap '' TERM INT HUP; while :; do sleep 1; done", benchmark=""
        ),
        "compiler writes garbage, exit code 0": Fault(
            compile=f'{written}head -c 5000 /dev/urandom > "$out"; exit 0', benchmark=""
        ),
        "compiler writes nothing, exit code 0": Fault(compile="exit 0", benchmark=""),
        "benchmark never ends": Fault(benchmark="sleep 2400"),
        "benchmark prints NaN": Fault(benchmark="ms=NaN"),
        "benchmark prints -3": Fault(benchmark="ms=-3"),
        "benchmark prints 0": Fault(benchmark="ms=0"),
        "benchmark prints garbage": Fault(benchmark="head -c 5000 /dev/urandom; exit 0"),
        "device lost after two candidates": Fault(
            benchmark='[ "$(wc -l < "$known")" -le 2 ] || { echo "INTERNAL; device lost" >&2; exit 1; }'
        ),
    }
    found |= {
        f"{size} MiB of addresses": Fault(before=("prlimit", f"--as={size * mib}")) for size in (300, 800, 1600, 3200)
    }
    if os.access(GROUPS, os.W_OK):
        found |= {f"{size} MiB of memory (cgroup)": Fault(before=("group", str(size))) for size in (150, 250, 400)}
    return found


def full_disks(writes: Mapping[str, int]) -> dict[str, Fault]:
    """From the first and the last write to each kind of file on, and from all to the database: each page of its log is
    two, a head and its bytes. The log comes last and is shuffled: there are hundreds."""
    found = {}
    for file, count in sorted(writes.items(), key=lambda one: one[0].endswith("-wal")):
        step = 2 if file.endswith("-wal") else 1 if "/autotune.db" in file else max(1, count - 1)
        for n in sorted(range(1, count + 1, step), key=lambda n: random.Random(n).random()):
            fault = Fault({"FAULTS_FULL": str(n), "FAULTS_FILE": file}, benchmark="", words=SHORTEST)
            found[f"disk full from write {n} to {file} on"] = fault
    return found


class Bench:
    """Plays faults; everything random is drawn from the seed."""

    def __init__(self, seed: int, library: Path) -> None:
        self.seed, self.library = seed, library

    def play(self, name: str, fault: Fault, folder: Path) -> Outcome:
        found, rng = Outcome(name), random.Random(f"{self.seed}/{name}")
        with ExitStack() as stack:
            place = Place(folder, f"fault-{self.seed}-{name}")
            words = (*COMMANDS["gemm"], *fault.words, *self._tools(place, fault))
            if fault.damage is not None:
                found.exit_code = ended(place.start(words, folder / "earlier.json"))
                fault.damage(place, rng)
            place.more = self._environment(place, fault)
            place.before = self._group(stack, fault.before)
            with fault.during(place):
                found.exit_code = ended(place.start(words, folder / "first.json"))
            found.struck = self._struck(place)
            place.more, place.before = {}, ()
            self._judge(found, folder / "first")
            runs, before = place.rows()
            newest = runs[-1].id if runs else ""
            mine = [row for row in before.values() if row.run == newest]
            found.states = dict(Counter(row.failure or row.state for row in mine))
            misbehaves = fault.benchmark and (found.exit_code or any(row.failure for row in mine))
            short = "FAULTS_FULL" in fault.environment  # no two runs write equally often
            if (fault.environment or fault.compile or fault.benchmark) and not (found.struck or misbehaves or short):
                found.wrong.append("the fault never struck")
            whole, text = (Fault() if fault.benchmark is None else Fault(benchmark="")), ""
            words = (*COMMANDS["gemm"], *fault.words, *self._tools(place, whole))
            while found.exit_code not in (0, 6) and not fault.ends and found.resumed < 3 and not text:
                found.resumed += 1
                again = folder / f"again{found.resumed}.json"
                if ended(place.start(words, again)) in (0, 6):
                    text = again.read_text()
            text = text or (folder / "first.json").read_text()
            found.verdict = json.loads(text).get("verdict") or "" if text.strip() else ""
            if fault.ends:
                read = place.start(("history",), folder / "history.json")
                if ended(read) != 5:
                    found.wrong.append(f"history: exit code {read.returncode}")
            else:
                found.wrong += [] if found.verdict else [f"no verdict after {found.resumed} resumes"]
                own = differences(runs, before, *place.rows())
                found.wrong += [why for why in own if "another run" not in why or fault.damage is None]
            found.wrong += place.left()
        return found

    def writes(self, folder: Path) -> Mapping[str, int]:
        """How often a run that nothing disturbs writes to its disk, by the pattern of a file's name."""
        place, log = Place(folder, f"writes-{self.seed}"), folder / "log"
        log.touch()
        place.more = self._environment(place, Fault({"FAULTS_FULL": str(1 << 40), "FAULTS_LOG": str(log)}))
        words = (*COMMANDS["gemm"], *SHORTEST, *self._tools(place, Fault(benchmark="")))
        if ended(place.start(words, folder / "first.json")):
            sys.exit((folder / "first.err").read_text())
        return Counter(_DRAWN.sub("*", line) for line in log.read_text().splitlines())

    def _struck(self, place: Place) -> int:
        lines = sum(path.read_text().count("\n") for path in (place.folder / "tools").glob("*.struck"))
        if place.more:
            lines += struct.unpack("2q", (place.folder / "counter").read_bytes())[1]
        return lines

    def _environment(self, place: Place, fault: Fault) -> dict[str, str]:
        if not fault.environment:
            return {}
        (place.folder / "counter").write_bytes(bytes(16))
        where = {"LD_PRELOAD": self.library, "FAULTS_ROOT": place.folder, "FAULTS_COUNTER": place.folder / "counter"}
        own = dict(fault.environment)
        if "FAULTS_READONLY" in own:
            own["FAULTS_READONLY"] = str(place.folder / own["FAULTS_READONLY"])
        return {**{key: str(value) for key, value in where.items()}, **own}

    def _tools(self, place: Place, fault: Fault) -> tuple[str, ...]:
        """The option that names programs which misbehave."""
        if fault.benchmark is None:
            return ()
        real, folder = Tools.find(), place.folder / "tools"
        folder.mkdir(exist_ok=True)
        for path, text, lines in (
            (real.iree_compile, _COMPILER, fault.compile),
            (real.iree_run_module, "#!/bin/sh\nexec '{real}' \"$@\"", ""),
            (real.iree_benchmark_module, _BENCHMARK, fault.benchmark),
        ):
            (program := folder / path.name).write_text(text.format(real=path))
            program.chmod(0o755)
            (folder / f"{path.name}.fault").write_text(lines)
        return ("--iree-tools", str(folder))

    def _group(self, stack: ExitStack, words: tuple[str, ...]) -> tuple[str, ...]:
        """A control group of the command's own, which ends with it."""
        if words[:1] != ("group",):
            return words
        group = GROUPS / f"autotune-faults-{os.getpid()}"
        group.mkdir()
        stack.callback(group.rmdir)
        (group / "memory.limit_in_bytes").write_text(str(int(words[1]) << 20))
        return "sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh"

    def _judge(self, found: Outcome, path: Path) -> None:
        """An error is one line with a remedy; a bug is neither."""
        text = path.with_suffix(".err").read_text(errors="replace")
        killed = "cgroup" in found.name and found.exit_code == -9  # by the system
        if "Traceback" in text or "this is a bug" in text or not (killed or found.exit_code in FINE):
            found.wrong.append(f"exit code {found.exit_code}: {text[-600:]}")
        lines = [line for line in text.splitlines() if line.startswith("autotune: ")]
        if found.exit_code not in (0, 6):
            found.said = lines[-1].replace(f"{path.parent}/", "") if lines else "killed by the system" if killed else ""
            if not found.said:
                found.wrong.append(f"exit code {found.exit_code} without a word")


def table(outcomes: list[Outcome]) -> str:
    """Faults in the order in which they were tried, full disks in one line."""
    lines = [
        "| fault | struck | exit code | candidates | said | went on to | wrong |",
        "|---|---:|---:|---|---|---|---|",
    ]
    disks = [one for one in outcomes if one.name.startswith("disk full")]
    for one in (one for one in outcomes if one not in disks):
        states = ", ".join(f"{count} {state}" for state, count in sorted(one.states.items()))
        said = one.said.removeprefix("autotune: ").replace("|", "/")[:160]
        struck = one.struck or ""
        cells = (one.name, struck, one.exit_code, states or "none", said, one.verdict, len(one.wrong) or "none")
        lines.append(f"| {' | '.join(map(str, cells))} |")
    whole = sum(not one.struck for one in disks)
    if disks := [one for one in disks if one.struck]:
        codes = Counter(one.exit_code for one in disks)
        verdicts = Counter(one.verdict for one in disks)
        lines.append(
            f"\nDisk full from one of all writes on: {len(disks)} times; {whole} more runs wrote less often there. "
            f"Exit codes: {', '.join(f'{count} times {code}' for code, count in codes.items())}. "
            f"With room again and --resume: {', '.join(f'{count} {verdict}' for verdict, count in verdicts.items())}. "
            f"Something wrong: {sum(bool(one.wrong) for one in disks) or 'never'}."
        )
    lines += ["", *(f"- {one.name}: {why[:300]}" for one in outcomes for why in one.wrong)]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="faults with this text in their name")
    parser.add_argument("--minutes", type=float, default=1e9, help="none begins later")
    asked = parser.parse_args()
    ends = time.monotonic() + 60 * asked.minutes
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        library, source = Path(name) / "faults.so", Path(__file__).with_suffix(".c")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        bench = Bench(asked.seed, library)
        lines = asked.file.read_text().splitlines() if asked.file.exists() else []
        if not lines:
            (Path(name) / "writes").mkdir()
            lines.append(json.dumps({"machine": machine(), "writes": bench.writes(Path(name) / "writes")}))
            asked.file.write_text(f"{lines[0]}\n")
        head, outcomes = json.loads(lines[0]), [Outcome(**json.loads(line)) for line in lines[1:]]
        todo = faults() | full_disks(head["writes"])
        known = {one.name for one in outcomes}
        for number, (fault_name, fault) in enumerate(todo.items()):
            if fault_name in known or (asked.only or "") not in fault_name or time.monotonic() > ends:
                continue
            (folder := Path(name) / str(number)).mkdir()
            outcomes.append(bench.play(fault_name, fault, folder))
            with asked.file.open("a") as file:
                file.write(json.dumps(asdict(outcomes[-1])) + "\n")
            print(outcomes[-1], file=sys.stderr, flush=True)
    print(f"`python -m benchmarks.faults`, seed {asked.seed}. Machine: {head['machine']}.")
    writes = head["writes"].values()
    print(f"A short run that nothing disturbs writes {sum(writes)} times to {len(writes)} kinds of files.\n")
    print(table(outcomes))


if __name__ == "__main__":
    main()
