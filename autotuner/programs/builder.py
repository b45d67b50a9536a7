"""Compiles one model, again and again, with different flags."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.build import Builder, BuildJob
from autotuner.carriers.flagfile import Flagfile
from autotuner.iree.compile import (
    CONFIGURED,
    PREPROCESSED,
    ROOT_ATTRIBUTES,
    Compile,
    Compiled,
    Dump,
    compile_program,
    inspect,
)
from autotuner.iree.tools import Tools
from autotuner.programs.model import ModelFile
from autotuner.system.cache import Cache

_READ: tuple[Dump, ...] = ("configurations", "phases")
"""What tells a model's dispatches."""
_DUMPS: tuple[Dump, ...] = (*_READ, "benchmarks", "binaries")
"""Of executables that are substituted the configurations are those before; of some there is no benchmark."""


def whole_job(program: Path, flags: Sequence[str], *, timeout: float) -> BuildJob:
    """A model's module, and what tells its dispatches: the cache keeps both, for whoever compiles it the same way.

    Dispatches say which operation each is about: that changes nothing in the module.
    """
    return BuildJob(program, (*flags, ROOT_ATTRIBUTES), timeout, dumps=_DUMPS)


def _unlike(build: Compiled, why: str) -> Compiled:
    return replace(build, failure="not-applied", stderr=why)


@dataclass(frozen=True)
class ModelBuilder:
    """Compiles one model, again and again, with different flags."""

    tools: Tools
    cache: Cache
    program: ModelFile

    def preprocessed(self, flags: Iterable[str], *, timeout: float) -> str:
        """The program as it goes into IREE's own pipelines, without its weights."""
        return inspect(Compile(self.program.path, tuple(flags), timeout, stop="preprocessing"), self.tools).text

    def known(self, flags: Sequence[str], *, timeout: float) -> Compiled | None:
        """The module by these flags, where it was made before, with what tells its dispatches."""
        job = self.job(flags, timeout=timeout)
        made = self._builder.recalled(job, self._builder.key(job))
        return made if made is not None and made.ok else None

    def configured(self, flags: Sequence[str], *, timeout: float) -> Compiled:
        """The program up to where its dispatches are configured: there is no module of it."""
        return self._builder.build(self.configuring(flags, timeout=timeout))

    def configuring(self, flags: Sequence[str], *, timeout: float) -> BuildJob:
        """The job of that."""
        return replace(self.job(flags, timeout=timeout), stop=CONFIGURED, dumps=_READ)

    def build(self, flags: Sequence[str], *, timeout: float) -> Compiled:
        """A module, remembered by the model, the flags and the files that these name."""
        return self._builder.build(self.job(flags, timeout=timeout))

    def module(self, flags: Sequence[str], *, timeout: float) -> Compiled:
        """A module that is only called: nothing is read of how it came about."""
        return self._builder.build(BuildJob(self.program.path, tuple(flags), timeout, dumps=()))

    def build_fresh(self, flags: Sequence[str], *, folder: Path, timeout: float) -> Compiled:
        """A module in `folder`, with what must be known to prove what is in it."""
        return compile_program(self.job(flags, timeout=timeout), self.tools, folder)

    def build_shipped(self, flagfile: Path, *, folder: Path, timeout: float) -> Compiled:
        """The same by a flagfile and nothing else, as a user does it."""
        job = replace(self.job((), timeout=timeout), flags=(f"@{flagfile}",))
        return compile_program(job, self.tools, folder)

    def made_before(self, flagfile: Path, build: Compiled, *, timeout: float) -> Compiled:
        """A module that was made before by the words of a flagfile, and needs no second compile to be proven.

        The build cache knows a compile by all that it reads: the compiler, the model, the words and the files that
        these name. They are asked for anew. What iree-compile itself makes of the file is compared as far as the
        program is preprocessed.
        """
        words = Flagfile.read(flagfile, trust=True).flags
        if self._builder.key(self.job(words, timeout=timeout)) != build.key:
            return _unlike(
                build, "the compiler, the model, a flag or a file that one names has changed since it was timed"
            )
        read = Compile(self.program.path, (f"@{flagfile}",), timeout, stop=PREPROCESSED, dumps=("phases",))
        if inspect(read, self.tools).dumped[PREPROCESSED] != build.dumped[PREPROCESSED]:
            return _unlike(
                build, "iree-compile makes another program of the flagfile than of the flags that were timed"
            )
        return build

    def job(self, flags: Sequence[str], *, timeout: float) -> BuildJob:
        return whole_job(self.program.path, flags, timeout=timeout)

    def command(self, flags: Sequence[str], *, vmfb: Path) -> tuple[str, ...]:
        """What makes the module by hand."""
        return Compile(self.program.path, tuple(flags), 0.0).by_hand(self.tools, output=str(vmfb))

    @property
    def _builder(self) -> Builder:
        return Builder(self.tools, self.cache)
