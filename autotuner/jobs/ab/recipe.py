"""How an arm is compiled: the flags, the program that runs, and the proof that its spec arrives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autotuner.build.builder import BINARIES, BuildJob
from autotuner.carriers.calls import preprocess, prove
from autotuner.carriers.carrier import CarrierName, MicrokernelCarrier
from autotuner.carriers.microkernel import OBJECTS_FLAG, OBJECTS_FOLDER, SPEC_FLAG
from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.compile import CompilerRefusal, first_error
from autotuner.iree.folder import PROBLEM, SPEC
from autotuner.iree.tools import Tools
from autotuner.microkernels.check import refuse_hazards
from autotuner.problems import Problem
from autotuner.problems.accuracy import Precision
from autotuner.programs.model import whole_job
from autotuner.specfiles.applied import EntryUse, applied
from autotuner.specfiles.check import check_objects
from autotuner.specfiles.entries import SpecFile, read_spec, read_text
from autotuner.specfiles.flagfile import name_of
from autotuner.system.text import listed
from autotuner.targets import Target
from autotuner.targets.backends import CHOOSING, TUNING_SPEC
from autotuner.tuning.session import Session


@dataclass(frozen=True)
class Recipe:
    """How an arm is compiled, and what it brings."""

    flags: tuple[str, ...]
    """All but the source, the output and what carries a microkernel."""
    carrier: CarrierName | None = None
    spec: Path | None = None
    flagfile: Path | None = None
    applied: int = 0
    """Operations or dispatches that its spec is proven to reach."""
    kernel: MicrokernelCarrier | None = None
    """The files that it ships if it wins; the others exist already."""
    counts: tuple[int, ...] = ()
    """How often the program has each of the kernel's calls."""
    targets: tuple[str, ...] = ()
    """The target's own flags, which both arms have."""
    notes: tuple[str, ...] = ()

    @property
    def brings_objects(self) -> bool:
        """Native code is linked in that nobody here has made."""
        return any(flag.startswith(OBJECTS_FLAG) for flag in self.flags)

    @property
    def repeatable(self) -> bool:
        return self.kernel is None or self.kernel.repeatable

    @property
    def added(self) -> tuple[str, ...]:
        """What it adds to the target's flags, in the folder that it is compiled in."""
        own = tuple(flag for flag in self.flags if flag not in self.targets)
        return own if self.kernel is None else (*own, f"{SPEC_FLAG}={SPEC}", f"{OBJECTS_FLAG}={OBJECTS_FOLDER}")

    @property
    def kernels(self) -> tuple[Mapping[str, Any], ...]:
        """Which problems a microkernel computes, by which variant, and how often that is called."""
        pairs = zip(self.kernel.calls if self.kernel else (), self.counts, strict=True)
        return tuple({"problem": c.problem.name, "variant": c.instance.name, "calls": count} for c, count in pairs)

    def job(self, program: str | Path, *, timeout: float, repeat: int = 1) -> BuildJob:
        if isinstance(program, Path):
            return self._with_kernel(whole_job(program, self.flags, timeout=timeout))
        return self._with_kernel(BuildJob(program, self.flags, timeout, repeat=repeat, timed=self.repeatable))

    def command(self, program: str | Path, tools: Tools) -> tuple[str, ...]:
        """The command that makes its module by hand."""
        return self._with_kernel(BuildJob(program, self.flags, math.inf, dumps=(BINARIES,))).by_hand(tools)

    def _with_kernel(self, job: BuildJob) -> BuildJob:
        """With the kernel as plain data, not by the names of its files."""
        if self.kernel is None:
            return job
        carried = self.kernel.carried()
        return replace(
            job,
            flags=(*job.flags, *carried.flags),
            spec=carried.spec,
            spec_flag=carried.spec_flag,
            files=carried.files,
            kernels=carried.kernels,
        )


@dataclass(frozen=True)
class ArmSite:
    """The program of an arm."""

    program: str | Path
    flags: tuple[str, ...]
    """The target's and the program's own."""
    target: Target
    chip: str
    tools: Tools
    workspace: Path
    timeout: float
    problem: Problem | None
    """The problem that a kernel computes; None: every one that it fits."""
    allow: Precision
    """The accuracy that is accepted of its results."""

    @classmethod
    def within(
        cls,
        session: Session,
        target: Target,
        *,
        program: str | Path,
        timeout: float,
        flags: Sequence[str] = (),
        problem: Problem | None = None,
        allow: Precision = "",
    ) -> ArmSite:
        """`flags` are those that the program needs itself."""
        return cls(
            program=program,
            flags=(*flags, *target.compile_flags),
            target=target,
            chip=session.chip,
            tools=session.tools,
            workspace=session.workspace.root,
            timeout=timeout,
            problem=problem,
            allow=problem.allow if problem is not None else allow,
        )

    @property
    def name(self) -> str:
        """The program's name in messages."""
        return self.program.name if isinstance(self.program, Path) else PROBLEM

    @property
    def plain(self) -> Recipe:
        """IREE's default."""
        return Recipe(self.flags, targets=self.target.compile_flags)

    def with_flags(self, given: Sequence[str], *, path: Path) -> tuple[str, ...]:
        """The program's own flags, and those of a file over the target's."""
        own = (flag for flag in self.flags if flag not in self.target.compile_flags)
        return (*own, *file_flags(self.target, given, path=path))

    def proven(
        self,
        recipe: Recipe,
        spec: Path,
        flags: Sequence[str],
        *,
        flag: str,
        objects: Path | None,
        trust: bool,
    ) -> Recipe:
        """With the proof that this spec applies when it is carried by this flag."""
        file = read_arm_spec(spec, trust=trust)
        target = self.target
        if flag == TUNING_SPEC != target.spec_flag:
            raise NoCandidateError(
                f"{flag} does nothing for {target.name}: IREE ignores it there.", remedy=f"Use {target.spec_flag}."
            )
        if objects is not None:
            wrong = [finding.text for finding in check_objects(file, objects, target) if finding.level == "error"]
            if wrong:
                raise UsageError(f"{spec}: {'; '.join(wrong)}.", remedy="`autotune spec check` says more.")
            if not trust:
                names = dict.fromkeys(name for entry in file.entries for name in entry.objects)
                refuse_hazards(spec.name, [objects / name for name in names])
        count = self._applied(spec, flags, objects)
        notes = (f"{spec.name} brings native code, which runs with your rights: see SECURITY.md",)
        return replace(
            recipe,
            carrier=file.carrier.name,
            spec=spec,
            applied=recipe.applied + count,
            notes=(*recipe.notes, *(notes if file.carrier.brings_objects else ())),
        )

    def _applied(self, spec: Path, flags: Sequence[str], objects: Path | None) -> int:
        tools, timeout = self.tools, self.timeout
        try:
            uses = applied(read_text(spec), self.program, flags, tools, objects=objects, timeout=timeout)
        except CompilerRefusal as refusal:
            raise NoCandidateError(
                f"{spec} does not compile here: {first_error(refusal.stderr)}", remedy="Check it, --flag and --target."
            ) from refusal
        count = sum(use.dispatches for use in uses)
        if not count:
            raise self._unapplied(spec, uses, flags)
        return count

    def _unapplied(self, spec: Path, uses: Sequence[EntryUse], flags: Sequence[str]) -> NoCandidateError:
        """The operations that the spec matches, and those of the program."""
        wanted = listed([f"{use.entry.name} ({use.entry.text})" for use in uses])
        what = f"none of its {len(uses)} entries matches. They want: {'; '.join(wanted)}"
        for use in uses:
            if use.lost:
                what = f"{use.entry.name} matched {', '.join(use.ops) or 'an operation'}, but a later pass dropped it"
        text = preprocess(self.tools, self.program, flags, timeout=self.timeout)
        there = listed(prove(text, ()).instead)
        found = "\n".join(["The program has:", *there]) if there else "The program has no such operation"
        return NoCandidateError(
            f"{spec} does not apply to {self.name}: {what}.\n{found}",
            remedy="\nIs it for this problem, type and target?",
        )


def read_arm_spec(path: Path, *, trust: bool) -> SpecFile:
    return read_spec(read_text(path), name=str(path), trust=trust)


def file_flags(target: Target, given: Sequence[str], *, path: Path) -> tuple[str, ...]:
    """The target's flags and the user's, with those of a file in the place of what has the same name."""
    own = {name_of(flag): flag for flag in target.compile_flags}
    for flag in given:
        name = name_of(flag)
        if name in CHOOSING and own.get(name, flag) != flag:
            raise UsageError(f"{path} is for another target: {flag}, not {own[name]}.", remedy="Give its --target.")
    named = {name_of(flag) for flag in given}
    return (*(flag for name, flag in own.items() if name not in named), *given)
