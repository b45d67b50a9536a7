"""Whole runs without timing anything: the compiler and the check are real, the benchmark reports chosen times.

The programs that a run calls are wrapped in small shell scripts. A module's label (its compile flags and its spec)
is written down when it is built, so that the benchmark can look up what it is timing.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pytest

from autotuner import Gemm, Options, Problem, Result, Target, tune
from autotuner.iree.tools import Tools
from autotuner.store.rows import CandidateRow
from autotuner.store.store import Store
from autotuner.system.progress import Silent, Stop
from autotuner.tuning.options import Effort
from tests.support import wrapped as wrapped
from tests.support.command_line import in_this_process
from tests.support.patience import ENOUGH

CompileRole = Literal["compiler-crashes", "compiler-hangs", "wrong-module"]
BenchRole = Literal["benchmark-dies", "benchmark-hangs"]
HANGING = 2400
"""Seconds that a program takes which hangs: longer than any test waits for it."""
SPEC = "*tuning-spec-path*"
"""Any module that was built with a spec."""
DATA_TILING = "*data-tiling*"
BASE_MS = 100.0
"""The time of everything that no rule names; so long that dispatches need not be repeated."""
_COMPILE = """#!/bin/sh
spec=; quick=; linked=
for word in "$@"; do
  case "$word" in
    --iree-codegen-tuning-spec-path=*) spec=${word#*=} ;;
    --compile-to=hal) ;;
    @*|--compile-to=*|--version) quick=yes ;;
    --compile-from=hal|--compile-from=vm) linked=yes ;;
  esac
done
[ -z "$quick" ] || exec REAL "$@"
role=; label="$*"
if [ -n "$spec" ]; then
  name=$(sha256sum < "$spec"); name=${name%% *}
  label="$label $(tr '\\n' ' ' < "$spec")"
fi
if [ -n "$spec" ] && [ -z "$linked" ]; then
  [ -e "HERE/roles/$name" ] || for wanted in ROLES; do
    if mkdir "HERE/claims/$wanted" 2>/dev/null; then echo "$wanted" > "HERE/roles/$name"; break; fi
  done
  [ ! -e "HERE/roles/$name" ] || read -r role < "HERE/roles/$name"
  [ ! -e HERE/compile-slowly ] || sleep HANGING
fi
case "$role" in
  compiler-crashes) echo "Stack dump: this spec kills the compiler" >&2; kill -SEGV $$ ;;
  compiler-hangs) echo "thinking" >&2; sleep HANGING ;;
  wrong-module)
    sed -i 's/arith.constant 0.0/arith.constant 1.0/' problem.mlir
    [ "$1" != begun.mlirbc ] || { shift 2; set -- problem.mlir "$@"; } ;;
esac
[ -n "$linked" ] || echo "$label" >> HERE/compiled.log
REAL "$@" || exit $?
module=$(sha256sum < module.vmfb); module=${module%% *}
echo "$label" > "KNOWN/.$$"
ln "KNOWN/.$$" "KNOWN/$module" 2>/dev/null
rm "KNOWN/.$$"
"""
_BENCHMARK = """#!/bin/sh
for word in "$@"; do
  case "$word" in
    --module=*) path=${word#*=} ;;
    --benchmark_repetitions=*) count=${word#*=} ;;
  esac
done
module=$(sha256sum < "$path"); module=${module%% *}
read -r label < "KNOWN/$module"
role=
case "$label" in *tuning-spec-path*)
  [ -e "HERE/roles/$module" ] || for wanted in ROLES; do
    if mkdir "HERE/claims/$wanted" 2>/dev/null; then echo "$wanted" > "HERE/roles/$module"; break; fi
  done
  [ ! -e "HERE/roles/$module" ] || read -r role < "HERE/roles/$module"
esac
case "$role" in
  benchmark-dies) echo "INTERNAL; the device is lost" >&2; exit 1 ;;
  benchmark-hangs) echo "waiting for a fence" >&2; sleep HANGING ;;
esac
[ ! -e HERE/time-slowly ] || sleep 0.15
echo "$module" >> HERE/timed.log
ms=BASE
case "$label" in
CASES
esac
printf '{"benchmarks": ['
while [ "$count" -gt 0 ]; do
  printf '{"run_type": "iteration", "real_time": %s, "time_unit": "ms"}' "$ms"
  count=$((count - 1))
  [ "$count" -eq 0 ] || printf ','
done
printf ']}'
"""
_RUN = """#!/bin/sh
exec REAL "$@"
"""
HERE = str(Path(__file__).parents[2])
DRIVER = """
import signal, sys
from pathlib import Path
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever starts the tests may ignore them
signal.signal(signal.SIGHUP, signal.SIG_DFL)
from autotuner.cli.app import main
from autotuner.problems import Gemm
from autotuner.iree.tools import Tools
folder = Path(sys.argv.pop(1))
sys.path.append(sys.argv.pop(1))
import tests.support.wrapped
Gemm.routes = Gemm.routes[:int(sys.argv.pop(1)) - 1]
tools = Tools(*(folder / name for name in ("iree-compile", "iree-run-module", "iree-benchmark-module")))
Tools.find = lambda folder=None: tools
main()
"""
"""The `autotune` command, with the wrapped programs of a folder and the first few stock routes."""


@dataclass
class FakeTools:
    """IREE's programs, wrapped: `rules` say what the benchmark reports, `roles` which candidates go wrong.

    A rule is a shell pattern over a module's label and its time in ms; the first that fits counts. Each role is
    played by one candidate, the first distinct spec that comes along.
    """

    folder: Path
    known: Path
    """Where labels are: it lives as long as the build cache."""
    rules: Sequence[tuple[str, float]] = ()
    compile_roles: Sequence[CompileRole] = ()
    bench_roles: Sequence[BenchRole] = ()
    tools: Tools = field(init=False)

    def __post_init__(self) -> None:
        real = Tools.find()
        for folder in (self.known, self.folder / "roles", self.folder / "claims"):
            folder.mkdir(parents=True, exist_ok=True)
        cases = "\n".join(f"{pattern}) ms={ms} ;;" for pattern, ms in self.rules) or "'') ;;"
        self.tools = Tools(
            self._script("iree-compile", _COMPILE, real.iree_compile, ROLES=" ".join(self.compile_roles) or "''"),
            self._script("iree-run-module", _RUN, real.iree_run_module),
            self._script(
                "iree-benchmark-module",
                _BENCHMARK,
                real.iree_benchmark_module,
                ROLES=" ".join(self.bench_roles) or "''",
                CASES=cases,
                BASE=str(BASE_MS),
            ),
        )

    def _script(self, name: str, text: str, real: Path, **words: str) -> Path:
        for word, value in {
            **words,
            "REAL": f"'{real}'",
            "HERE": "${0%/*}",
            "KNOWN": str(self.known.resolve()),  # the same for all who share it
            "HANGING": str(HANGING),
        }.items():
            text = text.replace(word, value)
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def slow_down(self, what: Literal["compile", "time"], slow: bool = True) -> None:
        file = self.folder / f"{what}-slowly"
        file.touch() if slow else file.unlink(missing_ok=True)

    def was_built_with_a_spec(self, module: str) -> bool:
        known = self.known / hashlib.sha256(Path(module).read_bytes()).hexdigest()
        return known.exists() and "tuning-spec-path" in known.read_text()

    def timed(self) -> int:
        """How often the benchmark was called."""
        log = self.folder / "timed.log"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def compiled(self) -> int:
        """How often the compiler was called to build a candidate."""
        log = self.folder / "compiled.log"
        return len(log.read_text().splitlines()) if log.exists() else 0

    def running(self) -> list[str]:
        """Command lines of wrapped programs, and of what they started, that are still in the process table."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    words = (entry / "cmdline").read_bytes().split(b"\0")
                    where = os.readlink(entry / "cwd")
                    text = b" ".join(words).decode(errors="replace")
                    mine = str(self.folder) in text or where.startswith(str(self.folder.parent))
                    if mine and int(entry.name) != os.getpid() and "autotuner.cli" not in text:
                        found.append(text)
        return found


EFFORT = Effort(trials=4, budget=1200.0, compile_only_trials=4, race_entrants=4)
"""The trials end it: the time is far more than it needs on any machine."""
PROBLEM = Gemm.parse(shape="96x64x128", dtype="f32")
CPU = Target.parse("cpu")
ONE_ROUTE = replace(CPU, knobs=())
"""The processor without stock routes: fewer compiles where they do not matter."""
TWO_ROUTES = replace(
    CPU,
    knobs=tuple(
        replace(knob, settings=(setting,))
        for knob in CPU.knobs
        for setting in knob.settings
        if setting.name == "data-tiling"
    ),
)


def run(
    fake: FakeTools | None,
    workspace: Path,
    *,
    target: Target = ONE_ROUTE,
    problem: Problem = PROBLEM,
    effort: Effort = EFFORT,
    stop: Stop | None = None,
    **options: Any,
) -> Result:
    """One run by the API of the compiler's own code, few trials unless told otherwise."""
    usual: dict[str, Any] = {"command": ("autotune", "test"), "microkernels": ()}
    chosen = Options(effort=effort, workspace=workspace, **{**usual, **options})
    return tune(problem, target, options=chosen, stop=stop, tools=fake.tools if fake else None)


def candidates(workspace: Path, run: str) -> list[CandidateRow]:
    with Store.open(None, workspace=workspace, create=False) as store:
        return store.candidates(run)


def codegen(workspace: Path, run: str) -> list[CandidateRow]:
    return [row for row in candidates(workspace, run) if row.kind == "codegen"]


def failures(workspace: Path, run: str) -> dict[str, list[CandidateRow]]:
    found: dict[str, list[CandidateRow]] = {}
    for row in candidates(workspace, run):
        if row.state == "failed":
            found.setdefault(row.failure, []).append(row)
    return found


SHAPE = ("gemm", "--shape", "96x64x128", "--dtype", "f32", "--microkernels", "none", "--budget", "20m", "--json")


class Cli:
    """`autotune` as a process of its own, with the wrapped programs."""

    def __init__(self, fake: FakeTools, workspace: Path, routes: int) -> None:
        self.fake, self.workspace, self.routes = fake, workspace, routes
        workspace.mkdir(exist_ok=True)
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", DRIVER, str(self.fake.folder), HERE, str(self.routes), *arguments]
        process = subprocess.Popen(
            command,
            cwd=self.workspace,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        self.processes.append(process)
        return process

    def finish(self, *arguments: str) -> tuple[int, dict[str, Any], str]:
        """(exit code, JSON document, stderr) of a command that is left to its end."""
        process = self.start(*arguments)
        out, err = process.communicate(timeout=ENOUGH)
        assert "Traceback" not in err, err
        return process.returncode, json.loads(out) if out else {}, err

    def text(self, *arguments: str) -> str:
        """What a command that needs no programs prints for people."""
        done = in_this_process(*arguments, cwd=self.workspace)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    def wait_for(self, process: subprocess.Popen[str], query: str, at_least: int) -> None:
        """Polls the results database until a count is reached."""
        database = self.workspace / "results" / "autotune.db"
        ends = time.monotonic() + ENOUGH
        while time.monotonic() < ends:
            if process.poll() is not None:
                _, err = process.communicate()
                pytest.fail(f"the run ended too early ({process.returncode}): {err[-2000:]}")
            with suppress(sqlite3.Error), closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
                if connection.execute(query).fetchone()[0] >= at_least:
                    return
            time.sleep(0.05)
        pytest.fail(f"{query} did not reach {at_least}")

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.communicate()


@dataclass
class StopAt(Silent):
    """Asks for the end when a stage with these words begins."""

    words: str
    stop: Stop = field(default_factory=Stop)

    def stage(self, text: str) -> None:
        if self.words in text:
            self.stop.request()


def end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it printed. Who would wait for what hangs would not end before it is killed here."""
    out, err = process.communicate(timeout=HANGING / 2)
    assert "Traceback" not in err, err
    return out, err


TIMED = "SELECT count(*) FROM candidates WHERE kind = 'codegen' AND state = 'timed'"
