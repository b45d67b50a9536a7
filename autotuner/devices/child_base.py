"""Shared by all child processes that time: the framing of messages, and the warm-up before a timing.

Frames are JSON after a length of four bytes. The module imports nothing of autotune: processes of other libraries run
it, too.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

Message = dict[str, Any]
LENGTH = struct.Struct("<I")
STEADY: Mapping[str, float] = {"window": 0.06, "within": 0.003, "most": 0.6}
"""Two windows of so many seconds that differ by no more than this part are one state; in any case so many seconds.

A GPU at its power limit follows what it computes with a delay of some tenths of a second: on an NVIDIA H200 a product
took 7 % longer after another library's, which draws more power, than after itself.
"""
_LONG = 10
"""A call of this many warm-up lengths needs no warm-up: its effect is over in a tenth of the call."""


def frame(message: Mapping[str, Any]) -> bytes:
    """A message as bytes for the pipe."""
    body = json.dumps(message).encode()
    return LENGTH.pack(len(body)) + body


def serve(begin: Callable[[], Callable[[Message], Message]]) -> None:
    """Answers requests with the handler that `begin` gives, until there are no more."""
    # The pipe of answers is ours alone: what a driver or a library prints to stdout goes to stderr.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    answer = begin()
    while (request := _read_frame(sys.stdin.buffer)) is not None:
        answers.write(frame(answer(request)))
        answers.flush()


def _read_frame(pipe: BinaryIO) -> Message | None:
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    message: Message = json.loads(pipe.read(*LENGTH.unpack(head)))
    return message


def needs_warming(call: float, seconds: float) -> bool:
    """Whether a module with calls of this length must be warmed up for these seconds."""
    return call < _LONG * seconds


def warm_up(call: Callable[[], tuple[float, int]], *, least: float, steady: Mapping[str, float] | None) -> None:
    """Calls for so many seconds; with `steady` until the device is in one state. A call gives its seconds, and how many
    executions they were for."""
    spent, before = 0.0, 0.0
    while spent < least:
        spent += call()[0]
    while steady is not None and spent < steady["most"]:
        took, count = 0.0, 0
        while took < steady["window"]:
            seconds, executions = call()
            took, count = took + seconds, count + executions
        spent, now = spent + took, took / count
        if before and abs(now - before) <= steady["within"] * before:
            return
        before = now
