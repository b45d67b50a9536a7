"""From a problem on a target to its candidates: the baseline, the stock routes, and the space of specs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

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
    gpu: GpuSpace | None
    dispatch: Dispatch | None
    notes: tuple[str, ...] = ()

    @classmethod
    def make(cls, problem: Problem, target: Target, builder: Builder, executor: Executor, *, timeout: float) -> Plan:
        source = problem_mlir(problem)
        flags = [_ROOT] if target.backend == "cpu" else [_ROOT, _CONSTRAINTS]
        routes = target.routes
        jobs = [
            executor.submit(builder.inspect, source, [*target.compile_flags, *r.flags, *flags], timeout=timeout)
            for r in routes
        ]
        texts: dict[str, str] = {}
        for route, job in zip(routes, jobs, strict=True):
            try:
                texts[route.name] = job.result()
            except CompilerRefusal as refusal:
                if route == PLAIN:
                    raise _refused(refusal, target, problem) from refusal
        base = Candidate(BASELINE, "baseline", PLAIN, complexity=0)
        stock = tuple(
            Candidate(f"stock-{i}", "stock", route, complexity=len(route.flags))
            for i, route in enumerate(routes)
            if route != PLAIN
        )
        make = _cpu_part if target.backend == "cpu" else _gpu_part
        space, first, cpu, gpu, notes = make(texts, target)
        dispatch = read_root(texts[PLAIN.name]) if gpu is not None else None
        return cls(problem, target, source, base, stock, space, first, cpu, gpu, dispatch, notes)

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


_Parts = tuple[Space, tuple[Config, ...], Mapping[str, CpuSpace], GpuSpace | None, tuple[str, ...]]
_NOTHING: _Parts = (Space((), np.zeros((0, 0), np.int64)), (), {}, None, ())


def _cpu_part(texts: Mapping[str, str], target: Target) -> _Parts:
    parts: dict[str, CpuSpace] = {}
    notes = []
    for route in target.routes:
        if route.root == "none" or route.name not in texts:
            continue
        root = read_root(texts[route.name])
        facts = read_cpu_facts(texts[route.name])
        part = CpuSpace.declare(root, facts, cores=usable_cores()) if root else None
        if part is None or not len(part.space):
            notes.append(f"route {route.name}: no knobs for its dispatch, only its default competes")
        else:
            parts[route.name] = part
    if not parts:
        return (*_NOTHING[:4], tuple(notes))
    space = Space.join("route", {name: part.space for name, part in parts.items()})
    first = []
    for name, part in parts.items():
        default = part.default()
        if default is not None:
            first.append(space[space.nearest({"route": name, **default.as_dict()})])
    return space, tuple(first), parts, None, tuple(notes)


def _gpu_part(texts: Mapping[str, str], target: Target) -> _Parts:
    try:
        gpu = GpuSpace.read(texts[PLAIN.name], vendor="amd" if target.backend == "rocm" else "nvidia")
        space = gpu.space
    except NoCandidateError as error:
        return (*_NOTHING[:4], (error.message,))
    default = gpu.default()
    return space, (default,) if default else (), {}, gpu, ()


def _refused(refusal: CompilerRefusal, target: Target, problem: Problem) -> Exception:
    words = first_error(refusal.stderr)
    if target.user_flags:
        flags = " ".join(target.user_flags)
        return UsageError(f"iree-compile refused this problem with {flags}: {words}", remedy="Check --flag.")
    return NoCandidateError(
        f"iree-compile cannot compile {problem.name} for {target.name}: {words}",
        remedy="Try another shape, type or target.",
    )
