"""What a model computes on the host's processor: by other code than a GPU's, or than a processor's own default."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from autotuner.devices.device import Computed
from autotuner.devices.process import ProcessDevice
from autotuner.errors import OutOfTimeError
from autotuner.iree.compile import first_error
from autotuner.iree.run import Invocation, failed_because
from autotuner.problems import Array
from autotuner.problems.dtypes import element_type, known_type
from autotuner.programs.arbiter import HostAnswer
from autotuner.programs.builder import ModelBuilder
from autotuner.system import process
from autotuner.system.parsing import read_npy, write_raw
from autotuner.targets import Target
from autotuner.targets.backends.llvm_cpu import CPU_FLAG, LLVM_CPU
from autotuner.targets.base import decomposed_attention, flag_name

_MEANING = ("--iree-input-", "--iree-torch-", "--iree-stablehlo-")
"""Flags of the user that say what the program means. All others say how it is compiled, which may be what is wrong."""
_GENERIC = f"{CPU_FLAG}=generic"
"""Where the default is the host's own code: other vectors, other tiles."""


def host_flags(target: Target) -> tuple[str, ...]:
    """How the program is compiled to be compared with; attention is decomposed, which is right for all widths."""
    kept = [flag for flag in target.user_flags if flag_name(flag).startswith(_MEANING)]
    more = [_GENERIC] if target.backend.on_host else []
    return Target.parse("cpu", flags=[*kept, *more, *decomposed_attention()]).compile_flags


def compute_on_host(
    builder: ModelBuilder, target: Target, call: Invocation, folder: Path, *, until: float, timeout: float
) -> HostAnswer:
    """The program's outputs, and how they move with the last digit of its inputs; `until` a moment of the clock."""
    try:
        with process.until(until):
            return _computed(builder, target, call, folder, timeout=timeout)
    except OutOfTimeError:
        return HostAnswer(why="there was no time for it: a longer --budget would do")


def _computed(builder: ModelBuilder, target: Target, call: Invocation, folder: Path, *, timeout: float) -> HostAnswer:
    build = builder.module(host_flags(target), timeout=timeout)
    if not build.ok:
        return HostAnswer(why=f"it does not compile there: {first_error(build.stderr, most=160)}")
    folder.mkdir(parents=True, exist_ok=True)
    device = ProcessDevice(builder.tools, LLVM_CPU.device, folder)
    calls = [call, nudged(call, folder)]
    outputs, moved = device.check(build.vmfb, calls, timeout=timeout)
    if outputs.failure is not None:
        return HostAnswer(why=f"it does not run there: {failed_because(outputs.detail)}")
    return HostAnswer(outputs, noise(outputs, moved) if calls[1] != call else 0.0)


def nudged(call: Invocation, folder: Path) -> Invocation:
    """The same call with every number in a file changed in its last digit."""
    texts = [_nudged(text, folder / f"nudged{number}", number) for number, text in enumerate(call.inputs)]
    return replace(call, inputs=tuple(texts))


def _nudged(text: str, path: Path, seed: int) -> str:
    form, raw, file = text.partition("=@")
    if raw:
        element = form.rpartition("x")[2]
        if not known_type(element) or not element_type(element).is_float or not Path(file).is_file():
            return text
        write_raw(_moved(np.fromfile(file, element_type(element).numpy), seed), path.with_suffix(".bin"))
        return f"{form}=@{path.with_suffix('.bin')}"
    if not text.startswith("@") or not text.endswith(".npy"):
        return text
    array = read_npy(text[1:])
    if array.dtype.kind != "f":
        return text
    np.save(path.with_suffix(".npy"), _moved(array, seed))
    return f"@{path.with_suffix('.npy')}"


def _moved(array: Array, seed: int) -> Array:
    """Each number by about a unit in its last place, up or down."""
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), array.shape)
    epsilon = 2.0 ** (1 - _digits(array.dtype))
    moved: Array = (array.astype(np.float64) * (1 + epsilon * signs)).astype(array.dtype)
    return moved


def _digits(dtype: np.dtype[Any]) -> int:
    """Of a float type's numbers, in bits."""
    one = np.ones(1, dtype)
    return next(n for n in range(1, 64) if (one + np.asarray(2.0**-n, dtype) == one).all())


def noise(outputs: Computed, moved: Computed) -> float:
    """The largest relative change of an output of numbers, in the root mean square; 0 where there is none to tell."""
    if moved.failure is not None:
        return 0.0
    found = [0.0]
    for one, other in zip(outputs.arrays, moved.arrays, strict=True):
        if one.dtype.kind in "biu":
            continue
        wide = one.astype(np.float64)
        own = float(np.sqrt(np.square(wide).mean())) if wide.size else 0.0
        change = float(np.sqrt(np.square(other.astype(np.float64) - wide).mean())) if wide.size else 0.0
        found.append(change / own if own and np.isfinite(change) else 0.0)
    return max(found)
