"""What tuning found for single dispatches, put into the whole model: one spec, a folder of executables, the proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from autotuner._version import __version__
from autotuner.build.builder import proven
from autotuner.carriers.flags import SUBSTITUTIONS
from autotuner.carriers.provenance import Provenance, today
from autotuner.carriers.substitution import Executable
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.jobs.model.extract import Group, Piece
from autotuner.jobs.model.program import ProgramBuild
from autotuner.specfiles.merge import merge
from autotuner.system.names import is_component
from autotuner.system.text import short
from autotuner.system.workspace import write_whole
from autotuner.tuning.plan import Candidate, Plan
from autotuner.tuning.result import Result


@dataclass(frozen=True)
class Entry:
    """A dispatch, or several with the same root, that is better off with this configuration."""

    label: str
    group: Group
    piece: Piece
    """The one that was tuned, for all of them."""
    share: float
    result: Result
    plan: Plan = field(repr=False)
    candidate: Candidate = field(repr=False)

    @property
    def substituted(self) -> bool:
        return self.candidate.carrier == "substitution"

    def provenance(self, command: str, tools: Tools) -> Provenance:
        result, speedup = self.result, self.result.speedup
        return Provenance(
            problem=self.label,
            target=result.target,
            device=result.device,
            iree=tools.release,
            compiler=tools.build,
            verdict="win" if result.verdict == "win" else "judged in the model",
            us=result.best.us if result.best else None,
            baseline_us=result.baseline.us,
            low=speedup.low if speedup else None,
            median=speedup.median if speedup else None,
            high=speedup.high if speedup else None,
            date=today(),
            command=command,
        )


@dataclass(frozen=True)
class Assembly:
    """The files of a tuned model, as texts."""

    spec: str | None
    executables: Mapping[str, str] = field(default_factory=dict)
    """Configured executables by name: what a spec cannot carry."""

    def write(
        self, spec: Path, folder: Path, *, spec_flag: str, put: Callable[[Path, str], None] = write_whole
    ) -> list[str]:
        """Puts them where they belong; gives the flags that carry them into a compile."""
        flags = []
        if self.spec is not None:
            put(spec, self.spec)
            flags.append(f"{spec_flag}={spec.absolute()}")
        if self.executables:
            for name, text in self.executables.items():
                if not is_component(name):
                    raise UsageError(f"the dispatch {short(name)} cannot name a file.", remedy="Rename its function.")
                put(folder / f"{name}.mlir", text)
            flags.append(f"{SUBSTITUTIONS}={folder.absolute()}")
        return flags


def assemble(entries: Sequence[Entry], configured: Mapping[str, str], *, tools: Tools, command: str) -> Assembly:
    """One spec of all entries that a spec carries; the model's own executables, configured, for the others."""
    texts = [
        text
        for entry in entries
        if not entry.substituted
        and (text := entry.plan.spec(entry.candidate, provenance=entry.provenance(command, tools))) is not None
    ]
    spec = merge(texts, tools=tools, force=True).text if texts else None
    executables = {}
    for entry in entries:
        if not entry.substituted:
            continue
        for symbol in entry.group.symbols:
            plan = entry.plan.with_executable(entry.candidate.route.name, Executable(symbol, configured[symbol]))
            header = [f"Configured executable, to be substituted, by autotune {__version__}"]
            text = plan.spec(entry.candidate, header=header, provenance=entry.provenance(command, tools))
            if text is not None:
                executables[symbol] = text
    return Assembly(spec, executables)


def applied(build: ProgramBuild, entry: Entry) -> tuple[int, str]:
    """In how many of its dispatches an entry's configuration really is, and what is wrong with the first other one."""
    if entry.candidate.info is None:
        return 0, "it has no configuration"
    count, wrong = 0, ""
    for symbol in entry.group.symbols:
        text = build.executables.get(symbol)
        found, why = proven([text], entry.candidate.info) if text is not None else (0, "the model does not have it")
        count += bool(found)
        wrong = wrong or ("" if found else f"{symbol}: {why}")
    return count, wrong


def carriers(entries: Iterable[Entry]) -> dict[str, int]:
    """How many entries each way of carrying has."""
    counts: dict[str, int] = {}
    for entry in entries:
        counts[entry.candidate.carrier] = counts.get(entry.candidate.carrier, 0) + 1
    return counts
