"""Each operation that IREE-turbine's BOO launches, as a program of its own: what `autotune model` makes of it.

    python -m benchmarks.boo --target gfx942 --append results/reference/amd.txt

Compiled and proven, never timed: how many dispatches of a program got an entry, and how many entries applied in it.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2

from autotuner import Options, Target
from autotuner.errors import AutotuneError
from autotuner.jobs.api import tune_model
from autotuner.programs.model import Model
from benchmarks.machine import machine


def _convolution(image: list[int], filters: list[int], direction: str = "forward", **given: Any) -> dict[str, Any]:
    """Channels first, as torch has them; `image` and `filters` with their channels."""
    each = len(image) - 2
    more = {name: [value] * each for name, value in (("stride", 1), ("pad", filters[-1] // 2), ("dilation", 1))}
    more |= given
    spans = zip(image[2:], filters[2:], more["stride"], more["pad"], strict=True)
    out = [image[0], filters[0], *((size + 2 * pad - own) // stride + 1 for size, own, stride, pad in spans)]
    inputs = {"forward": [image, filters], "data": [out, image, filters], "weight": [out, image, filters]}[direction]
    inputs += [[filters[0]]] if more.pop("bias", False) else []
    made = {"forward": out, "data": image, "weight": filters}[direction]
    groups = image[1] // filters[1]
    return {"op": "convolution", "direction": direction, "inputs": inputs, "out": made, "groups": groups, **more}


SIGNATURES: Mapping[str, Mapping[str, Any]] = {
    "conv1d": _convolution([4, 64, 512], [128, 64, 3]),
    "conv2d": _convolution([4, 64, 28, 28], [128, 64, 3, 3]),
    "conv2d, bias": _convolution([4, 64, 28, 28], [128, 64, 3, 3], bias=True),
    "conv2d, strided": _convolution([4, 64, 28, 28], [128, 64, 3, 3], stride=[2, 2]),
    "conv2d, 4 groups": _convolution([4, 128, 28, 28], [128, 32, 3, 3]),
    "conv2d, data": _convolution([4, 64, 28, 28], [128, 64, 3, 3], "data"),
    "conv2d, weight": _convolution([4, 64, 28, 28], [128, 64, 3, 3], "weight"),
    "conv2d, 4 groups, weight": _convolution([4, 128, 28, 28], [128, 32, 3, 3], "weight"),
    "conv3d": _convolution([2, 32, 8, 16, 16], [64, 32, 3, 3, 3]),
    "conv3d, data": _convolution([2, 32, 8, 16, 16], [64, 32, 3, 3, 3], "data"),
    "conv3d, weight": _convolution([2, 32, 8, 16, 16], [64, 32, 3, 3, 3], "weight"),
    "mm": {"op": "mm", "inputs": [[512, 1024], [1024, 768]], "out": [512, 768]},
    "bmm": {"op": "bmm", "inputs": [[8, 256, 512], [8, 512, 256]], "out": [8, 256, 256]},
    "linear": {"op": "linear", "inputs": [[512, 1024], [768, 1024], [768]], "out": [512, 768]},
    "layer_norm": {"op": "layer_norm", "inputs": [[256, 1024], [1024], [1024]], "out": [256, 1024]},
}


def written(name: str, folder: Path, *, dtype: str) -> Path:
    """The program of a signature."""
    template = jinja2.Template(Path(__file__).with_name("boo.mlir.j2").read_text(), undefined=jinja2.StrictUndefined)
    path = folder / f"{name.replace(', ', '_').replace(' ', '_')}.mlir"
    path.write_text(template.render(**SIGNATURES[name], dtype=dtype))
    return path


def tuned(path: Path, target: Target, options: Options) -> str:
    """In words."""
    try:
        result = tune_model(Model(path), target, options=options)
    except AutotuneError as error:
        return f"{type(error).__name__}: {error.message}"
    found = result.to_json()
    parts = ", ".join(f"{one['name']}: {one['reason'] or one['state']}" for one in found["dispatches"])
    entries = found["entries"] or {"applied": 0, "shipped": 0}
    return f"{entries['applied']} of {entries['shipped']} entries applied; {parts or 'no dispatch has knobs'}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="gfx942")
    parser.add_argument("--dtype", default="f16")
    parser.add_argument("--only", nargs="+", choices=SIGNATURES, default=[*SIGNATURES])
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--append", type=Path, help="where the lines go, too")
    arguments = parser.parse_args()
    target = Target.parse(arguments.target)
    print(head := f"{machine()}: python -m benchmarks.boo --target {target.name} --dtype {arguments.dtype}", flush=True)
    lines = [head]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for one in arguments.only:
            path = written(one, folder, dtype=arguments.dtype)
            output = folder / "specs" / f"{path.stem}.mlir"
            more = {"device": "none", "trials": arguments.trials, "microkernels": (), "output": output}
            options = Options(workspace=folder / path.stem, **more)
            lines.append(f"{target.name:<8} {one:<26} {tuned(path, target, options)}")
            print(lines[-1], flush=True)
    if arguments.append:
        with arguments.append.open("a") as file:
            file.write("\n".join(["", *lines]) + "\n")


if __name__ == "__main__":
    main()
