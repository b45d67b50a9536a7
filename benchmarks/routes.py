"""What `autotune model` comes to in a short budget, against the best stock flags of all that can be tried.

    python -m benchmarks.routes squeezenet mobilenet encoder resnet50 --within 1500 --write results/reference/routes.txt
    python -m benchmarks.routes program.mlir --microkernels auto                       # --budget 90

All: every product of the settings that say how convolutions, attentions and products are compiled and how much the
compiler changes the program, then the best of these with each other knob turned. What ships and the best are timed in
turns at the end. --within gives all models so many seconds together: what is likely to be fast is tried
first, and the figures say how many of all were. Wrong results of stock flags are not looked for: that only helps them.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from autotuner import Options, Target
from autotuner.iree.tools import Tools
from autotuner.jobs.api import tune_model
from autotuner.jobs.model.result import ModelResult
from autotuner.microkernels.variants import Kernel
from autotuner.programs.imports import import_onnx
from autotuner.programs.model import Model
from autotuner.system.settings import usable_cores
from autotuner.targets.knobs import PLAIN, Knob, Route, route_of, sensible, touching
from benchmarks.machine import machine
from benchmarks.models.__main__ import MODELS, Watch, write

FIRST = ("convolutions", "attention", "data tiling", "kernels", "level")
"""Knobs whose settings are all combined."""
AIM = 1.1
SHIPPED, FOUND = "shipped", "found, not shipped"
_COMPILE_SECONDS, _RUN_SECONDS = 900.0, 120.0
_FAR = 1.5
"""A route that takes so many times what the best does is called once and no more."""
_LAST_SHARE = 0.15
"""Of a model's time: for timing the best in turns."""
_HEAD = 1 << 20
"""Bytes in which a program's first function is."""
_NAMES = {
    "conv": (b'onnx.Conv"', b"aten.conv", b"linalg.conv_", b"linalg.depthwise_conv_"),
    "attention": (b".attention ",),
}
_TORCH = re.compile(r"!torch\.vtensor<\[([\d,]*)\],(\w+)>")


def combined(knobs: Sequence[Knob]) -> list[Route]:
    """Every product of the first knobs' settings, each once: the default, then without a level, most settings first."""
    choices = [(None, *(s.name for s in knob.settings)) for knob in knobs if knob.name in FIRST]
    levels = {setting.name for knob in knobs if knob.name == "level" for setting in knob.settings}
    names = dict.fromkeys(sensible(knobs, [name for name in one if name]) for one in product(*choices))
    routes = [route_of(knobs, one) for one in names]
    return sorted(routes, key=lambda r: (r != PLAIN, not levels.isdisjoint(r.settings), -len(r.settings)))


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


def signature(model: Path) -> tuple[str, tuple[str, ...]]:
    """The name and the inputs, as SHAPExTYPE, of a program's first function."""
    with model.open("rb") as file:
        head = file.read(_HEAD).decode(errors="replace")
    found = re.search(r"func\.func (?:public )?@([\w$.]+)\((.*?)\) ->", head)
    if found is None:
        raise SystemExit(f"{model} has no func.func with results.")
    plain = _TORCH.sub(lambda m: f"tensor<{m[1].replace(',', 'x')}x{m[2]}>", found[2])
    return found[1], tuple(re.findall(r"%\w+: tensor<([\w]+)>", plain))


@dataclass
class Trial:
    """Compiles a model with flags, and times what came of it."""

    model: Path
    folder: Path
    tools: Tools
    target: Target = field(default_factory=lambda: Target.parse("cpu"))

    def __post_init__(self) -> None:
        self.function, self.inputs = signature(self.model)

    def compiled(self, name: str, flags: Sequence[str]) -> Path | None:
        """None where these flags do not compile it."""
        vmfb = self.folder / f"{name}.vmfb"
        command = [str(self.tools.iree_compile), str(self.model), *flags, "-o", str(vmfb)]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_COMPILE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return None
        # A misspelt pipeline writes a module, too.
        return vmfb if done.returncode == 0 and b"error:" not in done.stderr else None

    def ms(self, vmfb: Path, *, best: float = math.inf) -> float:
        """The median of three repetitions, or a single call where that is far from the best; inf: it does not run."""
        once = self._ms(vmfb, "--benchmark_repetitions=1", "--benchmark_min_time=0.001s", best=best)
        if once > _FAR * best:
            return once
        return self._ms(vmfb, "--benchmark_repetitions=3", "--benchmark_min_time=0.1s")

    def _ms(self, vmfb: Path, *repeated: str, best: float = math.inf) -> float:
        inputs = [f"--input={text}" for text in self.inputs]
        where = [f"--module={vmfb}", f"--function={self.function}", "--device=local-task"]
        command = [str(self.tools.iree_benchmark_module), *where, *inputs, *repeated, "--benchmark_format=json"]
        most = min(_RUN_SECONDS, 3.0 + 20 * best / 1000)
        try:
            done = subprocess.run(command, capture_output=True, check=False, timeout=most)
        except subprocess.TimeoutExpired:
            return math.inf
        if done.returncode:
            return math.inf
        rows = [row for row in json.loads(done.stdout)["benchmarks"] if row["run_type"] == "iteration"]
        return statistics.median(float(row["real_time"]) for row in rows)


@dataclass
class Exhaustive:
    """Every route in turn: compiled side by side, timed one by one while nothing is compiled."""

    trial: Trial
    ends: float
    """By `time.monotonic()`: no route is begun later."""
    known: dict[str, float] = field(default_factory=dict)
    modules: dict[str, Path] = field(default_factory=dict)
    wanted: int = 0

    def all(self, knobs: Sequence[Knob]) -> None:
        first = combined(knobs)
        self._attempt(first)
        best = min(first, key=lambda route: self.known.get(route.name, math.inf))
        self._attempt(list(turned(knobs, best)))

    def _attempt(self, routes: Sequence[Route]) -> None:
        self.wanted += len(routes)
        cores = usable_cores()
        with ThreadPoolExecutor(cores) as pool:
            for start in range(0, len(routes), cores):
                if time.monotonic() > self.ends:
                    return
                some = routes[start : start + cores]
                flags = [[*self.trial.target.compile_flags, *route.flags] for route in some]
                built = list(pool.map(self.trial.compiled, [route.name for route in some], flags))
                for route, vmfb in zip(some, built, strict=True):
                    self._time(route, vmfb)

    def _time(self, route: Route, vmfb: Path | None) -> None:
        best = min(self.known.values(), default=math.inf)
        self.known[route.name] = ms = math.inf if vmfb is None else self.trial.ms(vmfb, best=best)
        if vmfb is not None:
            self.modules[route.name] = vmfb
        print(f"  {len(self.known):3}/{self.wanted} {route.name:<60} {ms:10.2f} ms", flush=True)
        for name in set(self.modules) - set(self.fastest):  # of a large model they would fill the disk
            self.modules.pop(name).unlink()

    @property
    def fastest(self) -> list[str]:
        return sorted(self.modules, key=lambda name: self.known[name])[:3]


def in_turns(trial: Trial, modules: dict[str, Path], *, rounds: int, ends: float) -> dict[str, float]:
    """The median of each one's times, taken in turns; three of each at least."""
    times: dict[str, list[float]] = {name: [] for name in modules}
    for number in range(rounds):
        if number >= 3 and time.monotonic() > ends:
            break
        for name, vmfb in modules.items():
            times[name].append(trial.ms(vmfb))
    return {name: statistics.median(row) for name, row in times.items()}


def come_to(result: ModelResult, target: Target) -> tuple[str, list[str]]:
    """What a run shipped, with its flags; where it ships nothing, the best that it has timed."""
    if result.flagfile is not None:
        return SHIPPED, result.flagfile.read_text().splitlines()
    right = [one for one in result.details.routes if one.ok]
    best = min(right, key=lambda one: one.us or math.inf, default=None)
    return FOUND, [*target.compile_flags, *(best.route.flags if best else ())]


def compare(model: Path, name: str, *, arguments: argparse.Namespace, ends: float, folder: Path) -> list[str]:
    """One model's figures, in lines."""
    trial = Trial(model, folder, Tools.find())
    budget: float = arguments.budget
    options = Options(
        budget=budget,
        workspace=folder / "workspace",
        microkernels=tuple(Kernel(one) for one in arguments.microkernels.split(",") if one != "none"),
        command=("autotune", "model", model.name, "--budget", f"{budget:g}s"),
    )
    given = Model(model, function=trial.function, inputs=trial.inputs)
    result = tune_model(given, trial.target, options=options, reporter=Watch())
    what, flags = come_to(result, trial.target)
    ours = trial.compiled("ours", flags)
    now = time.monotonic()
    tried = Exhaustive(trial, now + (1 - _LAST_SHARE) * (ends - now))
    tried.all(touching(trial.target.knobs, operations(model)))
    best = {one: tried.modules[one] for one in tried.fastest}
    there = {**({what: ours} if ours else {}), **best}
    times = in_turns(trial, there, rounds=arguments.rounds, ends=ends)
    ratio = times.get(what, math.inf) / min(times[one] for one in best)
    shown = {**times, "the default, before": tried.known[PLAIN.name]}
    return [
        f"{name}: {result.verdict}, {result.reason}",
        *(f"  {one:<60} {ms:10.2f} ms" for one, ms in shown.items()),
        f"  routes tried: {len(tried.known)} of {tried.wanted}",
        f"  what {budget:g} s come to ({what}) / the best: {ratio:.3f} (aim: at most {AIM})",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", help=f"{', '.join(MODELS)}, or .mlir files")
    parser.add_argument("--budget", type=float, default=90.0, help="seconds for `autotune model`")
    parser.add_argument("--within", type=float, default=math.inf, help="seconds for all; each model gets its part")
    parser.add_argument("--microkernels", default="none")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--write", type=Path, help="where the figures go, too")
    arguments = parser.parse_args()
    lines = [machine(), ""]
    over = time.monotonic() + arguments.within
    for number, name in enumerate(arguments.models):
        left = (over - time.monotonic()) / (len(arguments.models) - number)
        if left < 2 * arguments.budget:
            lines.append(f"{name}: not tried, no time")
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            model = write(name, folder, dtype="f32") if name in MODELS else Path(name)
            if model.suffix == ".onnx":
                model = import_onnx(model, folder, name=name)
            lines += compare(model, name, arguments=arguments, ends=time.monotonic() + left, folder=folder)
        print("\n".join(lines), flush=True)
        if arguments.write:
            arguments.write.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
