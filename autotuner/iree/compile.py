"""iree-compile: the one place that composes its command line, runs it and says how it ended."""

from __future__ import annotations

import errno
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from autotuner.errors import EnvironmentFailure, StorageError
from autotuner.iree.figures import NO_FIGURES, Figures, Isa
from autotuner.iree.folder import (
    BEGUN,
    MODEL,
    MODULE,
    PROBLEM,
    ROOM,
    SPEC,
    hash_binaries,
    read_dumps,
    remove_dumps,
    remove_outputs,
    write_inputs,
)
from autotuner.iree.isa import REMARKS, read_isa, split_remarks
from autotuner.iree.mlir import by_name
from autotuner.iree.program import ONE_THREAD, executables_command
from autotuner.iree.tools import Tools
from autotuner.system import process

Phase = Literal["preprocessing", "flow", "executable-sources", "executable-configurations", "executables", "hal"]
Dump = Literal["configurations", "benchmarks", "binaries", "phases"]
PREPROCESSED: Phase = "preprocessing"
FLOW: Phase = "flow"
_READ_PHASES = (PREPROCESSED, FLOW)
"""The phases whose dumps are read."""
REPEAT = "--iree-hal-benchmark-dispatch-repeat-count"
WITHOUT_WEIGHTS = ("--mlir-elide-elementsattrs-if-larger=1024", "--mlir-elide-resource-strings-if-larger=1024")
"""Elides large constants: with weights the text would be as large as the model."""
CONFIGURED: Phase = "executable-configurations"
DISPATCHES: Phase = "executable-sources"
"""The phase up to which all candidates of a problem are the same: the host program is done, dispatches are not
begun."""
TRANSLATED: Phase = "hal"
"""The phase in which executables are serialized: only the host program and its repeats are left."""
EXECUTABLES: Phase = "executables"
"""The executables without the host program, made by iree-opt from the dispatches."""
KEPT = (DISPATCHES, EXECUTABLES, TRANSLATED)
"""The file of an intermediate program, from which other compiles continue."""
ROOT_ATTRIBUTES = "--iree-codegen-add-tuner-attributes"
CONSTRAINTS = "--iree-codegen-emit-pipeline-constraints"
_LATE_FLAGS = (ROOT_ATTRIBUTES, CONSTRAINTS)
"""Flags that the compiler reads only after the dispatches are formed."""
_READ_LATER = (
    "--iree-codegen-tuning-spec-path",
    "--iree-codegen-transform-dialect-library",
    "--iree-hal-substitute-executable-configuration",
)
"""Spec flags that the compiler reads only after that phase."""
_BEGAN_AT = "--compile-from="
_UNKNOWN = ": Unknown command line argument"
_FULL = os.strerror(errno.ENOSPC)

FailureClass = Literal[
    "compile-error", "compile-timeout", "not-applied", "wrong-result", "run-error", "run-timeout", "wrong-time"
]
FAILURE_CLASSES: tuple[FailureClass, ...] = (
    "compile-error",
    "compile-timeout",
    "not-applied",
    "wrong-result",
    "run-error",
    "run-timeout",
    "wrong-time",
)
_MACHINE = (errno.ENOMEM, errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.EIO, errno.EINTR)
_NOT_THE_PROGRAM = (
    *(os.strerror(number).lower() for number in _MACHINE),
    *("bad_alloc", "out of memory", "killed", "signal"),
    # The linker is a program of its own: its end, too, may be the machine's doing.
    "returned exit code",
)
"""Words in an error that blame the machine."""


class CompilerRefusal(EnvironmentFailure):
    """iree-compile refuses the problem or the flags."""

    def __init__(self, stderr: str) -> None:
        self.stderr = stderr
        super().__init__(f"iree-compile refused: {first_error(stderr)}", remedy="Check --flag and --target.")


@dataclass(frozen=True)
class Compile:
    """One run of iree-compile. Its files have names without folders, so the folder does not matter."""

    program: str | Path
    """The text of a problem, or the file of a model."""
    flags: tuple[str, ...]
    timeout: float
    spec: str | None = None
    spec_flag: str = ""
    """The flag of the spec, up to its last `=`."""
    repeat: int = 1
    """The number of times that the module repeats its dispatches, for timing."""
    timed: bool = False
    """Modules with other repeats will follow: the executables are compiled once for all of them."""
    stop: Phase | None = None
    """The phase in which the compiler stops and prints the program; None: it makes a module."""
    dumps: tuple[Dump, ...] = ()
    """The dumps. Their paths become part of the binaries, so builds with other dumps differ."""
    figures: Figures = ""
    """How the figures of machine code are read; empty: not at all."""
    files: tuple[tuple[str, bytes], ...] = ()
    """Other files that the flags name, relative to the compile's folder."""

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """The flags that decide what the module computes and how."""
        spec = (f"{self.spec_flag}={SPEC}",) if self.spec is not None else ()
        repeat = (f"{REPEAT}={self.repeat}",) if self.repeat > 1 else ()
        return (*self.flags, *spec, *repeat)

    @property
    def makes_file(self) -> bool:
        """Whether the output is a file (a module or an intermediate program), not text."""
        return self.stop is None or self.stop in KEPT

    @property
    def has_start(self) -> bool:
        """Whether it shares its first phases with other configurations of the problem."""
        late = self.spec is None or self.spec_flag.split("=")[0] in _READ_LATER
        return late and self.stop in (None, CONFIGURED, EXECUTABLES, TRANSLATED) and not isinstance(self.program, Path)

    @property
    def shares_host(self) -> bool:
        """Whether it shares the host program with other configurations of the problem.

        A substitution is no pass of the executables, so those with one are not made without the host's program.
        """
        return self.spec is not None and self.spec_flag in _READ_LATER[:2] and self.stop == TRANSLATED

    @property
    def expects_siblings(self) -> bool:
        """Whether similar compiles will follow: other configurations, other repeats, or the module after a phase."""
        return self.spec is not None or self.timed or self.stop is not None

    @property
    def start_flags(self) -> tuple[str, ...]:
        """The flags that matter up to the shared phase."""
        return tuple(flag for flag in self.flags if flag not in _LATE_FLAGS)

    def rest(self, tools: Tools, phase: Phase) -> tuple[str, ...]:
        """The command that continues from a shared phase: the module is the same, byte by byte, for less time.

        The verifier, a sixth of what is left, stays: without it IREE makes modules of configurations that it refuses.
        """
        if self.stop == EXECUTABLES:
            return self.command(tools)
        left = replace(self, repeat=1, dumps=(), figures="") if phase == TRANSLATED else self
        compiler, _, *words = left.command(tools)
        # A dispatch of a model has a start of its own: where it began is behind it now.
        words = [word for word in words if not word.startswith(_BEGAN_AT)]
        return (compiler, BEGUN, f"{_BEGAN_AT}{phase}", *words)

    def command(self, tools: Tools) -> tuple[str, ...]:
        """The command line, run in the compile's folder."""
        return self._words(tools, MODEL if isinstance(self.program, Path) else PROBLEM, MODULE)

    def by_hand(self, tools: Tools, *, output: str = MODULE) -> tuple[str, ...]:
        """The command for users, in which a model has its own path."""
        return self._words(tools, str(self.program) if isinstance(self.program, Path) else PROBLEM, output)

    def _words(self, tools: Tools, program: str, output: str) -> tuple[str, ...]:
        if self.stop == EXECUTABLES:
            return self._passes(tools, output)
        whole = isinstance(self.program, Path)
        # Problems are compiled as many at a time as there are cores: threads of their own would only get in each
        # other's way. A whole model is compiled alone, for minutes: there threads help.
        threads = () if whole else (ONE_THREAD,)
        stop = (f"--compile-to={self.stop}",) if self.stop else ()
        # What is printed, also on the way to a module, has no weights.
        prints = self.stop is not None or "phases" in self.dumps
        kept = self.stop in KEPT
        return (
            str(tools.iree_compile),
            program,
            *self.compile_flags,
            *((REMARKS,) if self.figures == "remarks" else ()),
            *threads,
            *tools.printing,
            *map(_dump_flag, self.dumps),
            *stop,
            *(WITHOUT_WEIGHTS if whole and prints else ()),
            # Text has no locations, and these become part of a module.
            *(("--emit-mlir-bytecode",) if kept else ()),
            "-o",
            "-" if self.stop and not kept else output,
        )

    def _passes(self, tools: Tools, output: str) -> tuple[str, ...]:
        """The iree-opt command that makes the executables from a shared phase."""
        flags = [flag for flag in self.compile_flags if not flag.startswith((_BEGAN_AT, REPEAT))]
        flags += [REMARKS] if self.figures == "remarks" else []
        return executables_command(tools.iree_opt, BEGUN, flags, dumps=self.dumps, output=output)


@dataclass(frozen=True)
class PartialCompile:
    """A program compiled up to a phase, from where another compile continues."""

    phase: Phase
    program: bytes = field(repr=False)


@dataclass(frozen=True)
class Compiled:
    """The result of a compile."""

    failure: FailureClass | None
    stderr: str
    seconds: float
    command: tuple[str, ...]
    """The command that makes it by hand."""
    vmfb: Path
    repeat: int = 1
    binary: str = ""
    """Hash of the executables' bytes: two candidates of the same binary are the same candidate."""
    isa: Isa = NO_FIGURES
    text: str = field(default="", repr=False)
    """The text that a stopped compile printed."""
    dumped: Mapping[Dump | Phase, tuple[str, ...]] = field(default_factory=dict, repr=False)
    lasting: bool = True
    """The result is reproducible, so it may be cached."""
    key: str = ""
    """Its entry in the build cache; empty where it was not put there."""
    cached: bool = False
    took: float = 0.0
    """Seconds of the compile, also where the result is cached."""
    applied: int = 0
    """The number of operations, or dispatches of microkernels, that are proven to have what the spec gives them."""

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def texts(self) -> tuple[str, ...]:
        """The dumped executables. Configurations are dumped before an executable is substituted, benchmarks after."""
        return (*self.dumped.get("configurations", ()), *self.dumped.get("benchmarks", ()))

    @cached_property
    def executables(self) -> dict[str, str]:
        """The dumped executables by name, after substitution."""
        return by_name(self.texts)

    def checked(self) -> Compiled:
        """The result; raises with the compiler's own words where it failed."""
        if not self.ok:
            raise CompilerRefusal(self.stderr)
        return self

    def record(self) -> dict[str, Any]:
        """The build cache's record, beside the module."""
        kept = {name: getattr(self, name) for name in ("failure", "stderr", "binary", "applied")}
        # Of a whole model's compile its dispatches are read, whenever it is asked for.
        dumped = {what: self.dumped[what] for what in (*_READ_PHASES, "configurations") if FLOW in self.dumped}
        return {**kept, "seconds": self.took, "isa": self.isa.to_json(), "dumped": dumped}

    @classmethod
    def refused(cls, why: str) -> Compiled:
        """A failed result for a candidate that could not be made, without a compile."""
        return cls("compile-error", why, 0.0, (), Path())


def compile_program(job: Compile, tools: Tools, folder: Path, *, begun: PartialCompile | None = None) -> Compiled:
    """Compiles in `folder`, where the inputs and the module stay; what was dumped is read and removed.

    With `begun`, the result of shared phases, only the rest is compiled.
    """
    write_inputs(job, folder, begun=begun)
    remove_outputs(folder)  # an interrupted compile may have left some
    vmfb, binaries = folder / MODULE, folder / "binaries"
    words = job.command(tools) if begun is None else job.rest(tools, begun.phase)
    done = _run(job, words, folder)
    remarks, said = split_remarks(done.stderr) if job.figures == "remarks" else ("", done.stderr)
    done = replace(done, stderr=said)
    if _FULL in done.stderr:
        raise StorageError(f"{_FULL} while compiling in {folder}.", remedy=ROOM)
    failure = compile_failure(done)
    if failure is None and job.makes_file and not vmfb.is_file():
        failure = "compile-error"
    made = Compiled(
        failure,
        done.stderr if failure is None else done.why(),
        done.seconds,
        job.by_hand(tools),
        vmfb,
        job.repeat,
        lasting=lasting(done),
        took=done.seconds,
    )
    if failure is None:
        made = replace(
            made,
            text=done.stdout,
            dumped=read_dumps(job.dumps, folder, phases=_READ_PHASES),
            binary=hash_binaries(binaries) if "binaries" in job.dumps else "",
            isa=read_isa(binaries, vmfb, remarks=remarks) if job.figures else NO_FIGURES,
        )
    remove_dumps(folder)
    return made


def _run(job: Compile, words: Sequence[str], folder: Path) -> process.Finished:
    """Runs the command in its folder; messages on a model name its own path."""
    done = process.run(words, timeout=job.timeout, cwd=folder)
    if not isinstance(job.program, Path):
        return done
    (folder / MODEL).unlink(missing_ok=True)
    return replace(done, stderr=done.stderr.replace(f"{MODEL}:", f"{job.program}:"))


def inspect(job: Compile, tools: Tools) -> Compiled:
    """Compiles in a temporary folder for the printed text; raises with the compiler's own words."""
    with process.temporary("autotune-") as folder:
        return compile_program(job, tools, folder).checked()


def _dump_flag(what: Dump) -> str:
    name = "--dump-compilation" if what == "phases" else "--iree-hal-dump-executable"
    return f"{name}-{what}-to={what}"


# --- how it ended -----------------------------------------------------------------------------------------------------


def compile_failure(done: process.Finished) -> FailureClass | None:
    """The failure of a compile; None: it succeeded."""
    if done.timed_out:
        return "compile-timeout"
    # Some mistakes (a misspelt pass pipeline) print an error and still give a module and exit code 0.
    return "compile-error" if _says_error(done.stderr) or not done.ok else None


def lasting(done: process.Finished) -> bool:
    """Whether the compile would end the same way again; only then is a failure cached.

    That is so where the compiler ended by itself: without an error, or with one that it printed about the program. A
    time-out and a signal say as much about the machine as about the candidate (SIGKILL ends whoever is nearest when
    memory runs out; a crash may be for want of it too); a shell gives a signal as an exit code above 128. To compile
    once more what fails again costs a second; to take a machine's bad moment for an error costs the candidate for good.
    """
    by_itself = not done.timed_out and 0 <= done.code < 128
    about_the_program = done.ok or _says_error(done.stderr)
    words = done.stderr.lower()
    return by_itself and about_the_program and not any(reason in words for reason in _NOT_THE_PROGRAM)


def _says_error(stderr: str) -> bool:
    return any(line.startswith("error:") or ": error:" in line or _UNKNOWN in line for line in stderr.splitlines())


def first_error(stderr: str, *, most: int = 300) -> str:
    """The line that says what is wrong, for a message of one line."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    found = next((line for line in lines if "rror" in line or "nknown" in line), lines[0] if lines else "no message")
    return found if len(found) <= most else f"{found[: most - 1]}…"


def shell_line(command: Iterable[str]) -> str:
    return shlex.join(command)
