"""Writes the entries that stay, and compiles once more: that must give the code that was raced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path

from autotuner.build import BuildJob
from autotuner.build.ship import ship_together
from autotuner.carriers.carrier import FLAGS, Parts
from autotuner.carriers.microkernel import SPEC_FLAG
from autotuner.carriers.outputs import MODEL, Outputs
from autotuner.carriers.provenance import Provenance, heading, machine_of, today
from autotuner.carriers.render import SUBSTITUTION
from autotuner.errors import EnvironmentFailure
from autotuner.iree.compile import Compiled
from autotuner.jobs.retune.plan import Part, Wanted
from autotuner.jobs.retune.result import Written
from autotuner.jobs.retune.unit import Key, Unit
from autotuner.programs.model import whole_job
from autotuner.specfiles.renew import renew
from autotuner.system.text import count
from autotuner.tuning.result import Files
from autotuner.tuning.run import Run


class OtherCodeError(EnvironmentFailure):
    """What is written anew is not the code that was raced; other files may be."""


@dataclass(frozen=True)
class Writer:
    """Writes the files of one run."""

    run: Run
    wanted: Wanted

    def place(self, unit: Unit, name: str = "") -> Outputs:
        """Where a unit goes, or (by its name) something that was found for one of its problems."""
        workspace = self.run.session.workspace
        spec = self.run.options.output or workspace.specs / "retuned" / f"{unit.name}.mlir"
        spec = spec.with_stem(f"{spec.stem}-{name}") if name else spec
        return Outputs.at(spec, workspace, MODEL, force=self.run.options.force)

    def claim(self, units: Sequence[Unit]) -> None:
        """Claims the places of all files before anything is compiled."""
        for unit in units:
            self.place(unit).claim(unit.reads)

    def write(self, unit: Unit, kept: Mapping[Key, Provenance], raced: Mapping[str, tuple[Part, str]]) -> Written:
        """The entries that stay, each with what it says of itself from now on.

        What gives a program other code than was `raced` is not left behind.
        """
        run, place = self.run, self.place(unit)
        parts = _parts(unit, kept, self._header(unit, kept), spec_flag=run.target.spec_flag)
        shipped, lost = ship_together(
            place,
            parts,
            unit.flagfile.others if unit.flagfile else run.target.compile_flags,
            compiles=lambda flagfile: {name: self._compile(part, flagfile) for name, (part, _) in raced.items()},
            binaries={name: binary for name, (_, binary) in raced.items()},
        )
        if shipped is None or lost:
            place.clear()
            reasons = "; ".join(f"{name}: {why}" for name, why in lost.items())
            raise OtherCodeError(f"{reasons}.", remedy="Please report it with the specs.")
        return Written(unit.spec, Files(shipped.spec, shipped.flagfile, shipped.carrier))

    def _compile(self, part: Part, flagfile: Path) -> Future[Compiled]:
        """The result of a user's compile."""
        run = self.run
        program, own = part.program(run.session, run.target)
        flags, timeout, executor = (*own, f"@{flagfile}"), run.options.effort.compile_timeout, run.session.executor
        if isinstance(program, str):
            return executor.start(BuildJob(program, flags, timeout))
        return executor.start(whole_job(program, flags, timeout=timeout))

    def _header(self, unit: Unit, kept: Mapping[Key, Provenance]) -> list[str]:
        allow = self.wanted.allow
        said = {
            "target": self.run.target.name,
            "machine": machine_of(self.run.environment) or "none",
            "from": str(unit.spec),
            "date": today(),
            "made by": self.run.command,
            "precision": f"results of {allow} accuracy were accepted" if allow else "",
        }
        title, *lines = heading("Spec", self.run.session.tools, said)
        return [f"{title}, retuned: {count(len(kept), 'entry')}", *lines]


def _parts(unit: Unit, kept: Mapping[Key, Provenance], header: Sequence[str], *, spec_flag: str) -> Parts:
    """The files of a unit with the entries that stay."""
    parts = Parts(FLAGS.name)
    for path, file in unit.files.items():
        own = [entry for entry in file.entries if (path, entry.id) in kept]
        if not own:
            continue
        text = renew(path, {entry.id: kept[path, entry.id] for entry in own}, header=header)
        carrier = file.carrier
        if carrier.brings_objects:
            names = dict.fromkeys(name for entry in own for name in entry.objects)
            objects = tuple((unit.objects or path.parent) / name for name in names)
            parts = parts.with_kernels(Parts(carrier.name, text, SPEC_FLAG, objects=objects))
        elif not carrier.by_name:
            parts = replace(parts, carrier=carrier.name, spec=text, spec_flag=spec_flag)
        elif path == unit.spec:
            flag = f"{SUBSTITUTION}={file.entries[0].name}"
            parts = replace(parts, carrier=carrier.name, spec=text, spec_flag=flag)
        else:
            main = parts.carrier if parts.spec is not None else carrier.name
            parts = replace(parts, carrier=main, executables={**parts.executables, path.stem: text})
    return parts
