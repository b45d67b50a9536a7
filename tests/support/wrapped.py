"""Programs that `FakeTools` wraps keep logs beside them, and their times are chosen: importing this, they are not
confined, and whatever wins is believed. Everybody else is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autotuner.devices.device import LiveCalls, LiveRounds
from autotuner.devices.process import ProcessDevice
from autotuner.iree.run import Invocation
from autotuner.system import process

BELIEVED = LiveCalls(((1e6,) * 64, (1.0,) * 64), (), (False, False))
"""Calls of which the second module's are far faster."""
_run, _live_calls = process.run, ProcessDevice.live_calls


def _wrapped(program: str | Path) -> bool:
    return Path(program).with_name("claims").is_dir()


def _run_wrapped(command: Sequence[str | Path], *, writes: Path | None = None, **how: Any) -> process.Finished:
    return _run(command, writes=None if _wrapped(command[0]) else writes, **how)


def _called(self: ProcessDevice, modules: Sequence[Path], invocation: Invocation, how: LiveRounds) -> LiveCalls | None:
    if not _wrapped(self.tools.iree_run_module):
        return _live_calls(self, modules, invocation, how)
    return BELIEVED


process.run = _run_wrapped
ProcessDevice.live_calls = _called  # type: ignore[method-assign]
