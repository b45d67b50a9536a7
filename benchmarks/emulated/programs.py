"""Candidates and shipped kernels as the product makes them, compiled up to the host code and the kernels' objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from autotuner.build.builder import BuildJob
from autotuner.build.executor import BuildExecutor
from autotuner.build.proof import proven
from autotuner.carriers.carrier import SpecCarrier, VariantCarrier
from autotuner.carriers.render import spec_mlir
from autotuner.errors import AutotuneError
from autotuner.iree.folder import PROBLEM, write_inputs
from autotuner.jobs.buckets.result import for_all_rows
from autotuner.microkernels.instance import Instance
from autotuner.microkernels.variants import AUTO, find_variants
from autotuner.microkernels.variants import Kernel as Wanted
from autotuner.problems.render import dynamic_gemm_mlir
from autotuner.system import process
from autotuner.targets import Target
from autotuner.tuning.plan import Candidate, Plan
from benchmarks.emulated.cases import Case

TIMEOUT = 120.0
_HOST = "hal.mlir"
_DIRECT = ("--iree-hal-memoization=false", "--iree-hal-indirect-command-buffers=false")
"""One function has all host code, and dispatches name their buffers."""


@dataclass(frozen=True)
class Program:
    """A compiled program."""

    what: str
    host: str
    codes: tuple[Path, ...]
    instance: Instance | None = None
    """The kernel that it calls."""
    failure: str = ""
    """Why there is nothing to execute, where the product should have made something."""


@dataclass(frozen=True)
class Makers:
    """The programs of a case."""

    case: Case
    executor: BuildExecutor
    folder: Path
    count: int

    @cached_property
    def target(self) -> Target:
        return Target.parse(self.case.chip)

    @cached_property
    def plan(self) -> Plan:
        plan = Plan.make(self.case.tuned, self.target, self.executor, timeout=TIMEOUT)
        return plan if self.case.rows is None else plan.where_rows_vary()

    def specs(self) -> Iterator[Program]:
        """The compiler's own code, its own choice as a spec, and random candidates."""
        plan = self.plan
        rows = plan.space.sample(min(self.count - 2, len(plan.space)), np.random.default_rng(0))
        configs = dict.fromkeys([*plan.first[:1], *(plan.space[int(row)] for row in rows)])
        if self.case.rows is None:
            yield self._made(plan.baseline.id, plan.job(plan.baseline, timeout=TIMEOUT))
        for number, config in enumerate(configs):
            candidate = plan.candidate(config, id=f"c{number}")
            yield self._made(f"{candidate.id} {config.as_dict()}", self._job(plan, candidate))

    def _job(self, plan: Plan, candidate: Candidate) -> BuildJob:
        """Of a bucket: as it is shipped, in a program whose M varies."""
        job = plan.job(candidate, timeout=TIMEOUT)
        if self.case.rows is None or not isinstance(candidate.carrier, SpecCarrier) or candidate.dispatch is None:
            return job
        info = for_all_rows(candidate.carrier.info)
        text = spec_mlir(name="bucket", dispatch=candidate.dispatch, info=info, rows=self.case.rows)
        program = dynamic_gemm_mlir(plan.problem, rows=self.case.rows)
        return replace(job, program=program, spec=text, expected=info)

    def shipped(self) -> Iterator[Program]:
        """All shipped kernels that take the problem, in the first two variants of each, called as IREE calls them."""
        plan, wanted, chip = self.plan, [Wanted(AUTO)], self.target.kernel_chip
        found, notes = find_variants(wanted, plan.problem, chip=chip, workspace=self.folder)
        for note in notes:
            print(note, flush=True)
        for variants in found:
            alone = plan.with_kernels([variants], alone=True)
            for config in alone.first[:2]:
                what = f"{variants.manifest.name} {config.as_dict()}"
                candidate = alone.candidate(config, id=variants.manifest.name)
                if not isinstance(candidate.carrier, VariantCarrier):
                    continue
                try:
                    (call,) = candidate.carrier.built.calls
                    job = alone.job(candidate, timeout=TIMEOUT)
                except AutotuneError as error:  # one that comes without objects, say
                    yield Program(what, "", (), failure=f"{variants.manifest.name}: {error.message}")
                    break
                yield replace(self._made(what, job), instance=call.instance)

    def _made(self, what: str, job: BuildJob) -> Program:
        home = self.folder / str(len(list(self.folder.iterdir())))
        write_inputs(job, home)
        dumps = [f"--iree-hal-dump-executable-{one}-to={one}" for one in ("binaries", "configurations")]
        words = [PROBLEM, *job.compile_flags, *dumps, *_DIRECT, "--compile-to=hal", "-o", _HOST]
        done = process.run([self.executor.builder.tools.iree_compile, *words], timeout=TIMEOUT, cwd=home)
        codes = tuple(sorted((home / "binaries").glob("*.hsaco")))
        if not done.ok or not codes:
            return Program(what, "", (), failure="it does not compile")
        if job.expected is not None:
            texts = [path.read_text() for path in sorted((home / "configurations").glob("*.mlir"))]
            if not proven(texts, job.expected)[0]:
                return Program(what, "", (), failure="its spec does not apply")
        return Program(what, (home / _HOST).read_text(), codes)
