"""What runs share that follow one another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, Unpack

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.devices.device import Device
from autotuner.devices.opening import open_device
from autotuner.devices.process import ProcessDevice
from autotuner.iree.tools import Tools
from autotuner.store.store import Store
from autotuner.system.cache import Cache
from autotuner.system.locks import device_lock, workspace_lock
from autotuner.system.progress import Prefixed, Reporter, Silent, Stop
from autotuner.system.settings import cache_dir, usable_cores
from autotuner.system.workspace import Workspace
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.options import Options

_PROCESSOR = Target.parse("cpu").device
"""It is there: its process need not be waited for."""


class Watched(TypedDict, total=False):
    """Who watches a command and may stop it, and by which programs it works."""

    reporter: Reporter | None
    stop: Stop | None
    tools: Tools | None


@dataclass(frozen=True)
class Session:
    """The workspace and the device, held; the store; who watches."""

    device: str
    reporter: Reporter
    stop: Stop
    tools: Tools
    workspace: Workspace
    store: Store
    executor: BuildExecutor
    runner: Device
    """What runs and times modules on the device; it is there without one, too, and then nobody asks it."""
    parent: str | None = None
    """The run that the next one is a part of."""
    began: float = field(default_factory=time.monotonic)
    """When the time of the next run began: with the command, not when all is open."""
    environment: Mapping[str, Any] | None = None
    """Of the run that the next one is a part of: the device's own tool is asked once."""

    @property
    def builder(self) -> Builder:
        return self.executor.builder

    def within(self, run: str, prefix: str, environment: Mapping[str, Any]) -> Session:
        """For a part of a run: its row says so, and so do its stages and notes."""
        reporter = Prefixed(self.reporter, prefix)
        return replace(self, parent=run, reporter=reporter, began=time.monotonic(), environment=environment)

    @classmethod
    @contextmanager
    def open(
        cls,
        target: Target,
        options: Options,
        **watched: Unpack[Watched],
    ) -> Iterator[Session]:
        """Without a watcher nobody is told, without a stop nobody stops it, and the programs are those of `options`."""
        began = options.began if options.began is not None else time.monotonic()
        found = watched.get("tools") or Tools.find(options.iree_tools)
        workspace = Workspace.open(options.workspace)
        watcher, stop = watched.get("reporter") or Silent(), watched.get("stop") or Stop()
        for warning in found.warnings():
            watcher.note(warning)
        device = target.choose_device(options.device)
        with ExitStack() as stack:
            stack.enter_context(workspace_lock(workspace.root))
            store = stack.enter_context(Store.open(options.storage, workspace=workspace.root))
            builder = Builder(found, Cache(cache_dir()))
            executor = stack.enter_context(BuildExecutor.local(builder, options.jobs or usable_cores()))
            if device != NO_DEVICE:
                waiting = time.monotonic()
                stack.enter_context(device_lock(device, cache_dir(), on_wait=watcher.note))
                began += time.monotonic() - waiting  # another run's time is not this one's
            scratch = stack.enter_context(builder.cache.scratch())
            alone = ProcessDevice(found, device, scratch, starts_quickly=target.compiles_on_device)
            runner = stack.enter_context(open_device(alone, isolate=options.isolate, state=options.state))
            if device not in (NO_DEVICE, _PROCESSOR):
                runner.open()  # a device that is not there is told before anything is compiled for it
            yield cls(device, watcher, stop, found, workspace, store, executor, runner, began=began)
