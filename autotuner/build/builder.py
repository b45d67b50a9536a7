"""Builds a job to a module: compiled once, cached by content, with proof that its spec was applied."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from autotuner.build.proof import proven
from autotuner.carriers.calls import KernelCall, prove
from autotuner.carriers.carrier import DUMPS
from autotuner.iree.compile import (
    CONFIGURED,
    DISPATCHES,
    EXECUTABLES,
    TRANSLATED,
    Compile,
    Compiled,
    Dump,
    PartialCompile,
    compile_program,
    inspect,
)
from autotuner.iree.figures import Isa
from autotuner.iree.folder import MODEL
from autotuner.iree.program import TWICE, spliced, with_repeats
from autotuner.iree.tools import Tools
from autotuner.space.dispatch import CompilationInfo
from autotuner.system.cache import Cache
from autotuner.system.digests import content_digest, known_digest, read_by_flags
from autotuner.system.locks import one_at_a_time

HOST = "host"
BINARIES: Dump = "binaries"
"""The dumps of a compile that is not proven: the binaries, for their hash."""


@dataclass(frozen=True)
class BuildJob(Compile):
    """A compile, and what must be found in its result. Plain data, except for a model's file."""

    dumps: tuple[Dump, ...] = DUMPS
    expected: CompilationInfo | None = None
    """The configuration that the spec must give an operation."""
    kernels: tuple[KernelCall, ...] = ()
    """The microkernels that must be found in the preprocessed program."""

    @property
    def start(self) -> BuildJob | None:
        """The compile that it shares with all configurations of its problem; None: it must be compiled whole."""
        if not self.has_start:
            return None
        return BuildJob(self.program, self.start_flags, self.timeout, stop=DISPATCHES, dumps=(), files=self.files)

    @property
    def translation(self) -> BuildJob:
        """The compile that it shares with its other repeats."""
        return replace(self, stop=TRANSLATED, repeat=TWICE)

    @property
    def plain(self) -> BuildJob:
        """The job without its configuration."""
        return replace(self, spec=None, spec_flag="", expected=None)

    @property
    def executables(self) -> BuildJob:
        """The job's executables without the host program."""
        return replace(self, stop=EXECUTABLES, repeat=1)


@dataclass(frozen=True)
class Builder:
    """Compiles jobs, each in a process of its own; safe to call from many threads."""

    tools: Tools
    cache: Cache
    begins: bool = True
    """Whether intermediate programs are cached; a dry run caches none."""

    def build(self, job: BuildJob) -> Compiled:
        """The job's module and its proof, from the cache where it has been compiled before.

        A job that stops in a phase gives a text, which is not cached.
        """
        if not job.makes_file:
            with self.cache.scratch() as folder:
                return self._compile(job, folder)
        key = self.key(job)
        known = self.recalled(job, key)
        if known is not None:
            return known
        with one_at_a_time(key):
            # A thread that waited finds the other one's build, unless that one ran out of time.
            return self.recalled(job, key) or self._built(job, key)

    def _built(self, job: BuildJob, key: str) -> Compiled:
        with self.cache.scratch() as folder:
            made = self._linked(job, folder) if self._translates(job) else None
            if made is None:
                made = self.prove(job, self._compile(job, folder))
            made = replace(made, key=key)
            if made.ok or made.lasting:
                self.cache.store(key, made.record(), vmfb=made.vmfb if made.ok else None)
        return replace(made, vmfb=self.cache.module(key))

    def recalled(self, job: BuildJob, key: str) -> Compiled | None:
        """The cached result; None: there is none."""
        record = self.cache.read(key) if job.makes_file else None
        return None if record is None else self._read(job, key, record)

    def _translates(self, job: BuildJob) -> bool:
        """Whether the executables are made first, and then a module for each number of repeats."""
        wanted = job.stop is None and (job.timed or job.repeat > 1)
        return wanted and not isinstance(job.program, Path) and self.tools.matches_bindings

    def _linked(self, job: BuildJob, folder: Path) -> Compiled | None:
        """The module of shared executables; None: it must be compiled whole."""
        translated = self.build(job.translation)
        same = replace(translated, command=job.by_hand(self.tools), repeat=job.repeat)
        if not translated.ok:
            return same
        program = with_repeats(_bytes(translated.vmfb), job.repeat)
        if program is None:
            return None
        linked = compile_program(job, self.tools, folder, begun=PartialCompile(TRANSLATED, program))
        if not linked.ok:
            return linked if linked.failure == "compile-timeout" else None
        seconds, took = translated.seconds + linked.seconds, translated.took + linked.took
        return replace(same, vmfb=linked.vmfb, seconds=seconds, took=took)

    def _compile(self, job: BuildJob, folder: Path) -> Compiled:
        """Compiles from the phase that candidates share, where that is possible; else from the problem."""
        sources = self._sources(job)
        if sources is not None:
            begun = PartialCompile(DISPATCHES, sources)
            made = self._spliced(job, folder, begun) or compile_program(job, self.tools, folder, begun=begun)
            # What is said about a failure are the words that a user gets, who compiles from the problem.
            if made.ok or made.failure == "compile-timeout" or job.stop == EXECUTABLES:
                return made
        return compile_program(job, self.tools, folder)

    def _spliced(self, job: BuildJob, folder: Path, begun: PartialCompile) -> Compiled | None:
        """The job's executables spliced into its problem's host program; None: the host program must be compiled,
        too."""
        host = self._host(job)
        if host is None:
            return None
        made = compile_program(job.executables, self.tools, folder, begun=begun)
        if not made.ok:
            return made
        program = spliced(host, _bytes(made.vmfb))
        if program is None:
            return None
        made.vmfb.write_bytes(program)
        return replace(made, command=job.by_hand(self.tools), repeat=job.repeat)

    def _host(self, job: BuildJob) -> bytes | None:
        """The cached host program of the job's problem; None: a candidate needs its own.

        It is used where the executables of IREE's own configuration are the same with it and without: then iree-opt
        takes the flags as iree-compile does.
        """
        if not job.shares_host or job.kernels or not self.tools.passes_match:
            return None
        whole, alone = self.build(job.plain), self.build(job.plain.executables)
        same = whole.ok and alone.ok and whole.binary == alone.binary
        return _bytes(whole.vmfb) or None if same else None

    def _sources(self, job: BuildJob) -> bytes | None:
        """The cached dispatches of the job's problem; None: a candidate must be compiled whole."""
        start = job.start
        if start is None or not self.begins or not job.expects_siblings:
            return None
        made = self.build(start)
        return _bytes(made.vmfb) or None if made.ok else None

    def key(self, job: BuildJob) -> str:
        """The cache key: a digest of the programs, texts, files and flags that the compile reads."""
        program = [MODEL, known_digest(job.program)] if isinstance(job.program, Path) else ["text", job.program]
        expected = [part or "" for part in astuple(job.expected)] if job.expected else []
        kernels = [repr(kernel) for kernel in job.kernels]
        own = _contents(job)
        named = read_by_flags(job.flags, folder=self._nowhere)
        figures = ["figures"] if job.figures else []
        parts = [program, [job.spec or ""], expected, kernels, own, named, figures]
        # The command without the compiler and the program: these are known by their content, wherever they lie.
        words = job.command(self.tools)[2:]
        counted = [word for part in parts for word in (str(len(part)), *part)]
        host = self.tools.processor if means_host(job.flags) else ""
        return Cache.key([self.tools.identity, host, *counted, *words])

    def prove(self, job: BuildJob, made: Compiled) -> Compiled:
        """The compile, with failure `not-applied` where what the job expects is not found."""
        if not made.ok:
            return made
        if job.kernels:
            text = inspect(replace(job, repeat=1, stop="preprocessing", dumps=(), figures=""), self.tools).text
            found = prove(text, job.kernels)
            made = replace(made, binary=_with_kernels(made.binary, job))
            reason, applied = found.reason(job.kernels), sum(found.found)
        elif job.expected is not None:
            applied, reason = proven(made.texts, job.expected)
        else:
            return made
        if reason:
            return replace(made, failure="not-applied", stderr=f"{reason}\n{made.stderr}".strip())
        return replace(made, applied=applied)

    def inspect(
        self,
        program: str | Path,
        flags: Iterable[str],
        *,
        timeout: float,
        spec: str | None = None,
        spec_flag: str = "",
    ) -> str:
        """The configured dispatches as text; raises with the compiler's own words."""
        job = BuildJob(program, tuple(flags), timeout, spec, spec_flag, stop=CONFIGURED, dumps=())
        return self.build(job).checked().text

    def executables(self, program: str | Path, flags: Iterable[str], *, timeout: float) -> tuple[str, ...]:
        """The configured executables, from which substitutions are made."""
        job = BuildJob(program, tuple(flags), timeout, stop=CONFIGURED, dumps=("configurations",))
        return self.build(job).checked().texts

    @property
    def _nowhere(self) -> Path:
        """An empty folder, in which relative paths of flags lead nowhere."""
        return self.cache.builds / "job"

    def _read(self, job: BuildJob, key: str, record: dict[str, Any]) -> Compiled:
        return Compiled(
            failure=record["failure"],
            stderr=record["stderr"],
            seconds=0.0,
            command=job.by_hand(self.tools),
            vmfb=self.cache.module(key),
            repeat=job.repeat,
            binary=record["binary"],
            isa=Isa.from_json(record["isa"]),
            key=key,
            cached=True,
            took=record["seconds"],
            applied=record["applied"],
            dumped={what: tuple(texts) for what, texts in record.get("dumped", {}).items()},
        )


def _bytes(path: Path) -> bytes:
    """The bytes of a file; empty where the cache was emptied meanwhile."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def means_host(flags: Iterable[str]) -> bool:
    """Whether flags, also those in a flagfile, compile for the host's processor."""
    return any(flag.rpartition("=")[2] == HOST or flag.startswith("@") for flag in flags)


def _contents(job: Compile) -> list[str]:
    """Names and hashes of a job's own files."""
    return [word for name, data in job.files for word in (name, content_digest(data))]


def _with_kernels(binary: str, job: BuildJob) -> str:
    """The hash of a program with microkernels, whose objects are not all among the dumped binaries."""
    return Cache.key([binary, *_contents(job), *(kernel.launch for kernel in job.kernels)])
