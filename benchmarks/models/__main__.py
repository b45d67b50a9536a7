"""Tunes a real model on this machine's processor: IREE's default, its best route, tuned, and ONNX Runtime beside it.

    python -m benchmarks.models resnet50 --budget 1500      # also squeezenet, inception_v1, mobilenet, …
    python -m benchmarks.models mixer --target sm_80 --write mixer.mlir  # only the file, for `autotune model`
    python -m benchmarks.models resnet50 --target gfx942    # no device: every entry proven in the model

Needs `pip install onnx`; ONNX Runtime is timed when it is installed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from autotuner import Options, Target
from autotuner.jobs.api import tune_model
from autotuner.programs.model import Model
from benchmarks.machine import machine
from benchmarks.models.encoder import Encoder
from benchmarks.models.mixer import Mixer

MODELS = ("resnet50", "squeezenet", "inception_v1", "mobilenet", "encoder", "mixer")
HALVES = ("sm_80",)
"""Chips whose matrix units take no f32: there the model is made in f16."""


class Watch:
    """Prints what happens, with the time."""

    def __init__(self) -> None:
        self._started = time.monotonic()

    def stage(self, text: str) -> None:
        print(f"{time.monotonic() - self._started:7.1f} s  {text}", flush=True)

    def progress(self, now: object) -> None:
        del now

    def note(self, text: str) -> None:
        self.stage(f"note: {text}")


def write(name: str, folder: Path, *, dtype: str) -> Path:
    if name == "encoder":
        return replace(Encoder(), dtype=dtype).write(folder / "encoder.mlir")
    if name == "mixer":
        return Mixer(dtype=dtype).write(folder / "mixer.mlir")
    if name == "mobilenet":
        from benchmarks.models.mobilenet import write_mobilenet

        return write_mobilenet(folder / "mobilenet.onnx")
    from benchmarks.models.make import make

    return make(name, folder / f"{name}.onnx", dtype=dtype)


def onnx_runtime_ms(model: Path) -> float | None:
    """The median of thirty calls on as many threads as the others have; None when it is not installed."""
    if model.suffix != ".onnx" or find_spec("onnxruntime") is None:
        return None
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(str(model), options)
    given = session.get_inputs()[0]
    image = np.random.default_rng(0).uniform(-1, 1, given.shape).astype(np.float32)
    times = []
    for _ in range(30):
        started = time.perf_counter()
        session.run(None, {given.name: image})
        times.append(1000 * (time.perf_counter() - started))
    return statistics.median(times[5:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--budget", type=float, default=1800.0)
    parser.add_argument("--trials", type=int)
    parser.add_argument("--top", type=int)
    parser.add_argument("--workspace", type=Path, help="kept, with what is shipped; a temporary one otherwise")
    parser.add_argument("--json", type=Path, help="where the result goes, too")
    parser.add_argument("--write", type=Path, help="write the model there, and do no more")
    arguments = parser.parse_args()
    target = Target.parse(arguments.target)
    dtype = "f16" if target.name in HALVES else "f32"
    if arguments.write:
        print(write(arguments.model, arguments.write.parent, dtype=dtype).rename(arguments.write))
        return
    print(machine())
    timed = target.backend.on_host
    with tempfile.TemporaryDirectory() as folder:
        model = write(arguments.model, Path(folder), dtype=dtype)
        before = onnx_runtime_ms(model) if timed else None
        options = Options(
            budget=arguments.budget,
            trials=arguments.trials,
            device=None if timed else "none",
            output=None
            if timed
            else Path(folder) / "tuned.mlir",  # without a device it is written where it is asked for
            workspace=arguments.workspace or Path(folder) / "workspace",
            command=("autotune", "model", model.name, "--target", target.name, "--budget", f"{arguments.budget:g}s"),
        )
        result = tune_model(Model(model, top=arguments.top), target, options=options, reporter=Watch())
        after = onnx_runtime_ms(model) if timed else None
        if arguments.json:
            arguments.json.write_text(json.dumps(result.to_json(), indent=2) + "\n")
    print(f"\n{arguments.model} ({dtype}) on {target.name}: {result.verdict}, {result.reason}")
    for tried in result.details.routes:
        print(f"  route {tried.route.name:<32}{_ms(tried.us):>12}  {tried.failure}")
    print(f"  default {_ms(result.baseline.us)}, best route {_ms(result.stock.us)} ({result.stock.route})")
    if result.best:
        print(f"  tuned {_ms(result.best.us)} on route {result.best.measured.route}, error {result.details.error}")
    for name, ratio in (("over default", result.speedup), ("over the best route", result.speedup_over_stock)):
        if ratio:
            print(f"  {name}: {ratio.median:.3f}x, {ratio.low:.3f} to {ratio.high:.3f}")
    print(f"  entries: {len(result.details.entries)} shipped, {result.details.applied} applied")
    if before and after:
        print(f"  ONNX Runtime, two threads: {before:.1f} ms before, {after:.1f} ms after")
    for row in result.details.rows:
        gain = f"{row.result.speedup.median:.2f}x" if row.result and row.result.speedup else ""
        print(f"    {row.label:<40}{row.group.calls:>3} {row.share:6.1%} {row.state:<10} {gain:>7} {row.reason[:60]}")


def _ms(us: float | None) -> str:
    return "–" if us is None else f"{us / 1000:.2f} ms"


if __name__ == "__main__":
    main()
