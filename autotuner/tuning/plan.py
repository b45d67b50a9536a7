"""From a problem on a target to its candidates: the baseline, the stock routes, and the space of specs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from autotuner.build import Builder, BuildJob
from autotuner.build.executor import BuildExecutor
from autotuner.build.proof import proven
from autotuner.carriers.carrier import FLAGS, Carrier, SpecCarrier, SubstitutionCarrier, VariantCarrier
from autotuner.carriers.render import Executable, cpu_compilation_info, find_executable, fused_configs
from autotuner.errors import NoCandidateError, UsageError
from autotuner.iree.compile import CONFIGURED, CONSTRAINTS, ROOT_ATTRIBUTES, CompilerRefusal, first_error
from autotuner.iree.mlir import Dispatch, read_function, read_root, resources
from autotuner.iree.processor import executable_target, read_cpu_facts
from autotuner.measure.standing import BASELINE as BASELINE
from autotuner.measure.standing import SEARCHED as SEARCHED
from autotuner.measure.standing import Kind
from autotuner.microkernels.chips import is_gpu
from autotuner.microkernels.variants import Variants
from autotuner.problems import Problem
from autotuner.problems.render import problem_mlir
from autotuner.search.history import Shape
from autotuner.space import ABSENT, Config, Space, Value
from autotuner.space.cpu import CpuSpace
from autotuner.space.dispatch import Batch, CompilationInfo, DispatchSpace, read_dispatch_space, read_own
from autotuner.system.settings import usable_cores
from autotuner.targets import PLAIN, Route, Target

KERNEL, CODEGEN = "kernel", "codegen"
"""Where microkernels join the search: the knob that says which of them, or the compiler's own code."""
_SPEC_COMPLEXITY = 100
"""A spec is a file to keep and to renew with the compiler: any stock route is simpler than any spec."""
_KERNEL_COMPLEXITY = 200
"""A microkernel is code of one's own: any spec is simpler."""


_KEEPS_TILES = "VectorDistribute"
"""Where sizes are dynamic, IREE 3.13 lets each thread of this pipeline keep a workgroup's whole tile in memory of its
own, where the other threads' results are missing."""
_NO_TILES = "its root operation has no tile sizes that a spec could set"


@dataclass(frozen=True)
class Candidate:
    """Something that can be compiled and timed."""

    id: str
    kind: Kind
    route: Route
    complexity: int
    config: Config = field(default_factory=lambda: Config(()))
    dispatch: Dispatch | None = None
    carrier: Carrier = FLAGS
    """What brings the configuration to the operation."""

    @property
    def info(self) -> CompilationInfo | None:
        return self.carrier.info

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
    first: tuple[Config, ...] = ()
    """The compiler's own choices, as configurations: what the search begins with."""
    seeds: tuple[Config, ...] = ()
    """What won elsewhere, as near as this space has it: the search goes on with it."""
    cpu: Mapping[str, CpuSpace] = field(default_factory=dict)
    """The declared spaces, by route; empty on GPUs."""
    executables: Mapping[str, Executable] = field(default_factory=dict)
    """Of the routes whose operation no spec reaches: the executable that is substituted."""
    gpu: DispatchSpace | None = None
    dispatch: Dispatch | None = None
    """The operation that a GPU's spec matches; on a processor each route has its own."""
    kernels: Mapping[str, Variants] = field(default_factory=dict)
    """The microkernels that take part, by name."""
    executable_target: str = ""
    """What the compiler makes code for on this processor: a microkernel's executable needs it."""
    notes: tuple[str, ...] = ()
    obstacle: str = ""
    """Why there is nothing to choose, in IREE's words; empty where there is."""

    @property
    def no_knobs(self) -> str:
        """What is said where the space is empty."""
        return f"no knobs here, IREE's default is kept: {self.obstacle}"

    @classmethod
    def make(cls, problem: Problem, target: Target, executor: BuildExecutor, *, timeout: float) -> Plan:
        """Reads the dispatch of every route from the compiler, and the space that belongs to it."""
        source, builder = problem_mlir(problem), executor.builder
        routes = target.routes_for(problem)
        plain = BuildJob(source, (*problem.flags, *target.compile_flags), timeout, stop=CONFIGURED, dumps=())
        jobs = {
            route: executor.inspect(replace(plain, flags=(*plain.flags, *route.flags, ROOT_ATTRIBUTES)))
            for route in (routes if target.backend.on_host else (PLAIN,))  # of GPUs no other route is searched
        }
        texts: dict[Route, str] = {}
        for route, job in jobs.items():
            try:
                texts[route] = job.result()
            except CompilerRefusal as refusal:
                if route == PLAIN:
                    raise _refused(refusal, target, problem) from refusal
        stock = tuple(
            Candidate(f"stock-{i}", "stock", route, complexity=len(route.flags))
            for i, route in enumerate(routes)
            if route != PLAIN
        )
        bare = replace(cls.bare(problem, target), source=source, stock=stock)
        if target.backend.on_host:
            bare = replace(bare, executable_target=executable_target(texts[PLAIN]))
            return _with_cpu(bare, texts, builder, timeout=timeout)
        root = read_root(texts[PLAIN])
        return _with_gpu(
            replace(bare, dispatch=problem.resolved(root) if root else None),
            builder,
            timeout=timeout,
        )

    @classmethod
    def bare(cls, problem: Problem, target: Target) -> Plan:
        """Nothing is asked of the compiler: there is the default, and microkernels may join."""
        base = Candidate(BASELINE, "baseline", PLAIN, complexity=0)
        return cls(problem, target, "", base, (), Space.empty())

    def hoped_us(self, candidate: Candidate) -> float:
        """What a microkernel for a GPU takes at the best, by its estimate in nanoseconds; of others nobody knows."""
        told = [one.expected / 1000 for one in self.kernels.values() if is_gpu(one.chip) and one.expected > 0]
        return min(told, default=math.inf) if candidate.kind == "microkernel" else math.inf

    def with_kernels(self, variants: Sequence[Variants], *, alone: bool = False) -> Plan:
        """The same with microkernels in its space; `alone` leaves only them and the baseline."""
        if not variants:
            return self
        kernels = {v.manifest.name: v for v in variants}
        parts = {name: v.space for name, v in kernels.items()}
        if not alone and len(self.space):
            parts = {CODEGEN: self.space, **parts}
        space = Space.join(KERNEL, parts)
        # Each kernel's best guess, then each one's second: what runs out of time has seen something of all. What the
        # compiler chooses itself is mostly the default, which is timed already.
        likely = sorted(variants, key=lambda one: one.expected)
        leading = [[(v.manifest.name, config) for config in v.leading()] for v in likely]
        own = [] if alone else [None, *((CODEGEN, config) for config in self.first)]
        turns = itertools.zip_longest(*leading, own)
        wanted = [{KERNEL: name, **config.as_dict()} for name, config in filter(None, itertools.chain(*turns))]
        first = tuple(dict.fromkeys(space[space.nearest(one)] for one in wanted))
        stock = () if alone else self.stock
        return replace(self, space=space, first=first, kernels=kernels, stock=stock)

    def where_rows_vary(self) -> Plan:
        """The same without GPU configurations that are wrong where M is known only when the program runs."""
        if self.gpu is None or not len(self.space):
            return self
        number = next(i for i, knob in enumerate(self.space.knobs) if knob.name == "pipeline")
        right = [i for i, value in enumerate(self.space.knobs[number].values) if value != _KEEPS_TILES]
        space = self.space.keep(np.isin(self.space.indices[:, number], right))
        if not len(space):
            return _without_knobs(replace(self, space=space, first=()), f"{_KEEPS_TILES} is wrong where M varies")
        first = tuple(space[space.nearest(config.as_dict())] for config in self.first)
        return replace(self, space=space, first=first)

    @property
    def shape(self) -> Shape | None:
        """What runs are compared by; None without a dispatch of a known kind and of known sizes."""
        dispatch = self.dispatch or next((part.dispatch for part in self.cpu.values()), None)
        if dispatch is None or dispatch.dynamic or not all(size > 0 for size in dispatch.loops):
            return None
        sizes = {role: math.prod(dispatch.sizes(role)) for role, _ in dispatch.roles}
        return Shape(dispatch.kind, dispatch.element_types, sizes)

    def candidate(self, config: Config, *, id: str) -> Candidate:
        """The candidate that this configuration means."""
        kernel = config.as_dict().get(KERNEL, CODEGEN)
        if kernel != CODEGEN:
            complexity = _KERNEL_COMPLEXITY + self._changed(config, knob=KERNEL)
            carrier: Carrier = VariantCarrier(self.kernels[str(kernel)], config, self.executable_target)
            return Candidate(id, "microkernel", PLAIN, complexity, config, carrier=carrier)
        own = Config(tuple(item for item in config.items if item[0] != KERNEL))
        if self.gpu is not None:
            known = {knob.name for knob in self.gpu.space.knobs}
            info = self.gpu.compilation_info(Config(tuple(item for item in own.items if item[0] in known)))
            changed = self._changed(config, knob=None)
            carrier = self._spec(self.dispatch, info)
            return Candidate(id, "codegen", PLAIN, _SPEC_COMPLEXITY + changed, config, self.dispatch, carrier)
        route = next(r for r in self.target.routes_for(self.problem) if r.name == config["route"])
        part = self.cpu[route.name]
        tiling = part.tiling(own)
        info = cpu_compilation_info(tiling)
        complexity = _SPEC_COMPLEXITY + len(route.flags) + self._changed(config, knob="route")
        carrier = self._spec(part.dispatch, info)
        if (executable := self.executables.get(route.name)) is not None:
            carrier = SubstitutionCarrier(executable, info, fused_configs(tiling, part.dispatch))
        return Candidate(id, "codegen", route, complexity, config, part.dispatch, carrier)

    def _spec(self, dispatch: Dispatch | None, info: CompilationInfo) -> SpecCarrier:
        if dispatch is None:
            raise ValueError(f"{self.problem.name} has no dispatch that a spec could match")
        return SpecCarrier(self.problem.name, dispatch, info, self.target.spec_flag)

    def flags(self, candidate: Candidate) -> tuple[str, ...]:
        return self.problem.flags + self.target.compile_flags + candidate.route.flags

    def job(self, candidate: Candidate, *, timeout: float, repeat: int = 1, timed: bool = False) -> BuildJob:
        """The compile that makes this candidate and proves that its configuration arrived."""
        carried = candidate.carrier.carried()
        repeatable = self.problem.repeatable and carried.repeatable
        return BuildJob(
            program=self.source,
            flags=(*self.flags(candidate), *carried.flags),
            timeout=timeout,
            repeat=repeat if repeatable else 1,
            timed=timed and repeatable,
            spec=carried.spec,
            spec_flag=carried.spec_flag,
            dumps=carried.dumps,
            figures=self.target.figures,
            files=carried.files,
            expected=carried.expected,
            kernels=carried.kernels,
        )

    def _changed(self, config: Config, *, knob: str | None) -> int:
        """In how many knobs a configuration differs from the default of its part of the space."""
        own = [f for f in self.first if knob is None or f[knob] == config[knob]]
        return min((sum(a != b for a, b in zip(config.items, f.items, strict=True)) for f in own), default=0)


def _with_cpu(plan: Plan, texts: Mapping[Route, str], builder: Builder, *, timeout: float) -> Plan:
    """The declared spaces of all routes side by side, and what carries each."""
    parts: dict[str, CpuSpace] = {}
    executables: dict[str, Executable] = {}
    notes = []
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for route, text in texts.items():
        found = read_root(text)
        root = plan.problem.resolved(found) if found else None
        # A route that leaves the operation as it is would only have the same space searched twice. What becomes of
        # packed operands depends on flags that the operation does not show.
        key = (read_function(text), route.flags if root is not None and root.packed else ())
        if not route.reachable or key in seen:
            continue
        seen.add(key)
        part = CpuSpace.declare(root, read_cpu_facts(text), cores=usable_cores()) if root else None
        if part is None or not len(part.space):
            notes.append(f"route {route.name}: no knobs for its dispatch, only its default competes")
        else:
            parts[route.name] = part
    if not parts:
        return replace(plan, notes=tuple(notes), obstacle=_NO_TILES)
    space = Space.join("route", {name: part.space for name, part in parts.items()})
    first = {}
    for name, part in parts.items():
        default = part.default()
        if default is not None:
            first[name] = space[space.nearest({"route": name, **default.as_dict()})]
    plan = replace(plan, space=space, first=tuple(first.values()), cpu=parts)
    for name, part in parts.items():
        # A contraction keeps what a spec gives it; on the way of other operations there are passes that drop it.
        if part.dispatch.kind != "contraction" and not _reached(plan, name, builder, timeout=timeout):
            executable = _executable(plan, name, builder, timeout=timeout)
            if executable is None:
                notes.append(f"route {name}: neither a spec nor a substituted executable reaches its dispatch")
                continue
            executables[name] = executable
            notes.append(
                f"route {name}: later passes of the compiler drop what a spec sets here, so configurations are carried "
                f"by a substituted executable ({executable.name}), which fits this program and these flags only"
            )
    return replace(plan, executables=executables, notes=tuple(notes))


def _reached(plan: Plan, route: str, builder: Builder, *, timeout: float) -> bool:
    """Does a spec's configuration arrive at the end of configuration? The compiler is asked, not trusted."""
    config = plan.space[plan.space.nearest({"route": route})]
    candidate = plan.candidate(config, id="probe")
    if candidate.info is None:
        return False
    carried = candidate.carrier.carried()
    try:
        text = builder.inspect(
            plan.source, plan.flags(candidate), timeout=timeout, spec=carried.spec, spec_flag=carried.spec_flag
        )
    except CompilerRefusal:
        return False
    return proven([text], candidate.info)[0] > 0


def _executable(plan: Plan, route: str, builder: Builder, *, timeout: float) -> Executable | None:
    flags = next(r.flags for r in plan.target.routes_for(plan.problem) if r.name == route)
    words = [*plan.problem.flags, *plan.target.compile_flags, *flags, ROOT_ATTRIBUTES]
    texts = builder.executables(plan.source, words, timeout=timeout)
    return find_executable(text + resources(plan.source) for text in texts)


def _with_gpu(plan: Plan, builder: Builder, *, timeout: float) -> Plan:
    """The space that the compiler's own constraints give."""
    if plan.dispatch is None:
        return _without_knobs(plan, "its dispatch has no root operation that a spec could match")
    # IREE crashes when it emits constraints for a batched contraction or a grouped convolution. Those of one
    # batch entry or group are the same, less one loop.
    single, loops = plan.problem.unbatched()
    flags, backend, refused = [*single.flags, *plan.target.compile_flags, ROOT_ATTRIBUTES], plan.target.backend, ""
    try:
        text = builder.inspect(problem_mlir(single), [*flags, CONSTRAINTS], timeout=timeout)
    except CompilerRefusal as refusal:
        words = first_error(refusal.stderr)
        crashed = words.removeprefix("ended by ") if words.startswith("ended by ") else ""
        how = f"crashes ({crashed})" if crashed else f"refuses it ({words})"
        refused = f"iree-compile {how} when it is asked for pipeline constraints ({CONSTRAINTS})"
        text = builder.inspect(plan.source, flags, timeout=timeout)
    try:
        batch = Batch(loops, _batch_loop(plan.dispatch))
        gpu = read_own(text, backend=backend) if refused else read_dispatch_space(text, backend=backend, batch=batch)
        space = gpu.space
    except NoCandidateError as error:
        return _without_knobs(plan, refused or error.message.rstrip("."))
    default = gpu.default()
    return replace(plan, space=space, first=(default,) if default else (), gpu=gpu)


def _without_knobs(plan: Plan, why: str) -> Plan:
    if plan.dispatch is not None and plan.dispatch.dynamic:
        why = (
            f"{why}: its sizes are dynamic, whatever --input says of one call. Static sizes in the program can be tuned"
        )
    return replace(plan, obstacle=why, notes=(f"no knobs: {why}",))


def _batch_loop(dispatch: Dispatch | None) -> int:
    """Where the loop over batch entries or groups is, of those that `unbatched` takes away."""
    if dispatch is None or dispatch.kind == "attention":
        return 0
    dims = dispatch.dims("depth" if dispatch.kind == "convolution" else "batch")
    return dims[0] if dims else 0


def _refused(refusal: CompilerRefusal, target: Target, problem: Problem) -> Exception:
    words = first_error(refusal.stderr)
    if target.user_flags:
        flags = " ".join(target.user_flags)
        return UsageError(f"iree-compile refused this problem with {flags}: {words}", remedy="Check --flag.")
    return NoCandidateError(
        f"iree-compile cannot compile {problem.name} for {target.name}: {words}",
        remedy="Try another shape, type or target.",
    )
