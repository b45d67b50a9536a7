"""What `autotune model` ships in a short budget, against the best stock flags of all that can be tried.

    python -m benchmarks.routes squeezenet.mlir --input 1x3x224x224xf32                  # --budget 90
    python -m benchmarks.routes encoder.mlir --input 1x128x512xf32 --microkernels auto

All: every product of the settings that say how convolutions, attentions and products are compiled and how much the
compiler changes the program, then the best of these with each other knob turned. What ships, the best and the default
are timed in turns at the end. That takes an hour for a network with convolutions on two cores; --keep FOLDER goes on
where it was interrupted.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from autotuner import Options, Target
from autotuner.iree.tools import Tools
from autotuner.jobs.model.context import Model
from autotuner.jobs.model.tuner import tune_model
from autotuner.microkernels.variants import Kernel
from autotuner.targets.knobs import Knob, Route, route_of, sensible, touching
from benchmarks.machine import machine
from benchmarks.models.__main__ import Watch

FIRST = ("convolutions", "attention", "data tiling", "kernels", "level")
"""Knobs whose settings are all combined."""
AIM = 1.1
SHIPPED, PLAIN = "shipped", "plain"
_COMPILE_SECONDS = 900
_NAMES = {
    "conv": (b'onnx.Conv"', b"aten.conv", b"linalg.conv_", b"linalg.depthwise_conv_"),
    "attention": (b".attention ",),
}


def combined(knobs: Sequence[Knob]) -> list[Route]:
    """Every product of the first knobs' settings, each once; the default before all others."""
    choices = [(None, *(s.name for s in knob.settings)) for knob in knobs if knob.name in FIRST]
    names = dict.fromkeys(sensible(knobs, [name for name in one if name]) for one in product(*choices))
    return [route_of(knobs, one) for one in names]


def turned(knobs: Sequence[Knob], best: Route) -> Iterator[Route]:
    """The best of them with each other knob turned."""
    for setting in (s.name for knob in knobs if knob.name not in FIRST for s in knob.settings):
        names = sensible(knobs, [*best.settings, setting])
        if setting in names:
            yield route_of(knobs, names)


def operations(model: Path) -> set[str]:
    """Which kinds a program has, by the names in its text."""
    text = model.read_bytes()
    return {"gemm", *(op for op, names in _NAMES.items() if any(name in text for name in names))}


def function(model: Path) -> str:
    """The first function of a program."""
    found = re.search(rb"func\.func (?:public )?@([\w$.]+)", model.read_bytes())
    if found is None:
        raise SystemExit(f"{model} has no func.func: give --function.")
    return found[1].decode()


@dataclass
class Trial:
    """Compiles a model with flags, and times what came of it."""

    model: Path
    function: str
    inputs: tuple[str, ...]
    target: Target
    folder: Path
    tools: Tools

    def compiled(self, name: str, flags: Sequence[str]) -> Path | None:
        """None where these flags do not compile it."""
        vmfb = self.folder / f"{name}.vmfb"
        if vmfb.exists():
            return vmfb
        part = vmfb.with_suffix(".part")
        command = [str(self.tools.iree_compile), str(self.model), *flags, "-o", str(part)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_COMPILE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return None
        # A misspelt pipeline writes a module, too.
        return part.rename(vmfb) if done.returncode == 0 and b"error:" not in done.stderr else None

    def ms(self, vmfb: Path) -> float:
        """The median of three repetitions; inf where it does not run."""
        inputs = [f"--input={text}" for text in self.inputs]
        repeated = ["--benchmark_repetitions=3", "--benchmark_min_time=0.1s", "--benchmark_format=json"]
        where = [f"--module={vmfb}", f"--function={self.function}", "--device=local-task"]
        command = [str(self.tools.iree_benchmark_module), *where, *inputs, *repeated]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            return math.inf
        rows = [row for row in json.loads(done.stdout)["benchmarks"] if row["run_type"] == "iteration"]
        return statistics.median(float(row["real_time"]) for row in rows)


def in_turns(trial: Trial, modules: dict[str, Path], rounds: int) -> dict[str, float]:
    """The median of each one's times, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in modules}
    for _ in range(rounds):
        for name, vmfb in modules.items():
            times[name].append(trial.ms(vmfb))
    return {name: statistics.median(row) for name, row in times.items()}


def all_routes(trial: Trial, knobs: Sequence[Knob]) -> dict[str, Path]:
    """The modules of the three fastest, the fastest first. Wrong results are not looked for: that only helps them."""
    us: dict[str, float] = {}
    modules: dict[str, Path] = {}

    def attempt(routes: Sequence[Route]) -> None:
        for number, route in enumerate(routes, start=1):
            vmfb = trial.compiled(route.name, [*trial.target.compile_flags, *route.flags])
            us[route.name] = math.inf if vmfb is None else trial.ms(vmfb)
            if vmfb is not None:
                modules[route.name] = vmfb
            print(f"  {number:3}/{len(routes)} {route.name:<60} {us[route.name]:10.2f} ms", flush=True)

    first = combined(knobs)
    attempt(first)
    best = min(first, key=lambda route: us[route.name])
    attempt(list(turned(knobs, best)))
    return {name: modules[name] for name in sorted(modules, key=lambda name: us[name])[:3]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="an .mlir file")
    parser.add_argument("--input", action="append", required=True, help="SHAPExTYPE, once for each input")
    parser.add_argument("--function", help="the first of the model otherwise")
    parser.add_argument("--budget", type=float, default=90.0)
    parser.add_argument("--microkernels", default="none")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--keep", type=Path, help="a folder for modules and the workspace; a temporary one otherwise")
    arguments = parser.parse_args()
    print(machine())
    target = Target.parse("cpu")
    with tempfile.TemporaryDirectory() as temporary:
        folder: Path = arguments.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        trial = Trial(
            arguments.model,
            arguments.function or function(arguments.model),
            tuple(arguments.input),
            target,
            folder,
            Tools.find(),
        )
        options = Options(
            budget=arguments.budget,
            workspace=folder / "workspace",
            microkernels=tuple(Kernel(name) for name in arguments.microkernels.split(",") if name != "none"),
            command=("autotune", "model", arguments.model.name, "--budget", f"{arguments.budget:g}s"),
        )
        result = tune_model(
            Model(arguments.model, function=trial.function, inputs=trial.inputs),
            target,
            options=options,
            reporter=Watch(),
        )
        print(f"{result.verdict}, {result.reason}")
        flags = result.flagfile.read_text().splitlines() if result.flagfile else list(target.compile_flags)
        (folder / f"{SHIPPED}.vmfb").unlink(missing_ok=True)
        shipped = trial.compiled(SHIPPED, flags)
        best = all_routes(trial, touching(target.knobs, operations(arguments.model)))
        plain = trial.compiled(PLAIN, target.compile_flags)
        there = {SHIPPED: shipped, **best, PLAIN: plain}
        times = in_turns(trial, {name: path for name, path in there.items() if path}, arguments.rounds)
        for name, ms in times.items():
            print(f"{name:<60} {ms:10.2f} ms")
        ratio = times[SHIPPED] / min(times[name] for name in best)
        print(f"shipped in {arguments.budget:g} s / best stock flags of all: {ratio:.3f} (aim: at most {AIM})")


if __name__ == "__main__":
    main()
