"""Runs programs that may not write files or use the network, where the system supports it: Linux's Landlock.

Landlock restricts the thread that asks for it and what that starts, so a program is started by a thread of its own.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
_CREATE, _ADD, _RESTRICT = 444, 445, 446
"""System calls, by the numbers that all architectures have for them."""


def supported() -> int:
    """The version of Landlock that this system has; 0 where it has none."""
    ask_version = 1
    return max(0, int(_call(_CREATE, None, 0, ask_version)))


def confined(folder: Path, make: Callable[[], T]) -> T:
    """What `make` gives, in a thread that writes to nothing but this folder and /dev/null; else as it is."""
    found: list[T] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with suppress(OSError):
                _restrict(folder)
            found.append(make())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]


def _restrict(folder: Path) -> None:
    version = supported()
    if not version:
        return
    writes, refer, truncate = 0b1111111110010, 1 << 13, 1 << 14  # also making and removing files, sockets and links
    tcp, scoped = 0b11, 0b11  # binding and connecting; abstract sockets of others, and signals to them
    beneath, no_new_privileges = 1, 38
    rights = writes | (refer if version >= 2 else 0) | (truncate if version >= 3 else 0)
    of_file = rights & (0b10 | truncate)
    asked = struct.pack("=QQQ", rights, tcp, scoped)[: 8 if version < 4 else 16 if version < 6 else 24]
    rules = _checked(_CREATE, asked, len(asked), 0)
    try:
        for path, allowed in ((folder, rights), (Path(os.devnull), of_file)):
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
            try:
                _checked(_ADD, rules, beneath, struct.pack("=Qi", allowed, place), 0)
            finally:
                os.close(place)
        if ctypes.CDLL(None).prctl(no_new_privileges, 1, 0, 0, 0) == 0:
            _checked(_RESTRICT, rules, 0)
    finally:
        os.close(rules)


def _checked(number: int, *words: object) -> int:
    found = _call(number, *words)
    if found < 0:
        raise OSError(ctypes.get_errno(), "landlock")
    return found


def _call(number: int, *words: object) -> int:
    try:
        return int(ctypes.CDLL(None, use_errno=True).syscall(number, *words))
    except (OSError, AttributeError):  # no Linux
        return -1
