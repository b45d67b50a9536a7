"""The objects of a microkernel spec: are they there, are they the ones that were shipped, do they run here?"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from iree.compiler import ir

from autotuner.errors import UsageError
from autotuner.iree.compile import Compile, inspect
from autotuner.iree.mlir import walk
from autotuner.iree.objects import read_object, shows_names
from autotuner.iree.processor import target_table
from autotuner.iree.tools import Tools
from autotuner.microkernels.check import runs_on
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.specfiles.entries import SpecFile, parse_spec
from autotuner.system.text import printable
from autotuner.targets import Target
from autotuner.targets.backends import backend_of
from autotuner.targets.naming import which_device

Level = Literal["ok", "note", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    text: str
    lines: tuple[str, ...] = ()
    """What a file should have instead."""
    renewable: bool = False
    """`autotune retune` makes it right without a search."""

    def to_json(self) -> dict[str, Any]:
        return {"level": self.level, "text": self.text, **({"lines": list(self.lines)} if self.lines else {})}


def check_objects(file: SpecFile, folder: Path, target: Target | None) -> Iterator[Finding]:
    """Each object that a microkernel spec names, in the folder where it should be."""
    for name in dict.fromkeys(name for entry in file.entries for name in entry.objects):
        path, called = folder / name, f"object {printable(name)}"
        if Path(name).name != name:
            yield Finding("error", f"{called} is named by a path: it cannot move with the spec")
        elif not path.is_file():
            yield Finding("error", f"{called} is not in {folder}: copy it there")
        else:
            yield _object(path, called, file.hashes.get(name), target)


def _object(path: Path, called: str, recorded: str | None, target: Target | None) -> Finding:
    data = path.read_bytes()
    digest = hashlib.sha256(data).hexdigest()
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
    if chip == "aarch64" and shows_names(data):
        return Finding(
            "error", f"{called} shows its names, and there a call of one crashes: build it with -fvisibility=hidden"
        )
    return Finding("ok", f"{called} is there, for {chip}, {'as shipped' if recorded else 'no hash is recorded'}")


def check_processor(
    text: str, tools: Tools, target: Target, *, name: str, flags: Sequence[str] | None = None
) -> Iterator[Finding]:
    """A processor's executable names the machine that it was made for, down to its instructions. IREE's own have the
    names that a compile with `flags` (those of the target, where they are None) gives them today."""
    made_for = _processor(text, name=name)
    if made_for is None:
        return
    if not made_for[0]:
        yield Finding("note", "its executable does not say for which processor it is")
        return
    (machine, needed), (here, there) = made_for, _compiled_for(target, tools, flags)
    whose = "the target's" if target.foreign else "this"
    lacking = sorted(_present(needed) - _present(there))
    if machine != here:
        yield Finding("error", f"its executable is for {machine}, {whose} processor is {here}: run `autotune ab` there")
    elif lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        yield Finding(
            "error",
            f"its executable needs {', '.join(lacking[:3])}{more}, "
            f"which {whose} processor lacks: run `autotune ab` there",
        )
    elif differing := sorted(needed ^ there):
        # IREE links the executables of one target together: a module that has two of them compiles, and does not run.
        more = f" and {len(differing) - 3} more" if len(differing) > 3 else ""
        yield Finding(
            "error",
            f"its executable was made by another release of IREE or for another processor: only one of it and IREE "
            f"{tools.release} names {', '.join(differing[:3])}{more}. A module with executables of both compiles and "
            "does not run: `autotune retune` writes it anew",
            renewable=True,
        )
    else:
        yield Finding("ok", f"its executable is for {whose} processor ({here})")


def _processor(text: str, *, name: str) -> tuple[str, frozenset[str]] | None:
    """(machine, features with their signs) of the first executable in a module; nothing where it does not say."""
    with ir.Context() as context:
        module = parse_spec(text, context, name=name)
        for op in walk(module.operation):
            if op.name == "hal.executable.variant":
                given = {entry.name: _text(entry.attr) for entry in target_table(str(op.attributes["target"]))}
                machine = given.get("target_triple", "").partition("-")[0]
                return machine, frozenset(filter(None, given.get("cpu_features", "").split(",")))
    return None


def _present(features: frozenset[str]) -> set[str]:
    """Those that a processor must have; a release also names those that it has not."""
    return {feature[1:] for feature in features if feature.startswith("+")}


def _text(attribute: Any) -> str:
    return str(attribute.value) if isinstance(attribute, ir.StringAttr) else ""


def _compiled_for(target: Target, tools: Tools, flags: Sequence[str] | None) -> tuple[str, frozenset[str]]:
    """The same of what the compiler makes code for."""
    source = problem_mlir(Gemm.parse(shape="4x4x4", dtype="f32"))
    given = target.compile_flags if flags is None else tuple(flags)
    text = inspect(Compile(source, given, 60, stop="executable-configurations"), tools).text
    return _processor(text, name="the compiler's output") or (target.machine, frozenset())
