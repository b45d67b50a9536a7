"""Ships microkernels whose victory is on record: made again from kernel and knobs, and held against what was timed.

    python -m benchmarks.winners FOLDER RESULTS.json… [--least 1.3] [--only TEXT]

RESULTS.json are those of `benchmarks.hopper`. A winner is shipped when its gain over IREE's default is as great as
`--least` by the whole interval, when a compile proves that the spec applies, and when the code is the one that was
timed: as long, with as many matrix instructions, registers, spills and bytes of shared memory. Triton and NVRTC may
make other code of the same source in another version: run it with the one that the record was made with. FOLDER gets a
spec, a flagfile and a folder of objects for each, and a table in README.md; the flagfiles are for a compile that is
started here.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from autotuner._version import __version__
from autotuner.build import Builder, BuildJob
from autotuner.build.ship import write_shipped
from autotuner.carriers.carrier import FileHeader, MicrokernelCarrier
from autotuner.carriers.flagfile import use_line
from autotuner.carriers.outputs import MICROKERNEL, Outputs
from autotuner.carriers.provenance import Provenance
from autotuner.iree.figures import Isa
from autotuner.iree.tools import Tools
from autotuner.jobs.suite.load import problems_of
from autotuner.microkernels.instance import search_folders
from autotuner.microkernels.library import find
from autotuner.microkernels.providers.cuda import find_nvrtc, nvrtc_release
from autotuner.microkernels.providers.triton import triton_version
from autotuner.microkernels.variants import Variants
from autotuner.problems import Problem
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.system.cache import Cache
from autotuner.system.settings import cache_dir
from autotuner.targets import Target
from autotuner.tuning.plan import KERNEL

SUITE = "hopper"
SHIPPED = (SUITE, "hopper-f8")
"""Suites that have records."""
README = "README.md"
_SECONDS = 300.0
"""For one compile."""
_SAME = ("threads", "mma", "registers", "shared_bytes", "ptx_bytes")
"""What tells the code that was timed from another."""
_HEAD = "| problem | IREE's default | with the spec | gain, 95 % interval | kernel |\n|---|---|---|---|---|"
Row = Mapping[str, Any]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("results", type=Path, nargs="+")
    parser.add_argument("--least", type=float, default=1.3, help="gain over IREE's default")
    parser.add_argument("--only", default="", help="problems whose name has this text")
    parser.add_argument("--target", default="sm_80")
    parser.add_argument("--chip", default="sm_90", help="that the kernels are built for")
    given = parser.parse_args(argv)
    target = replace(Target.parse(given.target), chip=given.chip)
    tools = Tools.find()
    builder = Builder(tools, Cache(cache_dir()), begins=False)
    problems = recorded_problems()
    lines, refused = [], []
    for path in given.results:
        found = json.loads(path.read_text())
        for name, row in found["problems"].items():
            if given.only not in name or not worth_having(row, given.least):
                continue
            problem = problems[name].accepting(found.get("allow_precision", ""))
            winner = Winner(problem, row, target, path, row.get("command") or found["command"])
            carrier, isa = winner.proven(builder)
            if differing := winner.differing(isa):
                refused.append(f"{name}: not the code that was timed: {differing}")
                continue
            lines.append(winner.ship(carrier, given.folder))
            print(f"{name}: {winner.gain}", file=sys.stderr, flush=True)
    write_table(given.folder, lines)
    if refused:
        sys.exit("\n".join(refused))


def recorded_problems() -> dict[str, Problem]:
    """By name, of all suites that have records."""
    return {problem.name: problem for suite in SHIPPED for problem in problems_of(suite)}


def worth_having(row: Row, least: float) -> bool:
    """A microkernel that has won by so much, even by the lower end of its interval."""
    won = row["verdict"] == "win" and (row["best"] or {}).get("kind") == "microkernel"
    return won and row["speedup"]["low"] >= least


def built(problem: Problem, config: Row, chip: str, workspace: Path) -> MicrokernelCarrier:
    """The kernel with these knobs, exactly."""
    manifest = find(config[KERNEL], search_folders(workspace), OPERATIONS)
    variants = Variants.of(manifest, problem, chip, workspace=workspace)
    recorded = {name: value for name, value in config.items() if name in manifest.parameters}
    chosen = {**next(manifest.settings()), **recorded}  # knobs that are newer than the record are as they were
    setting = variants.space[variants.space.nearest(chosen)]
    if dict(setting.items) != chosen:
        raise ValueError(f"{manifest.name} has no such variant for {problem.name} any more: {chosen}")
    return MicrokernelCarrier((variants.call(setting),), "")


@dataclass(frozen=True)
class Winner:
    """A row of a record, and where it stands."""

    problem: Problem
    row: Row
    target: Target
    record: Path
    command: Sequence[str]

    @property
    def gain(self) -> str:
        speedup = self.row["speedup"]
        return (
            f"{speedup['median']:.3f}x over IREE's default, 95 % interval {speedup['low']:.3f} to {speedup['high']:.3f}"
        )

    @property
    def knobs(self) -> str:
        config = self.row["best"]["config"]
        return ", ".join([config[KERNEL], *(f"{name}={value}" for name, value in config.items() if name != KERNEL)])

    def proven(self, builder: Builder) -> tuple[MicrokernelCarrier, Isa]:
        """The kernel made again, and the figures of a compile that is proven to call it."""
        carrier = built(self.problem, self.row["best"]["config"], self.target.kernel_chip, Path())
        carried = carrier.carried()
        job = BuildJob(
            problem_mlir(self.problem),
            (*self.target.compile_flags, *carried.flags),
            _SECONDS,
            spec=carried.spec,
            spec_flag=carried.spec_flag,
            dumps=carried.dumps,
            figures="code",
            files=carried.files,
            kernels=carried.kernels,
        )
        made = builder.build(job)
        if not made.ok:
            raise SystemExit(f"{self.problem.name}: {made.failure}: {made.stderr}")
        return carrier, made.isa

    def differing(self, isa: Isa) -> str:
        recorded, found = self.row["best"]["isa"], isa.to_json()
        pairs = [(name, recorded.get(name), found.get(name)) for name in _SAME]
        return ", ".join(f"{name} was {old} and is {new}" for name, old, new in pairs if old != new)

    def ship(self, carrier: MicrokernelCarrier, folder: Path) -> str:
        """The files; gives the row of the table."""
        files = Outputs(folder / f"{self.problem.name}-{self.target.name}.mlir", MICROKERNEL)
        shutil.rmtree(files.objects, ignore_errors=True)  # of an earlier record
        said = FileHeader(self._header(files.flagfile), self._provenance())
        write_shipped(files, carrier.parts(said), self.target.compile_flags)
        row, speedup = self.row, self.row["speedup"]
        times = f"{row['baseline']['us']:.1f} µs | {row['best']['us']:.1f} µs"
        gain = f"{speedup['median']:.3f}x ({speedup['low']:.3f} to {speedup['high']:.3f})"
        return f"| [{self.problem.name}]({files.flagfile.name}) | {times} | {gain} | {self.knobs} |"

    def _maker(self) -> str:
        name = self.row["best"]["config"][KERNEL]
        if find(name, search_folders(Path()), OPERATIONS).provider.kind == "cuda":
            return f"NVRTC {nvrtc_release(find_nvrtc())}"
        return f"Triton {triton_version()}"

    def _provenance(self) -> Provenance:
        row, speedup, environment = self.row, self.row["speedup"], self.row["environment"]
        return Provenance(
            problem=self.problem.name,
            target=self.target.name,
            device=environment["device"],
            iree=environment["iree"],
            compiler=environment["compiler"],
            verdict=row["verdict"],
            us=row["best"]["us"],
            baseline_us=row["baseline"]["us"],
            low=speedup["low"],
            median=speedup["median"],
            high=speedup["high"],
            seconds=row["seconds"],
            date=self._date,
            command=shlex.join(self.command),
        ).on_machine(environment)

    def _header(self, flagfile: Path) -> list[str]:
        problem, environment = self.problem, self.row["environment"]
        release = f"IREE {environment['iree']} ({environment['compiler']})"
        return [
            f"{MicrokernelCarrier.title} by autotune {__version__}",
            f"problem:    {problem.name} ({problem.flops} flops, {problem.bytes} bytes)",
            f"target:     {self.target.name}, kernel for {self.target.kernel_chip}; {release}",
            f"machine:    {environment['device_name']}, driver {environment['driver']}",
            f"verdict:    {self.row['verdict']}, {self.gain}",
            *([f"precision:  results of {problem.allow} accuracy were accepted"] if problem.allow else []),
            f"recorded:   {self.record}",
            f"kernel:     {self.knobs}; built by {self._maker()}",
            f"date:       {self._date}",
            f"made by:    {shlex.join(self.command)}",
            f"use:        {use_line(flagfile)}",
        ]

    @property
    def _date(self) -> str:
        return f"{datetime.fromisoformat(self.row['environment']['time']):%Y-%m-%d %H:%M} UTC"


def write_table(folder: Path, lines: Sequence[str]) -> None:
    """Behind what README.md says before its table; rows of other problems stay."""
    readme = folder / README
    before, _, table = (readme.read_text() if readme.exists() else f"# {folder.name}\n").partition(f"\n{_HEAD}\n")
    named = (
        (line.split()[1].partition("](")[0].removeprefix("["), line) for line in [*table.splitlines(), *lines] if line
    )
    readme.write_text("\n".join([before, _HEAD, *dict(named).values(), ""]))


if __name__ == "__main__":
    main()
