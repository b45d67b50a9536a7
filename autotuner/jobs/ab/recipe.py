"""From an arm to its compile: the flags, the program that runs, and the proof that its spec arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.carriers.calls import preprocess, prove
from autotuner.carriers.carrier import DUMPS, FLAGS, CarrierName, MicrokernelCarrier
from autotuner.carriers.flagfile import Flagfile, name_of
from autotuner.errors import NoCandidateError, ToolMissingError, UsageError
from autotuner.iree.compile import Compile, CompilerRefusal, first_error
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.arms import Arm, file_flags
from autotuner.jobs.ab.kernels import InsertedKernel, KernelSite
from autotuner.problems import Problem
from autotuner.specfiles.applied import Use, applied
from autotuner.specfiles.check import objects_folder, refuse_executables
from autotuner.specfiles.entries import SpecFile, read_spec, read_text
from autotuner.specfiles.objects import check_objects
from autotuner.targets.backends import TUNING_SPEC

_LISTED = 12


@dataclass(frozen=True)
class Recipe:
    """How an arm is compiled."""

    tools: Tools
    """With the arm's own compiler, where it is one."""
    flags: tuple[str, ...]
    """All but the source and the output."""
    carrier: CarrierName | None = None
    spec: Path | None = None
    flagfile: Path | None = None
    applied: int = 0
    """Operations or dispatches that its spec is proven to reach."""
    inserted: InsertedKernel | None = None
    """Of a microkernel."""
    substituted: tuple[str, ...] = ()
    """Executables that others take the place of."""
    version: str = ""
    """What a compiler of the user's says of itself."""
    notes: tuple[str, ...] = ()

    @property
    def repeatable(self) -> bool:
        return self.inserted is None or not self.inserted.zeroed

    def job(self, program: str | Path, *, timeout: float, repeat: int = 1) -> Compile:
        return Compile(program, self.flags, timeout, repeat=repeat, dumps=DUMPS)


@dataclass(frozen=True)
class ArmCompiler:
    """Says how each arm is compiled for one program."""

    site: KernelSite
    problem: Problem | None
    """What a microkernel is to compute; None: whatever it fits."""

    def make(self, arm: Arm) -> Recipe:
        plain = Recipe(self.site.tools, self.site.flags)
        if arm.kind == "default":
            return plain
        if arm.kind == "microkernel" and arm.kernel is not None:
            inserted = self.site.insert(arm.kernel, self.problem)
            return replace(
                plain,
                flags=(*plain.flags, *inserted.flags),
                carrier=MicrokernelCarrier.name,
                spec=Path(inserted.flags[0].partition("=")[2]),
                applied=sum(inserted.counts),
                inserted=inserted,
                notes=inserted.notes,
            )
        if arm.path is None:
            raise ValueError(f"{arm.name} has no file")
        if arm.kind == "compiler":
            tools = replace(self.site.tools, iree_compile=arm.path)
            return replace(plain, tools=tools, version=_version(tools))
        if arm.kind == "flagfile":
            return self._flagfile(arm.path, plain, trust=arm.trust)
        return self._spec(arm.path, plain, trust=arm.trust)

    def _flagfile(self, path: Path, plain: Recipe, *, trust: bool) -> Recipe:
        flagfile = Flagfile.read(path, trust=trust, known=self.site.target.user_flags)
        if not flagfile.flags:
            raise UsageError(f"{path} has no flags.", remedy="It has one --flag=value a line.")
        if not trust:
            refuse_executables(flagfile)
        flags = (*self._own(), *file_flags(self.site.target, flagfile.flags, path=path))
        recipe = replace(plain, flags=flags, flagfile=path, carrier=FLAGS.name)
        others = (*self._own(), *file_flags(self.site.target, flagfile.others, path=path))
        for name, value in flagfile.carriers:
            spec = Path(value).absolute()
            folder = next((Path(folder).absolute() for folder in flagfile.folders), None)
            recipe = self._proven(recipe, spec, others, flag=name, objects=folder, trust=trust)
        return recipe

    def _spec(self, path: Path, plain: Recipe, *, trust: bool) -> Recipe:
        beside = Flagfile.beside(path, trust=trust, known=self.site.target.user_flags)
        others = plain.flags
        if beside is not None:
            others = (*self._own(), *file_flags(self.site.target, beside.others, path=beside.path))
        file = _read(path, trust=trust)
        objects = objects_folder(path, beside).absolute()
        folder = objects if file.carrier.brings_objects else None
        carriers = file.flags(path, spec_flag=self.site.target.spec_flag, objects=objects)
        recipe = replace(plain, flags=(*others, *carriers), flagfile=beside.path if beside else None)
        return self._proven(recipe, path, others, flag=name_of(carriers[0]), objects=folder, trust=trust)

    def _own(self) -> tuple[str, ...]:
        """What the program needs beside the target's flags."""
        return tuple(flag for flag in self.site.flags if flag not in self.site.target.compile_flags)

    def _proven(
        self, recipe: Recipe, spec: Path, flags: Sequence[str], *, flag: str, objects: Path | None, trust: bool
    ) -> Recipe:
        """With the proof that this spec applies when it is carried by this flag."""
        file = _read(spec, trust=trust)
        target = self.site.target
        if flag == TUNING_SPEC != target.spec_flag:
            raise NoCandidateError(
                f"{flag} does nothing for {target.name}: IREE ignores it there.", remedy=f"Use {target.spec_flag}."
            )
        if objects is not None:
            wrong = [finding.text for finding in check_objects(file, objects, target) if finding.level == "error"]
            if wrong:
                raise UsageError(f"{spec}: {'; '.join(wrong)}.", remedy="`autotune spec check` says more.")
        tools, timeout = self.site.tools, self.site.timeout
        try:
            uses = applied(read_text(spec), self.site.program, flags, tools, objects=objects, timeout=timeout)
        except CompilerRefusal as refusal:
            raise NoCandidateError(
                f"{spec} does not compile here: {first_error(refusal.stderr)}", remedy="Check it, --flag and --target."
            ) from refusal
        count = sum(use.dispatches for use in uses)
        if not count:
            raise self._unapplied(spec, uses, flags)
        names = tuple(entry.name for entry in file.entries) if file.carrier.by_name else ()
        notes = (f"{spec.name} brings native code, which runs with your rights: see SECURITY.md",)
        return replace(
            recipe,
            carrier=file.carrier.name,
            spec=spec,
            applied=recipe.applied + count,
            substituted=(*recipe.substituted, *names),
            notes=(*recipe.notes, *(notes if file.carrier.brings_objects else ())),
        )

    def _unapplied(self, spec: Path, uses: Sequence[Use], flags: Sequence[str]) -> NoCandidateError:
        """What the spec wants, and what the program has."""
        lost = [use for use in uses if use.lost]
        if lost:
            what = (
                f"{lost[0].entry.name} matched {', '.join(lost[0].ops) or 'an operation'}, but a later pass dropped it"
            )
        else:
            wanted = [use.entry.matches.text for use in uses]
            more = f" and {len(wanted) - _LISTED} more" if len(wanted) > _LISTED else ""
            what = f"none of its {len(uses)} entries matches. They want: {'; '.join(wanted[:_LISTED])}{more}"
        text = preprocess(self.site.tools, self.site.program, flags, timeout=self.site.timeout)
        there = prove(text, ()).instead
        found = "\n".join(["The program has:", *there[:_LISTED]]) if there else "The program has no such operation"
        return NoCandidateError(
            f"{spec} does not apply to {self.site.name}: {what}.\n{found}",
            remedy="\nIs it for this problem, type and target?",
        )


def _read(path: Path, *, trust: bool) -> SpecFile:
    return read_spec(read_text(path), name=str(path), trust=trust)


def _version(tools: Tools) -> str:
    """What a compiler says of itself; what is none, or does not answer as one, is refused."""
    try:
        said = tools.version
    except ToolMissingError as error:
        raise UsageError(error.message, remedy="An arm with a path is an iree-compile that runs here.") from error
    if "IREE" not in said and "LLVM" not in said:
        raise UsageError(
            f"{tools.iree_compile} does not answer --version as an iree-compile does.", remedy="Is it one?"
        )
    return said
