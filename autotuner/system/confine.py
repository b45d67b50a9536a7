"""Runs programs that may not write files or open sockets, where the system supports it: Linux's Landlock and seccomp.

Both restrict the thread that asks for it and what that starts, so a program is started by a thread of its own.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""Landlock's system calls, by numbers that all architectures share."""


_SECCOMP = {"x86_64": (317, 41, 0xC000003E), "aarch64": (277, 198, 0xC00000B7)}
"""The calls `seccomp` and `socket`, and the number that stands for the architecture's calls."""


def supported() -> int:
    """The system's version of Landlock; 0: it has none."""
    ask_version = 1
    return max(0, int(_call(_CREATE, None, 0, ask_version)))


def confined(folder: Path, make: Callable[[], T]) -> T:
    """The result of `make`, in a thread that can write to this folder and /dev/null only, where that is supported."""
    found: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for restrict in (_without_sockets, lambda: _without_writes(folder)):
                with suppress(OSError):
                    restrict()
            found.append(make())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def _without_sockets() -> None:
    """By a filter of system calls: Landlock knows those of TCP alone."""
    if not hasattr(ctypes.CDLL(None), "prctl") or platform.machine() not in _SECCOMP:
        return
    seccomp, socket, calls = _SECCOMP[platform.machine()]
    io_uring, other_numbers = 425, 1 << 30  # it opens sockets, too; and x86 has each call by a second number
    load, equal, at_least, end, allow, refuse = 0x20, 0x15, 0x35, 0x06, 0x7FFF0000, 0x50000 | errno.EACCES
    steps = (
        (load, 0, 0, 4),
        (equal, 0, 5, calls),
        (load, 0, 0, 0),
        (equal, 3, 0, socket),
        (equal, 2, 0, io_uring),
        (at_least, 1, 0, other_numbers),
        (end, 0, 0, allow),
        (end, 0, 0, refuse),
    )
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    filter_mode, at_full_speed = 1, 1 << 2
    _no_new_privileges()
    _checked(seccomp, filter_mode, at_full_speed, struct.pack("@HP", len(steps), ctypes.addressof(code)))


def _no_new_privileges() -> None:
    if ctypes.CDLL(None).prctl(38, 1, 0, 0, 0):
        raise OSError(errno.EPERM, "no_new_privs")


def _without_writes(folder: Path) -> None:
    version = supported()
    if not version:
        return
    writes, refer, truncate = 0b1111111110010, 1 << 13, 1 << 14  # also making and removing files, sockets and links
    scoped, beneath = 0b11, 1  # abstract sockets of others, and signals to them
    rights = writes | (refer if version >= 2 else 0) | (truncate if version >= 3 else 0)
    of_file = rights & (0b10 | truncate)
    asked = struct.pack("=QQQ", rights, 0, scoped)[: 8 if version < 6 else 24]
    rules = _checked(_CREATE, asked, len(asked), 0)
    try:
        for path, allowed in ((folder, rights), (Path(os.devnull), of_file)):
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                _checked(_ADD, rules, beneath, struct.pack("=Qi", allowed, place), 0)
            finally:
                os.close(place)
        _no_new_privileges()
        _checked(_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _checked(number: int, *words: object) -> int:
    found = _call(number, *words)
    if found < 0:
        raise OSError(ctypes.get_errno(), "confinement")
    return found


def _call(number: int, *words: object) -> int:
    try:
        return int(ctypes.CDLL(None, use_errno=True).syscall(number, *words))
    except (OSError, AttributeError):  # no Linux
        return -1
