"""From a problem on a target to its candidates: the baseline, the stock routes, and the space of specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Literal

from autotuner.build import Builder, CompilerRefusal, first_error
from autotuner.errors import NoCandidateError, UsageError
from autotuner.mlir import Dispatch, read_cpu_facts, read_root
from autotuner.problems import Problem
from autotuner.render import cpu_compilation_info, problem_mlir, spec_mlir
from autotuner.settings import usable_cores
from autotuner.space import ABSENT, Config, Space, Value
from autotuner.space.cpu import CpuSpace
from autotuner.space.gpu import CompilationInfo, GpuSpace
from autotuner.targets import PLAIN, Route, Target

Kind = Literal["baseline", "stock", "codegen"]
BASELINE = "baseline"
_ROOT = "--iree-codegen-add-tuner-attributes"
_CONSTRAINTS = "--iree-codegen-emit-pipeline-constraints"
_SPEC_COMPLEXITY = 100
"""A spec is a file to keep and to renew with the compiler: any stock route is simpler than any spec."""


@dataclass(frozen=True)
class Candidate:
    """Something that can be compiled and timed."""

    id: str
    kind: Kind
    route: Route
    complexity: int
    config: Config = field(default_factory=lambda: Config(()))
    info: CompilationInfo | None = None
    dispatch: Dispatch | None = None

    @property
    def knobs(self) -> dict[str, Value]:
        """The configuration without the knobs that this candidate's route or pipeline does not have."""
        return {name: value for name, value in self.config.items if value != ABSENT}


@dataclass(frozen=True)
class Plan:
    """All that can be tried for one problem on one target."""

    problem: Problem
    target: Target
    source: str
    baseline: Candidate
    stock: tuple[Candidate, ...]
    space: Space
    first: tuple[Config, ...]
    """The compiler's own choices, as configurations: what the search begins with."""
    cpu: Mapping[str, CpuSpace]
    """The declared spaces, by route; empty on GPUs."""
    gpu: GpuSpace | None
    dispatch: Dispatch | None
    """The operation that a GPU's spec matches; on a processor each route has its own."""
    notes: tuple[str, ...] = ()

    @classmethod
    def make(cls, problem: Problem, target: Target, builder: Builder, executor: Executor, *, timeout: float) -> Plan:
        """Reads the dispatch of every route from the compiler, and the space that belongs to it."""
        source = problem_mlir(problem)
        jobs = {
            route: executor.submit(
                builder.inspect, source, [*target.compile_flags, *route.flags, _ROOT], timeout=timeout
            )
            for route in target.routes
        }
        texts: dict[Route, str] = {}
        for route, job in jobs.items():
            try:
                texts[route] = job.result()
            except CompilerRefusal as refusal:
                if route == PLAIN:
                    raise _refused(refusal, target, problem) from refusal
        base = Candidate(BASELINE, "baseline", PLAIN, complexity=0)
        stock = tuple(
            Candidate(f"stock-{i}", "stock", route, complexity=len(route.flags))
            for i, route in enumerate(target.routes)
            if route != PLAIN
        )
        if target.backend == "cpu":
            space, first, cpu, notes = _cpu_part(texts, target)
            return cls(problem, target, source, base, stock, space, first, cpu, None, None, notes)
        dispatch = read_root(texts[PLAIN])
        space, first, gpu, notes = _gpu_part(problem, target, builder, timeout=timeout)
        return cls(problem, target, source, base, stock, space, first, {}, gpu, dispatch, notes)

    def candidate(self, config: Config, *, id: str) -> Candidate:
        """The candidate that this configuration means."""
        if self.gpu is not None:
            info = self.gpu.compilation_info(config)
            changed = self._changed(config, route=None)
            return Candidate(id, "codegen", PLAIN, _SPEC_COMPLEXITY + changed, config, info, self.dispatch)
        route = next(r for r in self.target.routes if r.name == config["route"])
        part = self.cpu[route.name]
        info = cpu_compilation_info(part.tiling(config))
        complexity = _SPEC_COMPLEXITY + len(route.flags) + self._changed(config, route=route.name)
        return Candidate(id, "codegen", route, complexity, config, info, part.dispatch)

    def flags(self, candidate: Candidate) -> tuple[str, ...]:
        return self.target.compile_flags + candidate.route.flags

    def spec(self, candidate: Candidate, *, header: Sequence[str] = ()) -> str | None:
        """The text of the spec that a candidate needs, or None when it needs none."""
        if candidate.info is None or candidate.dispatch is None:
            return None
        return spec_mlir(name=self.problem.name, dispatch=candidate.dispatch, info=candidate.info, header=header)

    def _changed(self, config: Config, *, route: str | None) -> int:
        """In how many knobs a configuration differs from the compiler's own choice on its route."""
        own = [f for f in self.first if route is None or f["route"] == route]
        return min((sum(a != b for a, b in zip(config.items, f.items, strict=True)) for f in own), default=0)


def _cpu_part(
    texts: Mapping[Route, str], target: Target
) -> tuple[Space, tuple[Config, ...], Mapping[str, CpuSpace], tuple[str, ...]]:
    parts: dict[str, CpuSpace] = {}
    notes = []
    for route in target.routes:
        if not route.reachable or route not in texts:
            continue
        root = read_root(texts[route])
        part = CpuSpace.declare(root, read_cpu_facts(texts[route]), cores=usable_cores()) if root else None
        if part is None or not len(part.space):
            notes.append(f"route {route.name}: no knobs for its dispatch, only its default competes")
        else:
            parts[route.name] = part
    if not parts:
        return Space.empty(), (), {}, tuple(notes)
    space = Space.join("route", {name: part.space for name, part in parts.items()})
    first = []
    for name, part in parts.items():
        default = part.default()
        if default is not None:
            first.append(space[space.nearest({"route": name, **default.as_dict()})])
    return space, tuple(first), parts, tuple(notes)


def _gpu_part(
    problem: Problem, target: Target, builder: Builder, *, timeout: float
) -> tuple[Space, tuple[Config, ...], GpuSpace | None, tuple[str, ...]]:
    # IREE 3.13 crashes when it emits constraints for a batched contraction. A batch entry's own constraints are the
    # same, with one more loop in front.
    single, loops = problem.unbatched()
    try:
        text = builder.inspect(problem_mlir(single), [*target.compile_flags, _ROOT, _CONSTRAINTS], timeout=timeout)
    except CompilerRefusal as refusal:
        return Space.empty(), (), None, (f"the compiler gives no constraints: {first_error(refusal.stderr)}",)
    try:
        gpu = GpuSpace.read(text, vendor="amd" if target.backend == "rocm" else "nvidia", batch=loops)
        space = gpu.space
    except NoCandidateError as error:
        return Space.empty(), (), None, (error.message,)
    default = gpu.default()
    return space, (default,) if default else (), gpu, ()


def _refused(refusal: CompilerRefusal, target: Target, problem: Problem) -> Exception:
    words = first_error(refusal.stderr)
    if target.user_flags:
        flags = " ".join(target.user_flags)
        return UsageError(f"iree-compile refused this problem with {flags}: {words}", remedy="Check --flag.")
    return NoCandidateError(
        f"iree-compile cannot compile {problem.name} for {target.name}: {words}",
        remedy="Try another shape, type or target.",
    )
