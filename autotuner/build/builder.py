"""One candidate, one iree-compile: what came out, and the proof that the spec was applied."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

from autotuner.build.isa import NO_FIGURES, REMARKS, Isa, read_isa, split_remarks
from autotuner.carriers import calls as proof
from autotuner.carriers.render import MARKER
from autotuner.errors import EnvironmentFailure, StorageError
from autotuner.iree.compile import CompilerRefusal, FailureClass, compile_failure, lasting
from autotuner.iree.mlir import read_applied, same_attributes
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Call
from autotuner.space.gpu_config import CompilationInfo
from autotuner.system import process
from autotuner.system.cache import Cache
from autotuner.system.digests import file_digest, known_digest, read_by_flags
from autotuner.targets.base import Backend

PROBLEM, SPEC, MODULE = "problem.mlir", "spec.mlir", "module.vmfb"
CONFIGURATIONS, BINARIES = "configurations", "binaries"
_STOP = "--compile-to=executable-configurations"
_FULL = os.strerror(errno.ENOSPC)


@dataclass(frozen=True)
class BuildJob:
    """What to compile, and what the dump must show when a spec is part of it."""

    problem: str
    flags: tuple[str, ...]
    folder: Path
    """Where the candidate's files lie: the command can be repeated there by hand."""
    timeout: float
    repeat: int = 1
    spec: str | None = None
    spec_flag: str = ""
    expected: CompilationInfo | None = None
    backend: Backend = "cpu"
    substitutes: bool = False
    """`spec` is an executable that takes the place of the compiler's own."""
    calls: tuple[Call, ...] = ()
    """The microkernels that `spec` puts in; each must be found in the preprocessed program."""

    @property
    def compile_flags(self) -> tuple[str, ...]:
        spec = (f"{self.spec_flag}={SPEC}",) if self.spec is not None else ()
        repeat = (f"--iree-hal-benchmark-dispatch-repeat-count={self.repeat}",) if self.repeat > 1 else ()
        return (*self.flags, *spec, *repeat)


@dataclass(frozen=True)
class Build:
    """What became of a job."""

    key: str
    failure: FailureClass | None
    stderr: str
    seconds: float
    cached: bool
    binary: str
    """Hash of the executables' bytes: two candidates of the same binary are the same candidate."""
    applied: int
    vmfb: Path
    repeat: int
    command: tuple[str, ...]
    isa: Isa = NO_FIGURES

    @property
    def ok(self) -> bool:
        return self.failure is None

    @classmethod
    def refused(cls, why: str, *, folder: Path) -> Build:
        """There was nothing to compile: the candidate itself could not be made."""
        return cls("", "compile-error", why, 0.0, False, "", 0, folder / MODULE, 1, (), NO_FIGURES)


@dataclass(frozen=True)
class Builder:
    """Compiles jobs, each in a process of its own; safe to call from many threads."""

    tools: Tools
    cache: Cache

    def build(self, job: BuildJob) -> Build:
        command, key = self.command(job), self.key(job)
        record = self.cache.read(key)
        cached = record is not None
        if record is None:
            record = self._compile(job, command, key)
        return Build(
            key=key,
            failure=record["failure"],
            stderr=record["stderr"],
            seconds=0.0 if cached else record["seconds"],
            cached=cached,
            binary=record["binary"],
            applied=record["applied"],
            vmfb=self.cache.entry(key) / MODULE,
            repeat=job.repeat,
            command=command,
            isa=Isa.from_json(record["isa"]),
        )

    def key(self, job: BuildJob) -> str:
        """The same for jobs whose compile reads the same: the programs, the texts, the files and the flags."""
        expected = astuple(job.expected) if job.expected else ()
        # A build from before ptxas was installed, or by another one, has other figures.
        ptxas = [known_digest(self.tools.ptxas)] if job.backend == "cuda" and self.tools.ptxas else []
        inputs = (job.problem, job.spec or "", *(part or "" for part in expected))
        folders = frozenset(path.absolute().parent for call in job.calls for path in call.instance.objects)
        files = read_by_flags(job.flags, folder=job.folder, known=folders)
        # `command` without the compiler's path: the same compiler elsewhere gives the same build.
        words = self.command(job)[1:]
        return Cache.key([self.tools.identity, *ptxas, *inputs, *_object_hashes(job.calls), *files, *words])

    def command(self, job: BuildJob) -> tuple[str, ...]:
        """The exact words, run in the job's folder."""
        return (
            str(self.tools.iree_compile),
            PROBLEM,
            *job.compile_flags,
            *((REMARKS,) if job.backend == "rocm" else ()),
            "--mlir-disable-threading",
            *self.tools.printing,
            *dump_flags(substitutes=job.substitutes),
            "-o",
            MODULE,
        )

    def _compile(self, job: BuildJob, command: tuple[str, ...], key: str) -> dict[str, Any]:
        write_inputs(job)
        _remove_dumps(job.folder)  # an interrupted build may have left some
        done = process.run(command, timeout=job.timeout, cwd=job.folder)
        remarks, said = split_remarks(done.stderr)
        failure, stderr, binary, applied = self._judge(job, replace(done, stderr=said))
        vmfb = job.folder / MODULE
        isa = NO_FIGURES
        if failure is None:
            isa = read_isa(job.folder / BINARIES, vmfb, remarks=remarks, ptxas=self.tools.ptxas)
        _remove_dumps(job.folder)
        record: dict[str, Any] = {
            "failure": failure,
            "stderr": stderr,
            "seconds": done.seconds,
            "binary": binary,
            "applied": applied,
            "isa": isa.to_json(),
        }
        if failure is not None and not lasting(done):
            return record
        self.cache.store(key, record, vmfb=vmfb if failure is None else None)
        return record

    def _judge(self, job: BuildJob, done: process.Finished) -> tuple[FailureClass | None, str, str, int]:
        """(failure, stderr, binary hash, applied count) of a finished compile."""
        if _FULL in done.stderr:
            raise StorageError(
                f"{_FULL} while compiling in {job.folder}.", remedy="Free some space or choose another --workspace."
            )
        if (failure := compile_failure(done)) is not None:
            return failure, done.why(), "", 0
        binary = hash_binaries(job.folder / BINARIES)
        if job.calls:
            applied, reason = self._prove_calls(job)
            binary = kernel_binary(binary, job.calls)
            return ("not-applied", reason, binary, 0) if reason else (None, done.stderr, binary, applied)
        if job.expected is None:
            return None, done.stderr, binary, 0
        applied, reason = prove(job.folder / CONFIGURATIONS, job.expected)
        if not applied:
            return "not-applied", f"{reason}\n{done.stderr}".strip(), binary, 0
        return None, done.stderr, binary, applied

    def _prove_calls(self, job: BuildJob) -> tuple[int, str]:
        """How often the job's microkernels are called, and what is wrong when one is not."""
        flags = [*job.flags, f"{job.spec_flag}={job.folder / SPEC}"]
        text = proof.preprocess(self.tools, job.folder / PROBLEM, flags, timeout=job.timeout)
        found = proof.prove(text, job.calls)
        return sum(found.found), found.reason(job.calls)

    def inspect(
        self, problem: str, flags: Iterable[str], *, timeout: float, spec: str | None = None, spec_flag: str = ""
    ) -> str:
        """The configured dispatches as text; raises with the compiler's own words when it refuses."""
        with self.cache.scratch() as folder:
            return self._configure(folder, problem, flags, timeout=timeout, spec=spec, spec_flag=spec_flag)

    def executables(self, problem: str, flags: Iterable[str], *, timeout: float) -> list[str]:
        """The configured executables, each as the file that a substitution begins with."""
        with self.cache.scratch() as folder:
            dump = f"--iree-hal-dump-executable-configurations-to={CONFIGURATIONS}"
            self._configure(folder, problem, [*flags, dump], timeout=timeout)
            return [path.read_text() for path in sorted((folder / CONFIGURATIONS).glob("*.mlir"))]

    def _configure(
        self,
        folder: Path,
        problem: str,
        flags: Iterable[str],
        *,
        timeout: float,
        spec: str | None = None,
        spec_flag: str = "",
    ) -> str:
        (folder / PROBLEM).write_text(problem)
        carried = []
        if spec is not None:
            (folder / SPEC).write_text(spec)
            carried = [f"{spec_flag}={SPEC}"]
        done = process.run(
            [self.tools.iree_compile, PROBLEM, *flags, *carried, *self.tools.printing, _STOP, "-o", "-"],
            timeout=timeout,
            cwd=folder,
        )
        if not done.ok:
            raise CompilerRefusal(done.why())
        return done.stdout


def dump_flags(*, substitutes: bool) -> tuple[str, str]:
    """What a compile must leave behind to be proven and told from others."""
    # Configurations are dumped before an executable is substituted; what is dumped for benchmarks has been.
    when = "benchmarks" if substitutes else "configurations"
    return (
        f"--iree-hal-dump-executable-{when}-to={CONFIGURATIONS}",
        f"--iree-hal-dump-executable-binaries-to={BINARIES}",
    )


def _object_hashes(calls: Iterable[Call]) -> list[str]:
    """Of the kernels' objects: a file may be exchanged and keep its name."""
    return [file_digest(path) for call in calls for path in call.instance.objects]


def write_inputs(job: BuildJob) -> None:
    """The files that the command reads."""
    try:
        job.folder.mkdir(parents=True, exist_ok=True)
        (job.folder / PROBLEM).write_text(job.problem)
        if job.spec is not None:
            (job.folder / SPEC).write_text(job.spec)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot write {job.folder}: {error.strerror}.", remedy="Free some space or choose another --workspace."
        ) from error


def _remove_dumps(folder: Path) -> None:
    for name in (CONFIGURATIONS, BINARIES):
        shutil.rmtree(folder / name, ignore_errors=True)


def prove(dump: Path, expected: CompilationInfo) -> tuple[int, str]:
    """`proven` for the configurations that a compile dumped into a folder."""
    return proven([path.read_text() for path in sorted(dump.glob("*.mlir"))], expected)


def proven(texts: Iterable[str], expected: CompilationInfo) -> tuple[int, str]:
    """How many operations carry the marker and this very configuration, and what is wrong when none does.

    Both are needed: a pass after the spec may drop the lowering_config and leave the marker.
    """
    marked = read_applied(texts, marker=MARKER)
    if not marked:
        return 0, "the spec matched no operation: the marker is in no dumped configuration"
    wanted = expected.translation_attribute
    for found in marked:
        if not found.lowering_config:
            return 0, f"the marker is on {found.op}, but its lowering_config was dropped by a later pass"
        same_config, same_translation = same_attributes(
            [(found.lowering_config, expected.lowering_config), (found.translation_info, wanted)]
        )
        if not same_config:
            return 0, f"{found.op} has {found.lowering_config}, not the spec's {expected.lowering_config}"
        if not same_translation:
            return 0, f"the function has {found.translation_info}, not the spec's {wanted}"
        decomposition = expected.decomposition_config or ""
        if decomposition and not _same(found.decomposition_config, decomposition):
            return 0, f"{found.op} decomposes by {found.decomposition_config or 'nothing'}, not by {decomposition}"
    return len(marked), ""


def _same(found: str, expected: str) -> bool:
    return bool(found) and same_attributes([(found, expected)])[0]


def kernel_binary(binary: str, calls: Sequence[Call]) -> str:
    """The hash of a program with microkernels: not all of what they are is among the dumped executables."""
    launches = [repr(replace(call.instance, objects=())) for call in calls]
    return Cache.key([binary, *_object_hashes(calls), *launches])


def hash_binaries(folder: Path) -> str:
    """One hash over the dumped executables."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*")):
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
