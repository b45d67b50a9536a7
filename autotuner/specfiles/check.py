"""Checks a spec with its flagfile and its objects, and what it does to a program."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from iree.compiler import ir

from autotuner.carriers.flagfile import flagfile_text
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.errors import UsageError
from autotuner.iree.compile import Compile, inspect
from autotuner.iree.mlir import walk
from autotuner.iree.objects import read_object
from autotuner.iree.processor import target_table
from autotuner.iree.tools import Tools
from autotuner.microkernels.chips import runs_on
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.specfiles.applied import EntryUse, applied
from autotuner.specfiles.entries import SpecFile, parse_spec, read_spec, read_text, vet_file
from autotuner.specfiles.flagfile import Flagfile, beside, split_file, tuning_flag
from autotuner.specfiles.vetting import SECONDS, executables_in, vet_program
from autotuner.system.digests import file_digest
from autotuner.system.text import printable
from autotuner.targets import Target
from autotuner.targets.backends import LLVM_CPU, backend_of
from autotuner.targets.naming import which_device

Level = Literal["ok", "note", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    level: Level
    text: str
    lines: tuple[str, ...] = ()
    """The lines that the file should have."""

    def to_json(self) -> dict[str, Any]:
        return {"level": self.level, "text": self.text, **({"lines": list(self.lines)} if self.lines else {})}


def check_objects(file: SpecFile, folder: Path, target: Target | None) -> Iterator[Finding]:
    """Checks each object of a microkernel spec in its folder."""
    for name in dict.fromkeys(name for entry in file.entries for name in entry.objects):
        path, called = folder / name, f"object {printable(name)}"
        if Path(name).name != name:
            yield Finding("error", f"{called} is named by a path: it cannot move with the spec")
        elif not path.is_file():
            yield Finding("error", f"{called} is not in {folder}: copy it there")
        else:
            yield _object(path, called, file.hashes.get(name), target)


def _object(path: Path, called: str, recorded: str | None, target: Target | None) -> Finding:
    digest = file_digest(path)
    if recorded is not None and digest != recorded:
        hashes = f"SHA-256 {digest[:12]}…, recorded {printable(recorded)[:12]}…"
        return Finding("error", f"{called} is another one than was shipped ({hashes})")
    try:
        found = read_object(path)
    except UsageError as error:
        return Finding("error", str(error))
    chip, translated = found.chip, found.kind == "ptx"
    # Without a target nothing says which GPU is meant; the processor is always this one. What IREE compiles for an
    # earlier chip runs on a later one, whose kernels may be its own: the device says which it is.
    there = target.backend.chip_there(which_device(target.device)) if target is not None else None
    wanted = there or (target.kernel_chip if target is not None else platform.machine())
    on_gpu = not backend_of(chip).on_host
    if not (target is None and on_gpu) and not runs_on(chip, wanted, translated=translated):
        if there is None and runs_on(wanted, chip):
            return Finding("note", f"{called} is for {chip}: it runs on that chip, and not on every {wanted}")
        return Finding("error", f"{called} is for {chip}, not for {wanted}: build it for {wanted}")
    if chip == "aarch64" and found.shown:
        return Finding(
            "error", f"{called} shows its names, and there a call of one crashes: build it with -fvisibility=hidden"
        )
    return Finding("ok", f"{called} is there, for {chip}, {'as shipped' if recorded else 'no hash is recorded'}")


def check_processor(
    text: str, tools: Tools, target: Target, *, name: str, flags: Sequence[str] | None = None
) -> Iterator[Finding]:
    """Checks the processor that an executable names. It must be that of a compile with `flags` (None: the target's):
    IREE links executables of one target together, and a module with two targets compiles but does not run."""
    made_for = _processor(text, name=name)
    if not made_for:
        return
    source = problem_mlir(Gemm.parse(shape="4x4x4", dtype="f32"))
    given = target.compile_flags if flags is None else tuple(flags)
    now = inspect(Compile(source, given, 60, stop="executable-configurations"), tools).text
    other = sorted(made_for ^ _processor(now, name="the compiler's output"))
    if other:
        more = f" and {len(other) - 3} more" if len(other) > 3 else ""
        words = (
            f"its executable was made for another processor or by another release of IREE: only one of it and IREE "
            f"{tools.release} for {target.name} names {', '.join(other[:3])}{more}: `autotune retune` searches it again"
        )
        yield Finding("error", words)
    else:
        yield Finding("ok", f"its executable is for this processor ({target.machine})")


def _processor(text: str, *, name: str) -> frozenset[str]:
    """Machine and signed features of the first executable in a module; empty where there are none."""
    with ir.Context() as context:
        module = parse_spec(text, context, name=name)
        for op in walk(module.operation):
            if op.name == "hal.executable.variant":
                table = target_table(str(op.attributes["target"]))
                said = {entry.name: str(entry.attr).strip('"') for entry in table}
                machine = said.get("target_triple", "").partition("-")[0]
                return frozenset(filter(None, (machine, *said.get("cpu_features", "").split(","))))
    return frozenset()


@dataclass(frozen=True, slots=True)
class Report:
    """All findings; `uses` is there only with a program."""

    path: Path
    file: SpecFile
    findings: tuple[Finding, ...]
    uses: tuple[EntryUse, ...] | None = None

    @property
    def sound(self) -> bool:
        return all(finding.level != "error" for finding in self.findings)

    @property
    def matches(self) -> bool:
        """Whether an entry applies; true without a program."""
        return self.uses is None or any(use.dispatches for use in self.uses)

    def to_json(self) -> dict[str, Any]:
        uses = None if self.uses is None else [use.to_json() for use in self.uses]
        return {
            "spec": str(self.path),
            "kind": self.file.kind,
            "entries": [entry.to_json() for entry in self.file.entries],
            "sound": self.sound,
            "findings": [finding.to_json() for finding in self.findings],
            "applied": uses,
        }


def check(
    path: Path,
    *,
    tools: Tools,
    model: Path | None = None,
    target: Target | None = None,
    trust: bool = False,
    timeout: float = SECONDS,
) -> Report:
    """Checks a spec with its files; with a `model`, also which entries apply there.

    The target is the one given, or that of the flagfile, or the one that the spec records. Without `trust`, whatever in
    these files could start a program or write a file is refused.
    """
    text = read_text(path)
    file = read_spec(text, name=str(path), trust=trust)
    flagfile = Flagfile.beside(path, trust=trust, known=target.user_flags if target else ())
    if flagfile is not None and not trust:
        refuse_executables(flagfile)
    shipped = _Shipped(path.absolute(), file, flagfile, target)
    findings = [
        Finding("ok", f"{file.what} with {len(file.entries)} {'entry' if len(file.entries) == 1 else 'entries'}"),
        *_versions(file, tools),
        *_flagfile(shipped),
    ]
    if file.carrier.brings_objects:
        findings += check_objects(file, shipped.objects, shipped.target)
        if shipped.on_processor:
            processor = target if target is not None and target.backend.on_host else Target.parse("cpu")
            flags = flagfile.others if flagfile is not None and target is None else None
            findings += check_processor(text, tools, processor, name=str(path), flags=flags)
    report = Report(path, file, tuple(findings))
    if model is None:
        return report
    if not model.is_file():
        raise UsageError(f"{model} is not a file.", remedy="Name the program that the spec is for (.mlir, .mlirbc).")
    if model.suffix == ".onnx":
        raise UsageError(
            f"{model} is an ONNX file: a spec is checked in what IREE imports.",
            remedy="Name the program on the `use` line (in candidates/models), or what iree-import-onnx makes.",
        )
    if not trust:
        vet_program(model, tools)
    uses = applied(text, model, shipped.compile_flags, tools, objects=shipped.objects, timeout=timeout)
    return replace(report, uses=uses)


def _versions(file: SpecFile, tools: Tools) -> list[Finding]:
    made = [entry.provenance for entry in file.entries if entry.provenance and entry.provenance.iree]
    found = sorted({provenance.iree for provenance in made})
    if not found:
        return [Finding("note", f"it does not say for which IREE it was made; IREE {tools.release} reads it")]
    again = "`autotune retune` proves and times it again"
    if found != [tools.release]:
        return [Finding("note", f"made for IREE {', '.join(found)}, this is {tools.release}: {again}")]
    return [Finding("ok", f"made for IREE {tools.release}")]


@dataclass(frozen=True)
class _Shipped:
    """A spec with its flagfile, and the target that the user gives."""

    path: Path
    file: SpecFile
    flagfile: Flagfile | None
    given: Target | None

    @cached_property
    def target(self) -> Target | None:
        """The user's target, or the one that all entries record; None: unknown."""
        names = {p.target for entry in self.file.entries if (p := entry.provenance) and p.target}
        try:
            return self.given or (Target.parse(names.pop()) if len(names) == 1 else None)
        except UsageError:
            return None

    @property
    def objects(self) -> Path:
        return objects_folder(self.path, self.flagfile)

    @property
    def on_processor(self) -> bool:
        if self.target is not None:
            return self.target.backend.on_host
        return self.flagfile is not None and bool(set(LLVM_CPU.more_flags) & set(self.flagfile.flags))

    @property
    def compile_flags(self) -> tuple[str, ...]:
        """The other flags of a compile with this spec, with those of microkernels beside it."""
        chosen = self.given or (None if self.flagfile else self.target)
        if chosen is None and self.flagfile is None:
            raise UsageError(f"{self.path} does not say for which target it is.", remedy="Give --target.")
        flags = chosen.compile_flags if chosen is not None else self.flagfile.others if self.flagfile else ()
        kernels = self.flagfile.kernels if self.flagfile and not self.file.carrier.brings_objects else ()
        objects = (f"{OBJECTS_FLAG}={self.objects.absolute()}",) if kernels else ()
        return (*flags, *(f"{SPEC_FLAG}={spec}" for spec in kernels), *objects)

    @property
    def carried(self) -> list[str]:
        """The flags that carry this spec."""
        flags = self.flagfile.flags if self.flagfile else ()
        spec_flag = self.target.spec_flag if self.target else tuning_flag(flags)
        return self.file.flags(self.path, spec_flag=spec_flag, objects=self.objects)


def _flagfile(shipped: _Shipped) -> list[Finding]:
    """Whether the flagfile names these files by flags that work on the target; else the lines that it lacks."""
    flagfile, wanted = shipped.flagfile, shipped.carried
    if flagfile is None:
        words = f"there is no {beside(shipped.path, '.flags').name}: a compile needs the target's and"
        return [Finding("note", words, _lines(wanted))]
    if shipped.target is not None and not shipped.target.backend.on_host:
        wanted = [*shipped.target.flags, *wanted]
    name, there = flagfile.path.name, set(map(_resolved, flagfile.flags))
    gone = [flag for flag in flagfile.flags if (file := split_file(flag)[1]) and not Path(file).exists()]
    lacking = [flag for flag in wanted if _resolved(flag) not in there]
    found = [Finding("error", f"{name}: {printable(flag)} names what is not there: take it out") for flag in gone]
    if lacking:
        found.append(Finding("error", f"{name} lacks what carries this spec to its target", _lines(lacking)))
    return found or [Finding("ok", f"{name} names this spec by the right flag")]


def _lines(flags: Sequence[str]) -> tuple[str, ...]:
    return tuple(flagfile_text(flags).splitlines())


def _resolved(flag: str) -> tuple[str, str]:
    """A flag without its file, and that file resolved."""
    head, file = split_file(flag)
    return head, str(Path(file).resolve()) if file else ""


def refuse_executables(flagfile: Flagfile) -> None:
    """Vets the executables that a flagfile would substitute, and its microkernels' spec."""
    for spec in map(Path, flagfile.kernels):
        if spec.is_file():
            vet_file(spec)
    for folder in map(Path, flagfile.executables):
        for path in executables_in(folder) if folder.is_dir() else ():
            vet_file(path)


def objects_folder(path: Path, flagfile: Flagfile | None) -> Path:
    """The folder of objects: beside the spec, else where the flagfile says."""
    own = beside(path, ".objects")
    if own.is_dir() or flagfile is None:
        return own
    return next((Path(folder) for folder in flagfile.folders if Path(folder).is_dir()), own)
