"""A Dask client in a thread of its own: what is asked of it from other threads are coroutines."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

import dask
from distributed import Client
from distributed.client import Future as DaskFuture
from distributed.security import Security

from autotuner.cluster.address import Scheduler
from autotuner.errors import EnvironmentFailure
from autotuner.system.waiting import turns

T = TypeVar("T")
CONNECT_SECONDS = 15.0
ANSWER_SECONDS = 20.0
"""An answer may come so much later than the work's own time-out."""
_CLOSE_SECONDS = 5.0


def security_of(scheduler: Scheduler) -> Security:
    """The user's certificates; where none are named, those of Dask's own configuration."""
    if not scheduler.encrypted:
        return Security(require_encryption=False)
    files = {"tls_ca_file": scheduler.ca_file, "tls_client_cert": scheduler.cert, "tls_client_key": scheduler.key}
    files |= {"tls_worker_cert": scheduler.cert, "tls_worker_key": scheduler.key}
    named = {name: str(file.absolute()) for name, file in files.items() if file is not None}
    security = Security(require_encryption=True, **named)
    if not security.tls_ca_file:
        raise EnvironmentFailure(
            f"no certificate authority is named for {scheduler.address}.",
            remedy="Give --tls-ca-file, --tls-cert and --tls-key, or set distributed.comm.tls in Dask's configuration.",
        )
    return security


def unreachable(scheduler: Scheduler, error: BaseException) -> EnvironmentFailure:
    said = str(error).strip().splitlines()
    why = said[-1] if said else type(error).__name__
    return EnvironmentFailure(
        f"the scheduler {scheduler.address} does not answer: {why}",
        remedy="Start `dask scheduler`, and check the address and the certificates.",
    )


@dataclass(eq=False)
class Link:
    """The thread and its client."""

    client: Client
    _loop: asyncio.AbstractEventLoop = field(repr=False)

    @classmethod
    @contextmanager
    def open(cls, scheduler: Scheduler) -> Iterator[Link]:
        # What Dask logs is for whoever runs the cluster: here an error is one line.
        for name in ("distributed", "distributed.client", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        loop = asyncio.new_event_loop()
        thread = threading.Thread(target=loop.run_forever, name="cluster", daemon=True)
        thread.start()
        link: Link | None = None
        try:
            link = cls(_ask(loop, _connected(scheduler)), loop)
            yield link
        finally:
            if link is not None:
                with suppress(Exception):
                    _ask(loop, link.client.close(timeout=_CLOSE_SECONDS))
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_CLOSE_SECONDS)

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Waits for it; an interrupt here ends it there."""
        return _ask(self._loop, work)


def _ask(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


async def _connected(scheduler: Scheduler) -> Client:
    security = security_of(scheduler)
    with dask.config.set({"distributed.comm.timeouts.connect": CONNECT_SECONDS}):
        try:
            return await Client(
                scheduler.address,
                security=security,
                asynchronous=True,
                timeout=CONNECT_SECONDS,
                set_as_default=False,
            )
        except (OSError, ValueError) as error:  # a time-out is an OSError; certificates may be unreadable
            raise unreachable(scheduler, error) from error


async def first(future: DaskFuture, lost: asyncio.Event, seconds: float) -> Any:
    """The result; None where `lost` comes first, TimeoutError where neither comes."""
    result, gone = asyncio.ensure_future(_result(future)), asyncio.ensure_future(lost.wait())
    try:
        for turn in turns(seconds):
            done, _ = await asyncio.wait({result, gone}, timeout=turn, return_when=asyncio.FIRST_COMPLETED)
            if done:
                return result.result() if result in done else None
        raise TimeoutError
    finally:
        result.cancel()
        gone.cancel()


async def _result(future: DaskFuture) -> Any:
    return await future
