"""What tuning found for single dispatches, put into the whole model: one spec, a folder of executables, the proof."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autotuner._version import __version__
from autotuner.build.proof import proven
from autotuner.carriers.carrier import FlagsCarrier, Parts, Said, SpecCarrier, SubstitutionCarrier
from autotuner.carriers.provenance import Provenance
from autotuner.iree.compile import Compiled
from autotuner.iree.tools import Tools
from autotuner.programs.flow import FlowDispatch, Group
from autotuner.specfiles.merge import merge
from autotuner.tuning.plan import Candidate
from autotuner.tuning.result import Result
from autotuner.tuning.ship import ESTIMATED


@dataclass(frozen=True)
class Entry:
    """A dispatch, or several with the same root, that is better off with this configuration."""

    label: str
    group: Group
    piece: FlowDispatch
    """The one that was tuned, for all of them."""
    share: float
    result: Result
    candidate: Candidate = field(repr=False)

    @property
    def gain(self) -> float:
        """The part of its own time that it saves alone."""
        return gain_of(self.result)

    def provenance(self, command: str, tools: Tools) -> Provenance:
        result = self.result
        return Provenance(
            problem=self.label,
            target=result.target,
            device=result.device,
            verdict=_verdict(result),
            us=result.best.us if result.best else None,
            baseline_us=result.baseline.us,
            command=command,
        ).stamped(tools, result.speedup, result.environment if result.best and result.best.us else None)


def _verdict(result: Result) -> str:
    if result.verdict == "compile-only":
        return ESTIMATED
    return "win" if result.verdict == "win" else "judged in the model"


def gain_of(result: Result) -> float:
    """The part of the default's time that the best saves; 0 where that is not known."""
    best, baseline = result.best, result.baseline.us
    return max(1 - best.us / baseline, 0.0) if best is not None and best.us and baseline else 0.0


def assemble(
    entries: Sequence[Entry], configured: Mapping[str, str], *, tools: Tools, command: str, spec_flag: str
) -> Parts:
    """One spec of all entries that a spec carries; the model's own executables, configured, for the others."""
    texts: list[str] = []
    executables: dict[str, str] = {}
    for entry in entries:
        carrier = entry.candidate.carrier
        said = Said([f"{carrier.title} by autotune {__version__}"], entry.provenance(command, tools))
        parts = carrier.parts_in({symbol: configured[symbol] for symbol in entry.group.symbols}, said)
        texts += [parts.spec] if parts.spec is not None else []
        executables.update(parts.executables)
    spec = merge(texts, tools=tools, force=True).text if texts else None
    main = SpecCarrier if texts else SubstitutionCarrier if executables else FlagsCarrier
    return Parts(main.name, spec, spec_flag, executables)


def applied(build: Compiled, entry: Entry) -> tuple[int, str]:
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
        name = entry.candidate.carrier.name
        counts[name] = counts.get(name, 0) + 1
    return counts
