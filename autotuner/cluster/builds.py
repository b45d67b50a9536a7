"""Builds of a run on a cluster: on whichever worker has room, and on another where that one is lost."""

from __future__ import annotations

import asyncio
import json
import math
import uuid
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from distributed import KilledWorker
from distributed.client import FutureCancelledError

from autotuner.build.builder import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.build.jobs import Document, failed_answer
from autotuner.cluster import tasks
from autotuner.cluster.attendance import Attendance, UnderWay
from autotuner.cluster.facts import BUILD
from autotuner.cluster.link import ANSWER_SECONDS, first
from autotuner.cluster.wire import Message, raise_from_json
from autotuner.errors import OutOfTimeError
from autotuner.system import process

T = TypeVar("T")
_COMPILES = 4
"""Compiles that a build is made of at the most, each with its own time-out, and one that it waited for."""


@dataclass(frozen=True)
class Builds:
    """Sends builds out."""

    here: Attendance

    def executor(self, builder: Builder, here: Executor, answers: Executor | None = None) -> BuildExecutor:
        workers, work = _Workers(self), cast(Callable[[Document], Document], tasks.build_here)
        return BuildExecutor(builder, workers, work, here, answers, elsewhere=True)

    async def build(self, job: Document, left: float) -> Message:
        """One build, on whichever worker has room; on another where that one is lost."""
        end = asyncio.get_running_loop().time() + left
        limit = _COMPILES * job["timeout"] + ANSWER_SECONDS
        while True:
            now = asyncio.get_running_loop().time()
            if end <= now:
                raise OutOfTimeError
            answer = await self._attempt(job, end - now, limit)
            if answer is not None:
                raise_from_json(answer, worker="")
                return answer

    async def _attempt(self, job: Document, left: float, limit: float) -> Message | None:
        """None where its worker is lost."""
        if self.here.down:
            raise self.here.gone()
        workers = [member.address for member in self.here.roster.builders()]
        if not workers:
            await self.here.wait_for_workers()
            return None
        key, sent = f"build-{uuid.uuid4().hex}", UnderWay(frozenset(workers))
        self.here.builds[key] = sent
        given = left if math.isfinite(left) else None
        future = self.here.link.client.submit(
            tasks.build_here,
            json.dumps(job).encode(),
            given,
            key=key,
            workers=workers,
            resources={BUILD: 1},
            pure=False,
        )
        try:
            answer: Message | None = await first(future, sent.moved, min(left + ANSWER_SECONDS, limit))
            return answer
        except TimeoutError:
            await self._drop_worker_of(key, limit)
            return None
        except FutureCancelledError as error:
            raise self.here.forgotten(error) from error
        except KilledWorker as error:
            return failed_answer(job, f"the workers that compiled it died, one after the other: {error}")
        finally:
            del self.here.builds[key]
            with suppress(Exception):
                future.release()

    async def _drop_worker_of(self, key: str, seconds: float) -> None:
        under_way = await self.here.link.client.processing()
        holder = next((address for address, keys in under_way.items() if key in keys), None)
        for member in self.here.roster.builders():
            if member.address == holder:
                self.here.roster.drop(member, f"has not finished a build in {seconds:.0f} s")
                await self.here.move_builds({member.address})


@dataclass(frozen=True)
class _Workers(Executor):
    """Where a BuildExecutor's jobs go."""

    builds: Builds

    def submit(self, fn: Callable[..., T], /, *words: Any, **named: Any) -> Future[T]:
        del fn, named
        (job,) = words
        work: Any = self.builds.build(job, process.seconds_left())
        return self.builds.here.link.start(work)
