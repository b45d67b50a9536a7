"""What runs share that follow one another."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict, Unpack

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.build.machines import Wanted, machines_here
from autotuner.devices.device import Device
from autotuner.devices.environment import is_emulated
from autotuner.devices.many import Devices
from autotuner.iree.tools import Tools
from autotuner.store.store import Store
from autotuner.system.cache import Cache
from autotuner.system.locks import workspace_lock
from autotuner.system.progress import Log, Prefixed, Reporter, Silent, Stop, Watcher
from autotuner.system.settings import cache_dir, usable_cores
from autotuner.system.workspace import Workspace
from autotuner.targets import NO_DEVICE, Target
from autotuner.tuning.options import Options


class Watched(TypedDict, total=False):
    """Who watches a command and may stop it, and by which programs it works."""

    reporter: Reporter | None
    stop: Stop | None
    tools: Tools | None


@dataclass(frozen=True)
class Session:
    """The workspace and the device, held; the store; who watches."""

    named: str
    """As `--device` names what is timed on: one URI, several with commas, or `none`."""
    reporter: Watcher
    stop: Stop
    tools: Tools
    workspace: Workspace
    store: Store
    executor: BuildExecutor
    devices: Devices
    """What runs and times modules; it is there without a device, too, and then nobody asks it."""
    log: Log | None = None
    """Of all that follows, parts included."""
    parent: str | None = None
    """The run that the next one is a part of."""
    began: float = field(default_factory=time.monotonic)
    """When the time of the next run began: with the command, not when all is open."""
    environment: Mapping[str, Any] | None = None
    """Of the run that the next one is a part of, or of a device elsewhere: the device's own tool is asked once."""
    jobs: int = field(default_factory=usable_cores)
    """Builds at once."""
    shares_cores: bool = False
    """Builds would disturb timings: they are on the same processor."""
    emulated: bool = False
    """The device computes and is never timed."""
    chip: str = ""
    """What microkernels are for: the chip of the devices, or the one that the user says will time."""

    @property
    def runner(self) -> Device:
        """The device of what must stay on one."""
        return self.devices.first

    @property
    def device(self) -> str:
        """The URI of the first that the user names: what a command says that a person repeats by hand."""
        return self.named.partition(",")[0]

    @property
    def timed(self) -> bool:
        """Whether there is a device whose times mean something."""
        return self.device != NO_DEVICE and not self.emulated

    @property
    def builder(self) -> Builder:
        return self.executor.builder

    def within(self, run: str, prefix: str, environment: Mapping[str, Any]) -> Session:
        """For a part of a run: its row says so, and so do its stages and notes."""
        reporter = Prefixed(self.reporter, prefix)
        return replace(self, parent=run, reporter=reporter, began=time.monotonic(), environment=environment)

    def saying(self, prefix: str) -> Session:
        """For a step of a part, within the same time."""
        return replace(self, reporter=Prefixed(self.reporter, prefix))

    @classmethod
    @contextmanager
    def open(
        cls,
        target: Target,
        options: Options,
        **watched: Unpack[Watched],
    ) -> Iterator[Session]:
        """Without a watcher nothing is reported, without a stop nothing interrupts it; tools are those of `options`."""
        began = options.began if options.began is not None else time.monotonic()
        if options.cluster is None:
            target.choose_devices(options.device)  # what cannot be meant is refused before anything is written
        found = watched.get("tools") or Tools.find(options.iree_tools)
        workspace = Workspace.open(options.workspace)
        watcher, stop = Log(watched.get("reporter") or Silent(), began=began), watched.get("stop") or Stop()
        for warning in found.warnings():
            watcher.note(warning)
        with ExitStack() as stack:
            stack.enter_context(workspace_lock(workspace.root))
            store = stack.enter_context(Store.open(options.storage, workspace=workspace.root))
            store.settle_killed()  # the workspace is ours alone
            builder = Builder(found, Cache(cache_dir()))
            wanted = Wanted(target, options.device, options.jobs, options.isolate)
            if options.cluster is not None:
                opening = options.cluster.machines(builder, wanted, note=watcher.note)
            else:
                opening = machines_here(builder, wanted, note=watcher.note, given_up=lambda: stop.requested)
            at_work = stack.enter_context(opening)
            yield cls(
                at_work.named,
                watcher,
                stop,
                found,
                workspace,
                store,
                at_work.executor,
                at_work.devices,
                log=watcher,
                began=began + at_work.waited,
                environment=at_work.environment,
                jobs=at_work.jobs,
                shares_cores=at_work.shares_cores,
                emulated=options.emulated or is_emulated(at_work.named),
                chip=at_work.chip,
            )
