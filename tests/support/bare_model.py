"""A model's run without a compiler: a context whose clock is moved by hand, and modules with chosen times."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

from autotuner.build import Compiled
from autotuner.devices.device import Device, Module, Timing
from autotuner.iree.compile import PREPROCESSED
from autotuner.iree.run import Benchmark, DispatchTime, Invocation
from autotuner.jobs.model.contestant import Contestant
from autotuner.jobs.model.context import Context
from autotuner.jobs.model.entries import KernelEntry, Place
from autotuner.jobs.model.routes import RouteRace
from autotuner.measure.clock import Clock
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.microkernels.variants import Variants
from autotuner.patterns.forms import Forms
from autotuner.problems import Gemm
from autotuner.problems.operations import OPERATIONS
from autotuner.programs.flow import Flow, FlowDispatch, Group
from autotuner.programs.model import Model, ModelBuilder
from autotuner.programs.program import ModelProgram
from autotuner.programs.signature import Signature
from autotuner.programs.structure import ModelStructure
from autotuner.registry import Registry
from autotuner.registry.folder import Known
from autotuner.store.store import Store
from autotuner.system.progress import Stop
from autotuner.system.workspace import Workspace
from autotuner.targets import Route, Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Run
from autotuner.tuning.session import Session
from tests.support.bare_device import BareDevice
from tests.support.clocks import Simulated
from tests.support.fake_tools import ONE_ROUTE

BENCHMARK = Benchmark(Invocation("main", (), ("f32",)), 0.05, 60)
NOTHING = ModelStructure(Flow(Signature("main", (), ()), ()), (), (), {})
SGEMM = load(shipped_folder() / "sgemm_c" / FILE, OPERATIONS)


@dataclass
class Rows:
    """What would be written into the results database."""

    timings: list[tuple[int, str, int]] = field(default_factory=list)

    def record_timing(self, row: int, timing: Timing, *, phase: str, block: int) -> None:
        del timing
        self.timings.append((row, phase, block))


@dataclass
class Scripted(BareDevice):
    """Times modules, by their names, as chosen: one time after the other, the last one for ever; infinity fails."""

    us: Mapping[str, list[float]]

    @property
    def isolated(self) -> Device:
        return self

    def time(self, module: Module, benchmark: Benchmark, **_: object) -> Timing:
        del benchmark
        times = self.us[module.vmfb.name]
        one = times.pop(0) if len(times) > 1 else times[0]
        return Timing((one,)) if one < float("inf") else Timing((), failure="run-error", detail="it failed")


class BareContext(Context):
    """A context without a run."""

    known: Known | None = None

    @property
    def known_route(self) -> Known | None:
        return self.known

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        options: Options | None = None,
        target: Target = ONE_ROUTE,
        device: BareDevice | None = None,
        model: Model | None = None,
        timed: bool = True,
        root: Path = Path(),
    ) -> None:
        super().__init__(model or Model(Path("m.mlir")), cast(ModelBuilder, None), cast(Run, None), cast(Any, None))
        self.said: list[str] = []
        self.rows = Rows()
        self._clock = clock or Simulated(1e6)
        self._options, self._target, self._timed = options or Options(), target, timed
        self._session = Session(
            "none",
            cast(Any, None),
            Stop(),
            cast(Any, None),
            Workspace(root),
            cast(Store, self.rows),
            cast(Any, None),
            cast(Any, _Devices(device or BareDevice())),
            jobs=16,
            chip="x86_64",
        )

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def options(self) -> Options:
        return self._options

    @property
    def target(self) -> Target:
        return self._target

    @property
    def session(self) -> Session:
        return self._session

    @property
    def timed(self) -> bool:
        return self._timed

    @property
    def folder(self) -> Path:
        return self._session.workspace.root

    @property
    def registry(self) -> Registry:
        return Registry()

    def note(self, text: str) -> None:
        self.said.append(text)

    def stage(self, text: str) -> None:
        del text

    trying = stage

    def clocked(self, what: str) -> AbstractContextManager[None]:
        del what
        return nullcontext()

    def structure(self, build: Compiled) -> ModelStructure:
        del build
        return NOTHING


@dataclass
class _Devices:
    first: BareDevice


def module(name: str, *, text: str = "", seconds: float = 1.0) -> Compiled:
    """A module that was compiled from this program."""
    built = Compiled(None, "", seconds, (), Path(name), took=seconds)
    return replace(built, dumped={PREPROCESSED: (text,)})


def tried(route: Route, us: float | None, *, wrong: bool = False, text: str = "") -> Contestant:
    """A route that was timed."""
    made = Contestant.of(route, 1, module(route.name, text=text))
    return replace(made, us=us, failure="wrong-result" if wrong else None)


def race_of(context: BareContext, *some: Contestant) -> RouteRace:
    """After these routes."""
    return RouteRace(context, BENCHMARK, cast(ModelProgram, None), tried=[*some])


def piece(export: str, *, calls: int = 1) -> FlowDispatch:
    return FlowDispatch("symbol", export, "", "", (), (), (), (), calls)


def group(*exports: str) -> Group:
    """Dispatches of these names with one root, which nobody looks at."""
    return Group(cast(Any, None), tuple(map(piece, exports)))


def kernel(problem: Gemm, *exports: str, calls: int = 1) -> KernelEntry:
    """A kernel at a place whose dispatches have these names."""
    place = Place(problem, Forms(()), calls, ("sgemm_c",), True, group(*exports) if exports else None)
    variants = Variants.of(SGEMM, problem, "x86_64", workspace=Path(), first={})
    return KernelEntry(problem.name, place, variants, variants.default())


def statistics(us: Mapping[str, float]) -> dict[str, DispatchTime]:
    return {name: DispatchTime(one) for name, one in us.items()}
