"""Runs IREE's programs: argument lists, a time-out each, their own process group, stderr kept."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from autotuner.errors import INSTALL_IREE, OutOfTimeError, ToolMissingError
from autotuner.system import start as start_module
from autotuner.system import watcher
from autotuner.system.confine import confined

_KEEP = 32 * 1024
"""Characters of stderr that are kept, at each end."""
CUT = "\n[…]\n"
"""The mark of the omitted middle of a long stderr."""
_MOST_PRINTED = 1 << 28
"""Bytes on stdout, which are all kept; who prints more is killed."""
T = TypeVar("T")
_deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)
_gives_way: ContextVar[bool] = ContextVar("gives_way", default=False)
_LAST_WORDS = 5.0
"""Seconds for what a killed program had printed."""
_FOREVER = 1e6
"""Seconds that stand for no limit, which the system can wait for."""


@dataclass
class _Scope:
    """Programs that are killed together."""

    pids: set[int] = field(default_factory=set)
    ended: bool = False

    def end(self) -> None:
        """Kills all; a program that is just being started is killed by its starter."""
        self.ended = True
        for pid in list(self.pids):
            _signal_group(pid, signal.SIGKILL)


_all = _Scope()
_scope: ContextVar[_Scope] = ContextVar("scope", default=_all)


@dataclass(frozen=True, slots=True)
class Finished:
    """How a program ended."""

    code: int
    stdout: str
    stderr: str
    seconds: float
    timed_out: bool

    @property
    def ok(self) -> bool:
        return self.code == 0 and not self.timed_out

    def why(self) -> str:
        """stderr's tail, with the signal named where one ended the program."""
        if self.timed_out:
            return f"killed after {self.seconds:.0f} s\n{self.stderr}".strip()
        if self.code < 0:
            with contextlib.suppress(ValueError):
                return f"ended by {signal.Signals(-self.code).name}\n{self.stderr}".strip()
        return self.stderr.strip() or f"exit code {self.code} without a message"


def last_line(text: str) -> str:
    """The last line of a program's output, where a failing run names its reason."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


@contextlib.contextmanager
def until(moment: float) -> Iterator[None]:
    """A deadline, by `time.monotonic()`, of all programs that are started within; of nested ones the earlier holds.

    A program that is cut short raises OutOfTimeError, which is not its failure.
    """
    with _set(_deadline, min(moment, _deadline.get())):
        yield


@contextlib.contextmanager
def however_late(*, latest: float = math.inf) -> Iterator[None]:
    """Extends the deadline for work that must be finished once begun.

    `latest` is a moment of `time.monotonic()` that even that does not outlive.
    """
    with _set(_deadline, latest):
        yield


@contextlib.contextmanager
def behind_timings() -> Iterator[None]:
    """Lowers the priority of programs that are started within, so that timings do not wait for a core."""
    with _set(_gives_way, True):
        yield


@contextlib.contextmanager
def _set(variable: ContextVar[T], value: T) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


@contextlib.contextmanager
def ended_by_an_error() -> Iterator[None]:
    """An error that leaves this block kills all programs that `run` started within, in any thread.

    Their results are not needed any more, and must not delay the message.
    """
    scope = _Scope()
    try:
        with _set(_scope, scope):
            yield
    except BaseException:
        scope.end()
        raise


def seconds_left() -> float:
    """Seconds until the deadline of `until`."""
    return deadline() - time.monotonic()


def deadline() -> float:
    """The deadline of `until`, by `time.monotonic()`."""
    return _deadline.get()


def raise_if_late() -> None:
    """Raises OutOfTimeError after the deadline of `until`, for long work of this process."""
    if seconds_left() <= 0:
        raise OutOfTimeError


def own_module(module: str, *words: str | Path) -> list[str | Path]:
    """The command that runs a module of this package, without the current folder on its path."""
    return [sys.executable, "-P", start_module.__file__, module, *words]


def run(
    command: Sequence[str | Path], *, timeout: float, cwd: Path | None = None, writes: Path | None = None
) -> Finished:
    """Runs a program to its end, or to the time-out, which kills the process group.

    With `writes` it can write to this folder only, and has no network, where the system supports that.
    """
    raise_if_late()
    start = time.perf_counter()
    words = ["nice", *command] if _gives_way.get() else command
    try:
        child = _begin(words, writes, cwd=cwd, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    except OSError as error:
        short = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EAGAIN)
        remedy = "Free some space or memory." if short else INSTALL_IREE
        raise ToolMissingError(f"{command[0]} cannot be run: {error.strerror}.", remedy=remedy) from error
    timed_out = cut_off = False
    out, err = bytearray(), bytearray()
    try:
        _drain(child, out, err, min(timeout, seconds_left(), _FOREVER))
    except subprocess.TimeoutExpired:
        timed_out, cut_off = True, seconds_left() <= 0
        _signal_group(child.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # one that left the group may hold the pipes
            _drain(child, out, err, _LAST_WORDS)
    finally:
        end(child)
    _raise_if_closing()
    if cut_off:
        raise OutOfTimeError
    return Finished(
        code=child.returncode,
        stdout=out.decode(errors="replace"),
        stderr=_shortened(err.decode(errors="replace")),
        seconds=time.perf_counter() - start,
        timed_out=timed_out,
    )


def _drain(child: subprocess.Popen[bytes], out: bytearray, err: bytearray, seconds: float) -> None:
    """Takes what a program prints until it ends. A gigabyte on stderr is not kept, nor is one on stdout waited for,
    nor what it has started and left behind with its pipes."""
    ends = time.monotonic() + seconds
    with selectors.DefaultSelector() as pipes, _ending(child) as ending:
        for pipe, kept in ((child.stdout, out), (child.stderr, err), (ending, None)):
            if pipe is not None:
                pipes.register(pipe, selectors.EVENT_READ, kept)
        over = False
        while any(key.data is not None for key in pipes.get_map().values()):
            if (left := ends - time.monotonic()) <= 0:
                raise subprocess.TimeoutExpired(child.args, seconds)
            ready = [key for key, _ in pipes.select(0 if over else left)]
            if over and not ready:
                break
            for key in ready:
                if key.data is None:
                    over = True
                    _signal_group(child.pid, signal.SIGKILL)  # what it leaves behind; it is not reaped yet
                    pipes.unregister(key.fileobj)
                    continue
                data = os.read(key.fd, 1 << 16)
                key.data.extend(data)
                if not data:
                    pipes.unregister(key.fileobj)
            if len(err) > 16 * _KEEP:  # a character has four bytes at most
                del err[4 * _KEEP : -4 * _KEEP]
            if len(out) > _MOST_PRINTED:
                out.clear()
                err.extend(f"\nkilled: it printed more than {_MOST_PRINTED >> 20} MiB".encode())
                _signal_group(child.pid, signal.SIGKILL)
    child.wait(max(0.0, ends - time.monotonic()))


@contextlib.contextmanager
def _ending(child: subprocess.Popen[bytes]) -> Iterator[int | None]:
    """What can be read from when a program has ended; None where the system has no such thing."""
    found = None
    with contextlib.suppress(OSError, AttributeError):
        found = os.pidfd_open(child.pid)
    try:
        yield found
    finally:
        if found is not None:
            os.close(found)


def start(
    command: Sequence[str | Path], *, stderr: BinaryIO, cwd: Path | None = None, writes: Path | None = None
) -> subprocess.Popen[bytes]:
    """Starts a program with pipes, which runs until `end`; `writes` as with `run`.

    When memory runs out the system kills it rather than the run's own process.
    """
    with _set(_scope, _all):
        # What a dead program did not take must not wait to be flushed.
        child = _begin(command, writes, cwd=cwd, stdin=subprocess.PIPE, stderr=stderr, bufsize=0)
    with contextlib.suppress(OSError):
        Path(f"/proc/{child.pid}/oom_score_adj").write_text("1000")
    return child


def _begin(command: Sequence[str | Path], writes: Path | None, **how: Any) -> subprocess.Popen[bytes]:
    _raise_if_closing()
    marked = {**watcher.environment(_watched()), "TMPDIR": str(_own_temporary())}

    def begun() -> subprocess.Popen[bytes]:
        words = [str(word) for word in command]
        return subprocess.Popen(words, start_new_session=True, env=marked, stdout=subprocess.PIPE, **how)

    child = begun() if writes is None else confined(writes, begun)
    for scope in (_all, _scope.get()):
        scope.pids.add(child.pid)
        if scope.ended:
            _signal_group(child.pid, signal.SIGKILL)
    return child


def end(child: subprocess.Popen[bytes]) -> None:
    """Kills a started program with its process group, unless it has ended."""
    if child.returncode is None:
        _signal_group(child.pid, signal.SIGKILL)
    with child:
        child.wait()
    for scope in (_all, _scope.get()):
        scope.pids.discard(child.pid)


@cache
def _watched() -> str:
    """The environment mark of all programs of this process, by which its watcher kills leftovers."""
    mark = secrets.token_hex(8)
    command, nowhere = [sys.executable, "-I", "-S", watcher.__file__, mark], subprocess.DEVNULL
    with contextlib.suppress(OSError):  # the work goes on all the same
        _watchers.append(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=nowhere, stderr=nowhere, start_new_session=True)
        )
    return mark


_watchers: list[subprocess.Popen[bytes]] = []


@contextlib.contextmanager
def temporary(prefix: str, folder: Path | None = None) -> Iterator[Path]:
    """A temporary folder, which is removed also when this process is killed."""
    made = _made(prefix, folder)
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@cache
def _own_temporary() -> Path:
    """The folder for temporary files of all programs of this process. Its watcher removes it, however it ends."""
    return _made("autotune-", None)


def _made(prefix: str, folder: Path | None) -> Path:
    made = Path(folder or tempfile.gettempdir()).absolute() / f"{prefix}{secrets.token_hex(8)}"
    removed_if_killed(made)
    made.mkdir(mode=0o700)
    return made


def removed_if_killed(path: Path) -> None:
    """A file or folder that this process will make, and remove unless it is killed."""
    _watched()
    with contextlib.suppress(OSError, IndexError):  # without a watcher it is removed all the same, but for a kill
        pipe = _watchers[-1].stdin
        assert pipe is not None
        pipe.write(os.fsencode(path) + b"\0")
        pipe.flush()


def halt(pid: int) -> None:
    """Stops a started program with its process group until `go_on`, so that not even idle threads take a core."""
    _signal_group(pid, signal.SIGSTOP)


def go_on(pid: int) -> None:
    """Continues a stopped program."""
    _signal_group(pid, signal.SIGCONT)


def _shortened(text: str) -> str:
    """A long output without its middle: the first error is at the top, the reason for a crash at the bottom."""
    return text if len(text) <= 2 * _KEEP else f"{text[:_KEEP]}{CUT}{text[-_KEEP:]}"


class Closing(Exception):
    """autotune is ending: nothing is started any more, and killed programs have no results."""


def shut_down() -> None:
    """Kills every program and starts no other, for a second Ctrl-C."""
    _all.end()


def _raise_if_closing() -> None:
    if _all.ended or _scope.get().ended:
        raise Closing


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)


# --- Long computations of this process ------------------------------------------------------------------------------

PIECE = 2 * 10**10
"""Flops between looks at the clock, about a second of numpy."""


def in_parts(parts: Sequence[T]) -> Iterator[T]:
    """Yields parts of long work until the deadline."""
    for one in parts:
        raise_if_late()
        yield one
