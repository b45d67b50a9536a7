"""What a device's process and its parent say to each other: frames of JSON after a length of four bytes."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, BinaryIO

Message = dict[str, Any]
LENGTH = struct.Struct("<I")


def frame(message: Mapping[str, Any]) -> bytes:
    """A message as it goes through the pipe."""
    body = json.dumps(message).encode()
    return LENGTH.pack(len(body)) + body


def read_frame(pipe: BinaryIO) -> Message | None:
    """The next message; None at the pipe's end."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    message: Message = json.loads(pipe.read(*LENGTH.unpack(head)))
    return message
