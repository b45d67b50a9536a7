"""iree-compile: the one place that composes its command line, runs it and says how it ended."""

from __future__ import annotations

import errno
import os
import shlex
import tempfile
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
"""Of the phases that a compile dumps, those that are read."""
REPEAT = "--iree-hal-benchmark-dispatch-repeat-count"
WITHOUT_WEIGHTS = ("--mlir-elide-elementsattrs-if-larger=1024", "--mlir-elide-resource-strings-if-larger=1024")
"""A model's weights would make the text as large as the model; what is inside a dispatch is always smaller."""
CONFIGURED: Phase = "executable-configurations"
DISPATCHES: Phase = "executable-sources"
"""Where the host's program is done and the dispatches are not begun: all candidates of a problem are the same there."""
TRANSLATED: Phase = "hal"
"""Where the executables are done, byte by byte: only the host's program is left, and how often it repeats them."""
EXECUTABLES: Phase = "executables"
"""The same executables without the host's program, which is not compiled: by iree-opt, from the dispatches on."""
KEPT = (DISPATCHES, EXECUTABLES, TRANSLATED)
"""Where a program is kept, for others to go on from."""
ROOT_ATTRIBUTES = "--iree-codegen-add-tuner-attributes"
CONSTRAINTS = "--iree-codegen-emit-pipeline-constraints"
_LATE_FLAGS = (ROOT_ATTRIBUTES, CONSTRAINTS)
"""What the compiler does not look at before it is at the dispatches."""
_READ_LATER = (
    "--iree-codegen-tuning-spec-path",
    "--iree-codegen-transform-dialect-library",
    "--iree-hal-substitute-executable-configuration",
)
"""What takes a spec that the compiler does not look at before that phase."""
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
"""Words of an error that is about the machine."""


class CompilerRefusal(EnvironmentFailure):
    """iree-compile would not take the problem or the flags at all."""

    def __init__(self, stderr: str) -> None:
        self.stderr = stderr
        super().__init__(f"iree-compile refused: {first_error(stderr)}", remedy="Check --flag and --target.")


@dataclass(frozen=True)
class Compile:
    """One run of iree-compile. Its files have names without folders, so it is the same compile in every folder."""

    program: str | Path
    """The text of a problem, or the file of a whole model."""
    flags: tuple[str, ...]
    timeout: float
    spec: str | None = None
    spec_flag: str = ""
    """What takes the spec, up to its last `=`."""
    repeat: int = 1
    """How often a module repeats its dispatches, to be timed."""
    timed: bool = False
    """Other numbers of repeats will be needed too: the executables are compiled once for all of them."""
    stop: Phase | None = None
    """Where the compiler stops and prints the program; None: it makes a module."""
    dumps: tuple[Dump, ...] = ()
    """What it dumps. The dump's path becomes part of the binaries, so builds with other dumps are other builds."""
    figures: Figures = ""
    """How registers, spills and the like are read; empty: they are not."""
    files: tuple[tuple[str, bytes], ...] = ()
    """Other files that the flags name, relative to the compile's folder."""

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """All that decides what the module computes and how."""
        spec = (f"{self.spec_flag}={SPEC}",) if self.spec is not None else ()
        repeat = (f"{REPEAT}={self.repeat}",) if self.repeat > 1 else ()
        return (*self.flags, *spec, *repeat)

    @property
    def makes_file(self) -> bool:
        """A module, or a program to go on from; else a text."""
        return self.stop is None or self.stop in KEPT

    @property
    def has_start(self) -> bool:
        """Whether other configurations of the same problem have the first half of it in common with it."""
        late = self.spec is None or self.spec_flag.split("=")[0] in _READ_LATER
        return late and self.stop in (None, CONFIGURED, EXECUTABLES, TRANSLATED) and not isinstance(self.program, Path)

    @property
    def shares_host(self) -> bool:
        """Whether other configurations of the same problem have the host's program in common with it.

        A substitution is no pass of the executables, so those with one are not made without the host's program.
        """
        return self.spec is not None and self.spec_flag in _READ_LATER[:2] and self.stop == TRANSLATED

    @property
    def expects_siblings(self) -> bool:
        """Similar compiles will follow: other configurations, other repeats, or the module after its phases."""
        return self.spec is not None or self.timed or self.stop is not None

    @property
    def start_flags(self) -> tuple[str, ...]:
        """Those of its flags that matter up to there."""
        return tuple(flag for flag in self.flags if flag not in _LATE_FLAGS)

    def rest(self, tools: Tools, phase: Phase) -> tuple[str, ...]:
        """The command from where a shared start stopped: the module is the same, byte by byte, for less time.

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
        """The exact words, run in the compile's folder."""
        return self._words(tools, MODEL if isinstance(self.program, Path) else PROBLEM, MODULE)

    def by_hand(self, tools: Tools, *, output: str = MODULE) -> tuple[str, ...]:
        """The command as a user would repeat it: a whole model is named by its own path."""
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
        """From where a shared start stopped, and from nowhere else."""
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
    """What makes it by hand, from the problem as it is written."""
    vmfb: Path
    repeat: int = 1
    binary: str = ""
    """Hash of the executables' bytes: two candidates of the same binary are the same candidate."""
    isa: Isa = NO_FIGURES
    text: str = field(default="", repr=False)
    """What was printed where it stopped."""
    dumped: Mapping[Dump | Phase, tuple[str, ...]] = field(default_factory=dict, repr=False)
    lasting: bool = True
    """The result is reproducible: it may be remembered."""
    key: str = ""
    """Its entry in the build cache; empty where it was not put there."""
    cached: bool = False
    took: float = 0.0
    """Seconds of the compile that made it, whenever that was."""
    applied: int = 0
    """Operations, or dispatches of microkernels, that are proven to have what the spec gives them."""

    @property
    def ok(self) -> bool:
        return self.failure is None

    @property
    def texts(self) -> tuple[str, ...]:
        """The dumped executables. Configurations are dumped before an executable is substituted, benchmarks after."""
        return (*self.dumped.get("configurations", ()), *self.dumped.get("benchmarks", ()))

    @cached_property
    def executables(self) -> dict[str, str]:
        """The same by name, substituted ones as they were substituted."""
        return by_name(self.texts)

    def checked(self) -> Compiled:
        """The same; raises with the compiler's own words where it failed."""
        if not self.ok:
            raise CompilerRefusal(self.stderr)
        return self

    def record(self) -> dict[str, Any]:
        """What the build cache keeps of it, beside the module."""
        kept = {name: getattr(self, name) for name in ("failure", "stderr", "binary", "applied")}
        # Of a whole model's compile its dispatches are read, whenever it is asked for.
        dumped = {what: self.dumped[what] for what in (*_READ_PHASES, "configurations") if FLOW in self.dumped}
        return {**kept, "seconds": self.took, "isa": self.isa.to_json(), "dumped": dumped}

    @classmethod
    def refused(cls, why: str) -> Compiled:
        """The candidate could not be made, so nothing was compiled."""
        return cls("compile-error", why, 0.0, (), Path())


def compile_program(job: Compile, tools: Tools, folder: Path, *, begun: PartialCompile | None = None) -> Compiled:
    """Compiles in `folder`, where the inputs and the module stay; what was dumped is read and removed.

    `begun` is what came of the job's beginning, where that has been compiled: then only the rest is.
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
    """The command in its folder; what is said of a whole model names it where it lies."""
    done = process.run(words, timeout=job.timeout, cwd=folder)
    if not isinstance(job.program, Path):
        return done
    (folder / MODEL).unlink(missing_ok=True)
    return replace(done, stderr=done.stderr.replace(f"{MODEL}:", f"{job.program}:"))


def inspect(job: Compile, tools: Tools) -> Compiled:
    """The same in a folder that is thrown away, for what is printed; raises with the compiler's own words."""
    with tempfile.TemporaryDirectory(prefix="autotune-", ignore_cleanup_errors=True) as folder:
        return compile_program(job, tools, Path(folder)).checked()


def _dump_flag(what: Dump) -> str:
    name = "--dump-compilation" if what == "phases" else "--iree-hal-dump-executable"
    return f"{name}-{what}-to={what}"


# --- how it ended -----------------------------------------------------------------------------------------------------


def compile_failure(done: process.Finished) -> FailureClass | None:
    """What is wrong with a compile that has ended."""
    if done.timed_out:
        return "compile-timeout"
    # Some mistakes (a misspelt pass pipeline) print an error and still give a module and exit code 0.
    return "compile-error" if _says_error(done.stderr) or not done.ok else None


def lasting(done: process.Finished) -> bool:
    """Would this compile end the same way again? Only then is a failure remembered.

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
