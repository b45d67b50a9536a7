"""A kernel in C as a library of this process: called workgroup by workgroup, without IREE around it."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from autotuner.microkernels.chips import choose_isa
from autotuner.microkernels.instance import Binding, shipped_folder
from autotuner.microkernels.manifest import Manifest
from autotuner.microkernels.providers.c import find_compiler
from autotuner.problems import Problem
from autotuner.problems.accuracy import Array
from autotuner.system import process
from tests.support.kernels import request

HOST = platform.machine()
STACK = 108 * 1024
"""Of a worker's 128 KiB, what the frame of a kernel may take."""
AVX512 = ("avx2", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl")
_GUARD = 64


def host_features() -> tuple[str, ...]:
    """Of this processor, by LLVM's names, which on x86_64 are Linux's."""
    words = Path("/proc/cpuinfo").read_text().split() if HOST == "x86_64" else []
    return tuple(name for name in AVX512 if name in words)


def flags_of(
    manifest: Manifest,
    problem: Problem,
    chip: str,
    *,
    parameters: Mapping[str, int] | None = None,
    features: Collection[str] = (),
) -> list[str]:
    """What the provider gives the compiler for this kernel."""
    defines = _defines(manifest, problem, chip, parameters=parameters, features=features)
    return [*find_compiler(chip).flags, *choose_isa(chip, features).flags, *defines]


def _defines(
    manifest: Manifest, problem: Problem, chip: str, *, parameters: Mapping[str, int] | None, features: Collection[str]
) -> list[str]:
    macros = request(manifest, problem, chip, parameters, features=features).macros()
    return [*(f"-D{name}={value}" for name, value in macros.items()), f"-I{shipped_folder()}"]


def result_of(
    manifest: Manifest,
    problem: Problem,
    inputs: tuple[Array, ...],
    folder: Path,
    *,
    parameters: Mapping[str, int] | None = None,
    features: Collection[str] = (),
    emulated: bool = False,
) -> Array:
    """What the kernel computes; a write beside the result or a frame that is too large is an error.

    `emulated`: what it computes with AVX-512, whatever processor this is.
    """
    library = folder / f"kernel{len(list(folder.iterdir()))}.so"
    chip, features = ("x86_64", AVX512) if emulated else (HOST, features)
    if emulated:
        defines = _defines(manifest, problem, chip, parameters=parameters, features=features)
        flags = [*find_compiler(HOST).flags, f"-include{Path(__file__).with_name('wide.h')}", "-Wno-psabi", *defines]
    else:
        flags = flags_of(manifest, problem, chip, parameters=parameters, features=features)
    # Fast to compile: what the optimizer does with it, the tests with IREE see.
    own = ["-O1", "-fvisibility=default", f"-Werror=frame-larger-than={STACK}", "-shared"]
    source = str(manifest.provider.source)
    done = process.run([find_compiler(HOST).path, *flags, *own, source, "-o", library], timeout=120)
    assert done.ok, done.why()
    instance = manifest.bind(problem, chip, objects=(library,), parameters=parameters, features=features)
    guarded = np.full(problem.output.bytes // 4 + 2 * _GUARD, np.nan, np.float32)
    out = guarded[_GUARD:-_GUARD]
    arrays = [out if b.access == "write" else _packed(inputs[b.operand], b) for b in instance.bindings]
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
    constants = [ctypes.c_int32(value) for value in instance.constants]
    function = getattr(ctypes.CDLL(str(library)), instance.symbol)
    for ids in np.ndindex(instance.grid):
        function(*pointers, *constants, *map(ctypes.c_size_t, ids))
    assert np.isnan(guarded[:_GUARD]).all()
    assert np.isnan(guarded[-_GUARD:]).all()
    return out.reshape(problem.output.shape)


def _packed(array: Array, binding: Binding) -> Array:
    """As the function around the kernel would hand it over."""
    panels = binding.panels
    if panels is not None:
        more = [(0, -array.shape[axis] % panels.width if axis == panels.axis else 0) for axis in range(array.ndim)]
        cut = np.moveaxis(np.pad(array, more), panels.axis, -1)
        cut = cut.reshape(*cut.shape[:-1], -1, panels.width)
        array = np.moveaxis(cut, -2, panels.order.index(panels.axis))
    assert array.shape == binding.tensor.shape
    return np.ascontiguousarray(array)


def wrong(problem: Problem, inputs: tuple[Array, ...], result: Array) -> bool:
    """Is it further from the reference than rounding explains?"""
    reference = problem.reference(inputs)
    assert reference is not None
    bound = problem.bound(inputs, reference)
    return not bool((np.abs(result - reference) <= bound.worst_of(result.size) * bound.deviation + bound.slack).all())
