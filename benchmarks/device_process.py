"""A device that stays open: a child process that times modules, replaced when it crashes or hangs."""

from __future__ import annotations

import contextlib
import json
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autotuner.carriers.render import FUNCTION
from autotuner.errors import DeviceError
from autotuner.iree.compile import FailureClass
from autotuner.problems import Operand
from autotuner.system import process
from benchmarks.resident import LENGTH, Message, frame

OPEN_SECONDS = 60.0
"""A first context on a GPU takes seconds."""
SAMPLES, SAMPLED_SECONDS = 3, 0.015
"""What a time is the median of, at the least."""
SLOW_SECONDS = 0.05
"""A module whose first call lasts longer is timed by that call: it is many times slower than the baseline."""

_CHECKOUT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Measured:
    """What became of a module on the device."""

    failure: FailureClass | None
    detail: str = ""
    digest: str = ""
    """Of its result: two modules of one digest are right or wrong together."""
    output: Path | None = None
    """Its result, where this child has not given the same before."""
    calls_s: tuple[float, ...] = ()
    load_s: float = 0.0
    seconds: float = 0.0
    """On the device's process, all in all."""

    def ms(self, *, repeat: int) -> float:
        """Of one execution."""
        return statistics.median(self.calls_s) / repeat * 1e3


class Ended(Exception):
    """The child gave no answer."""

    def __init__(self, failure: FailureClass, detail: str) -> None:
        self.failure: FailureClass = failure
        super().__init__(detail)


@dataclass
class DeviceProcess:
    """The parent's side. A child is started when one is needed, and again after it is gone."""

    device: str
    operands: Sequence[Operand]
    paths: Sequence[Path]
    """The operands' bytes; the last are those that the result's storage is poisoned with."""
    folder: Path
    """Where results and the child's stderr are written."""
    timeout: float = 5.0
    """Seconds for one module."""
    started: int = 0
    _child: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def measure(self, module: Path) -> Measured:
        """One call to be checked, then the timing; whatever goes wrong is a failure of this module."""
        start = time.monotonic()
        try:
            self.open()
            found = self._measure(module, end=time.monotonic() + self.timeout)
        except Ended as ended:
            self.close()
            found = Measured(ended.failure, detail=str(ended))
        return replace(found, seconds=time.monotonic() - start)

    def open(self) -> None:
        """Starts the child unless it runs; DeviceError when the device does not open."""
        if self._child is not None and self._child.poll() is None:
            return
        self.close()
        self.started += 1
        with self._log.open("wb") as log:
            self._child = process.start([sys.executable, "-m", "benchmarks.resident"], stderr=log, cwd=_CHECKOUT)
        pairs = zip(self.operands, self.paths, strict=True)
        arguments = [{"path": str(p), "shape": o.shape, "element": o.element.mlir} for o, p in pairs]
        request = {"ask": "open", "device": self.device, "arguments": arguments}
        try:
            answer = self._ask(request, end=time.monotonic() + OPEN_SECONDS)
            why = answer.get("error", "")
        except Ended as ended:
            why = str(ended)
        if why:
            self.close()
            raise DeviceError(f"device {self.device!r} does not open: {why}", remedy="`autotune doctor` lists devices.")

    def close(self) -> None:
        """Ends the child, whatever it does."""
        if self._child is not None:
            process.end(self._child)
        self._child = None

    def _measure(self, module: Path, *, end: float) -> Measured:
        output = self.folder / f"output-{module.parent.name}.bin"
        request: Message = {"ask": "check", "module": str(module), "function": FUNCTION, "output": str(output)}
        checked = self._ask(request, end=end)
        if "error" in checked:
            return self._refused(checked)
        timed: Message = {"calls_s": [checked["call_s"]]}
        if checked["call_s"] < SLOW_SECONDS:
            timed = self._ask({"ask": "time", "samples": SAMPLES, "seconds": SAMPLED_SECONDS}, end=end)
        if "error" in timed:
            return self._refused(timed)
        written = output if checked["new"] else None
        return Measured(
            None, digest=checked["digest"], output=written, calls_s=tuple(timed["calls_s"]), load_s=checked["load_s"]
        )

    def _refused(self, answer: Mapping[str, Any]) -> Measured:
        if not answer["usable"]:
            self.close()
        return Measured("run-error", detail=answer["error"])

    def _ask(self, request: Message, *, end: float) -> Message:
        if self._child is None or self._child.stdin is None or self._child.stdout is None:
            raise Ended("run-error", "no child")
        try:
            self._child.stdin.write(frame(request))
        except OSError as error:
            raise Ended("run-error", self._last_words()) from error
        pipe = self._child.stdout.fileno()
        (size,) = LENGTH.unpack(self._read(pipe, LENGTH.size, end=end))
        return _decoded(self._read(pipe, size, end=end))

    def _read(self, pipe: int, size: int, *, end: float) -> bytes:
        """Exactly so many bytes, before the end of time."""
        data = b""
        while len(data) < size:
            ready, _, _ = select.select([pipe], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise Ended("run-timeout", f"no answer within {self.timeout:g} s")
            part = os.read(pipe, size - len(data))
            if not part:
                raise Ended("run-error", self._last_words())
            data += part
        return data

    @property
    def _log(self) -> Path:
        return self.folder / "device.stderr.txt"

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            return f"the device process ended: {process.last_line(self._log.read_text(errors='replace'))}"
        return "the device process ended"


def _decoded(body: bytes) -> Message:
    message: Message = json.loads(body)
    return message
