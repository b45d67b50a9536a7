"""Which outputs of a model are right.

The user's (`--expected`), where there are some. Else those of IREE's default, until another build computes something
else: then the same program on the host's processor decides between the two.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from autotuner.build import BuildJob
from autotuner.devices.device import Computed
from autotuner.devices.process import ProcessDevice
from autotuner.errors import OutOfTimeError, UsageError
from autotuner.iree.compile import first_error
from autotuner.iree.run import Invocation, failed_because
from autotuner.measure.check import Check, compare
from autotuner.measure.reference import WORDS, Reference, Source
from autotuner.problems import Array, Bound
from autotuner.problems.accuracy import UNITS
from autotuner.problems.dtypes import element_type
from autotuner.programs.inputs import shaped_like
from autotuner.programs.model import ModelBuilder
from autotuner.system import process
from autotuner.system.parsing import read_npy, write_raw
from autotuner.targets import Target
from autotuner.targets.backends.llvm_cpu import CPU_FLAG, LLVM_CPU
from autotuner.targets.base import decomposed_attention, flag_name

_MEANING = ("--iree-input-", "--iree-torch-", "--iree-stablehlo-")
"""Prefixes of the user's flags that say what the program means. Others say how it is compiled, which may be what is
wrong."""
_GENERIC = f"{CPU_FLAG}=generic"
"""The flag for a generic processor: where the default is the host's own code, this gives other vectors and tiles."""


_PROVISIONAL: tuple[Source, ...] = ("default", "first")
"""Sources that count as right until the host says otherwise."""
_ROOM = 3.0
"""Two right builds may differ by so many times the effect of a change in the last digit of the inputs."""
_MOST = 0.1
"""A relative error beyond this is wrong, however a model amplifies its rounding."""
_UNSTABLE = 0.5
"""More whole numbers than this share are not left to chance, however many change with the inputs' last digit."""
_SUMS_TO_ONE = 1e-2
"""Probabilities are that near to one together, in f16 as well."""
_MOST_OF_LOGITS = 0.03
"""Of the logits' scale: f16 has numbers down to e to the -10 only, and a one in another place must be wrong."""


@dataclass(frozen=True)
class Noise:
    """What changes in the outputs when all inputs change in the last digit."""

    relative: float = 0.0
    """The largest relative change of a float output, in the root mean square."""
    share: float = 0.0
    """The largest share of the elements of a whole-number output that change."""


HostAnswer = tuple[Computed, Noise] | str
"""The outputs on the host's processor, and their noise; or why there are none."""


@dataclass
class Arbiter:
    """Compares outputs with those that are right, and learns which these are."""

    rounding: float
    """The relative error that is expected between the outputs of two right builds."""
    tolerance: float | None
    """The user's own tolerance."""
    ask: Callable[[], HostAnswer]
    """Computes the outputs on the host; called once, and only where two builds disagree."""
    note: Callable[[str], None]
    name: str = WORDS["default"]
    """The build that others are compared with first, and that counts as right until another disagrees."""
    failed: str = ""
    """Why that build computes nothing; the first that runs takes its place."""
    given: tuple[Array, ...] = field(default=(), repr=False)
    """The user's expected outputs; empty: there are none."""
    source: Source = "default"
    default: Computed = field(default_factory=Computed)
    default_check: Check = field(default_factory=lambda: Check(None, 0.0))
    host: HostAnswer | None = None
    reference: Computed = field(default_factory=Computed)
    """The outputs that all builds are compared with."""
    why_none: str = ""
    """Why the host's outputs did not decide, where they were asked for."""
    unstable: float = 0.0
    """The share of whole numbers, as of an argmax, that may differ between two right builds."""
    compared: str = ""
    """How outputs were compared that differ more than rounding explains and are right."""

    @property
    def begun(self) -> bool:
        """Whether there is something to compare with."""
        return bool(self.default.arrays)

    def begin(self, default: Computed) -> Check:
        """Takes the default's outputs; returns whether they are right, as far as is known."""
        self.default = self.reference = default
        self.source = "first" if self.failed else "default"
        if self.given:
            self.source, self.reference = "expected", shaped_like(self.given, default)
            self.default_check = self._compared(default, self.reference)
        elif not finite(default):
            self._begin_on_host()
        if not self.default_check.ok:
            self.note(self.words)
        return self.default_check

    def _begin_on_host(self) -> None:
        """Begins with the host's outputs, where the default's are not finite."""
        host = self._asked()
        if host is None or not finite(host):
            raise UsageError(
                f"{self.against} computes no finite numbers on these inputs: nothing can be compared with them.",
                remedy="Give --input with values that the model is made for, or --expected with what is right.",
            )
        self.source, self.reference = "llvm-cpu", host
        self.default_check = Check("wrong-result", math.inf, "its outputs are not finite")

    @property
    def default_is_wrong(self) -> bool:
        return bool(self.failed) or not self.default_check.ok

    def check(self, found: Computed) -> Check:
        """Whether outputs are right. Where they differ from the default's, the host decides."""
        check = self._compared(found, self.reference)
        if check.failure != "wrong-result" or self.source not in _PROVISIONAL:
            return check
        first = self.against
        host = self._asked()
        if host is None:
            return check
        self.default_check = self._compared(self.default, host)
        right = self._compared(found, host)
        if self.default_check.ok or right.ok:
            self.source, self.reference = "llvm-cpu", host
            agrees = f"{WORDS['llvm-cpu']} computes what {first} does: what differs from both is wrong"
            self.note(agrees if self.default_check.ok else self.words)
            return right
        self.default_check = Check(None, 0.0)
        if not self.why_none:
            self.why_none = "it agrees with none of those that disagree"
            self.note(f"{WORDS['llvm-cpu']} agrees neither with {first} nor with what differs from it: {_GIVE}")
        return check

    def agree(self, found: Computed, other: Computed) -> Check:
        """Whether two builds agree on inputs whose right outputs are unknown."""
        return self._compared(found, other) if finite(other) else Check(None, 0.0)

    @property
    def against(self) -> str:
        """The reference in words."""
        return self.name if self.source == "default" else WORDS[self.source]

    @property
    def words(self) -> str:
        """A sentence that the default is wrong; empty where it is right as far as is known."""
        return self.found().words("model", name=self.name, against=self.against)

    def found(self, default_us: float | None = None) -> Reference:
        """The reference, and its finding about the default."""
        error = self.default_check.error
        return Reference(
            self.source,
            not self.default_is_wrong,
            error if math.isfinite(error) else None,
            default_us,
            self.rounding if self.tolerance is None else self.tolerance,
            self.why_none,
            self.failed,
            self.compared,
        )

    def _asked(self) -> Computed | None:
        if self.host is None:
            self.host = self.ask()
            if isinstance(self.host, str):
                self.why_none = self.host
                self.note(
                    f"{WORDS['llvm-cpu']} could not be asked which outputs are right ({self.host}): "
                    f"{self.against} is taken for right; {_GIVE}"
                )
            else:
                noise = self.host[1]
                self.rounding = max(self.rounding, min(_ROOM * noise.relative, _MOST))
                self.unstable = min(_ROOM * noise.share, _UNSTABLE)
        return None if isinstance(self.host, str) else self.host[0]

    def _compared(self, found: Computed, wanted: Computed) -> Check:
        check = same_outputs(found, wanted, tolerance=self.tolerance, rounding=self.rounding, unstable=self.unstable)
        if check.ok and check.detail and check.detail not in self.compared:
            self.compared = ", ".join(filter(None, (self.compared, check.detail)))
        return check


_GIVE = "--expected FILE.npy with the outputs of the framework that made the model would decide"


def same_outputs(
    found: Computed, wanted: Computed, *, tolerance: float | None, rounding: float, unstable: float = 0.0
) -> Check:
    """The worst check of the outputs, each compared like the result of a single problem.

    Without a user's `tolerance`, numbers may differ by the relative error `rounding`, and whole ones not at all, but
    for the `unstable` share. The detail of a right one says how it was compared where that was another way.
    """
    if found.failure is not None:
        return Check(found.failure, math.inf, found.detail)
    worst = Check(None, 0.0)
    for number, (one, other) in enumerate(zip(found.arrays, wanted.arrays, strict=True)):
        if one.shape != other.shape:
            return Check("wrong-result", math.inf, f"output {number} has shape {one.shape}, not {other.shape}")
        expected = 0.0 if other.dtype.kind in "biu" else rounding
        allowed = expected if tolerance is None else tolerance
        wide = other.astype(np.float64)
        check = compare(one, wide, Bound.relative(wide, allowed))
        if not check.ok:
            check = _ill_conditioned(one, wide, check, allowed=allowed, unstable=unstable, number=number)
        if not check.ok:
            return Check(check.failure, check.error, f"output {number}: {check.detail}")
        details = ", ".join(filter(None, (worst.detail, check.detail)))
        worst = replace(max(worst, check, key=lambda c: c.error), detail=details)
    return worst


def _ill_conditioned(one: Array, wide: Array, check: Check, *, allowed: float, unstable: float, number: int) -> Check:
    """The check of an output that is off, by what it was made of: random weights give a softmax that is nearly all in
    one place, and an argmax between equals."""
    if one.dtype.kind in "biu":
        share = float(np.mean(one != wide))
        told = f"output {number} may differ in {unstable:.2g} of its whole numbers"
        return Check(None, share, told) if share <= unstable else check
    axis, narrow = _softmax_axis(wide), one.astype(np.float64)
    if axis is None or not np.abs(narrow.sum(axis) - wide.sum(axis)).max() <= allowed:
        return check
    logits, right = (np.log(np.maximum(array, _tiny(one))) for array in (narrow, wide))
    scale = Bound.relative(right - right.mean(axis, keepdims=True), min(allowed, _MOST_OF_LOGITS))
    by_logits = compare(logits, right, scale)
    return replace(by_logits, detail=f"output {number} by the logits of its softmax") if by_logits.ok else check


def _softmax_axis(array: Array) -> int | None:
    """The axis along which these are probabilities."""
    if not array.size or array.min() < 0:
        return None
    for axis in reversed(range(array.ndim)):
        if array.shape[axis] > 1 and np.abs(array.sum(axis) - 1).max() < _SUMS_TO_ONE:
            return axis
    return None


def _tiny(array: Array) -> float:
    """The smallest number of the array's type that has all its digits."""
    kinds: Any = ml_dtypes
    return float(kinds.finfo(array.dtype).tiny)


def finite(outputs: Computed) -> bool:
    return all(np.isfinite(array.astype(np.float64)).all() for array in outputs.arrays)


def host_flags(target: Target) -> tuple[str, ...]:
    """The flags of the host's build; attention is decomposed, which is right for all widths."""
    kept = [flag for flag in target.user_flags if flag_name(flag).startswith(_MEANING)]
    more = [_GENERIC] if target.backend.on_host else []
    return Target.parse("cpu", flags=[*kept, *more, *decomposed_attention()]).compile_flags


def compute_on_host(
    builder: ModelBuilder, target: Target, call: Invocation, folder: Path, *, until: float, timeout: float
) -> HostAnswer:
    """The program's outputs on the host, and their sensitivity to the last digit of its inputs; `until` is a
    deadline."""
    try:
        with process.until(until):
            return _computed(builder, target, call, folder, timeout=timeout)
    except OutOfTimeError:
        return "there was no time for it"


def _computed(builder: ModelBuilder, target: Target, call: Invocation, folder: Path, *, timeout: float) -> HostAnswer:
    build = builder.build(BuildJob(builder.program.source, host_flags(target), timeout, dumps=()))
    if not build.ok:
        return f"it does not compile there: {first_error(build.stderr, most=160)}"
    folder.mkdir(parents=True, exist_ok=True)
    device = ProcessDevice(builder.tools, LLVM_CPU.device, folder)
    calls = [call, nudged(call, folder)]
    outputs, moved = device.check(build.vmfb, calls, timeout=timeout)
    if outputs.failure is not None:
        return f"it does not run there: {failed_because(outputs.detail)}"
    return outputs, noise(outputs, moved) if calls[1] != call else Noise()


def nudged(call: Invocation, folder: Path) -> Invocation:
    """The call with all inputs in files changed in their last digit."""
    texts = [_nudged(text, folder / f"nudged{number}", number) for number, text in enumerate(call.inputs)]
    return replace(call, inputs=tuple(texts))


def _nudged(text: str, path: Path, seed: int) -> str:
    form, raw, file = text.partition("=@")
    if not raw and text.startswith("@") and text.endswith(".npy"):
        array = read_npy(text[1:])
        if array.dtype.kind == "f":
            np.save(path.with_suffix(".npy"), _moved(array, float(np.finfo(array.dtype).eps), seed))
            return f"@{path.with_suffix('.npy')}"
        return text
    element = form.rpartition("x")[2]
    if not raw or element not in UNITS:
        return text
    numbers: Array = np.fromfile(file, element_type(element).numpy)
    write_raw(_moved(numbers, 2 * UNITS[element], seed), path.with_suffix(".bin"))
    return f"{form}=@{path.with_suffix('.bin')}"


def _moved(array: Array, epsilon: float, seed: int) -> Array:
    """The array with each number moved by about a unit in its last place, up or down."""
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), array.shape)
    moved: Array = (array.astype(np.float64) * (1 + epsilon * signs)).astype(array.dtype)
    return moved


def noise(outputs: Computed, moved: Computed) -> Noise:
    if moved.failure is not None:
        return Noise()
    found, shares = [0.0], [0.0]
    for one, other in zip(outputs.arrays, moved.arrays, strict=True):
        if one.dtype.kind in "biu":
            shares.append(float(np.mean(one != other)) if one.size and one.shape == other.shape else 0.0)
            continue
        wide = one.astype(np.float64)
        own = float(np.sqrt(np.square(wide).mean())) if wide.size else 0.0
        change = float(np.sqrt(np.square(other.astype(np.float64) - wide).mean())) if wide.size else 0.0
        found.append(change / own if own and np.isfinite(change) else 0.0)
    return Noise(max(found), max(shares))
