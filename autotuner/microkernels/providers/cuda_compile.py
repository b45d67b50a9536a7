"""Run as a program: compiles CUDA C++ by NVRTC, without a GPU.

It stands by itself, so that it starts at once; what NVRTC does to its process, it does to this one.
"""

from __future__ import annotations

import ctypes
import json
import sys
from dataclasses import dataclass
from pathlib import Path

NOT_LOADED = 5
"""The exit code where the library is at fault, not the source."""


@dataclass(frozen=True, slots=True)
class Job:
    """The input of the compiling process."""

    library: str
    name: str
    source: str
    headers: dict[str, str]
    """Headers by the names in `#include`."""
    options: list[str]


class Nvrtc:
    """The NVRTC library's functions that are needed here."""

    def __init__(self, library: str) -> None:
        self._library = ctypes.CDLL(library)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def compile(self, job: Job) -> tuple[bytes | None, str]:
        """Compiles a job: the cubin, or None where the source has errors, and the compiler's log."""
        program = ctypes.c_void_p()
        names, texts = _strings(list(job.headers)), _strings(list(job.headers.values()))
        given = (job.source.encode(), job.name.encode(), len(job.headers), texts, names)
        self._must("nvrtcCreateProgram", ctypes.byref(program), *given)
        code = self._library.nvrtcCompileProgram(program, len(job.options), _strings(job.options))
        log = self._bytes("nvrtcGetProgramLog", program).rstrip(b"\0").decode(errors="replace")
        if code:
            return None, log or f"error: {self._error(code)}"
        return self._bytes("nvrtcGetCUBIN", program), log

    def _bytes(self, name: str, program: ctypes.c_void_p) -> bytes:
        size = ctypes.c_size_t()
        self._must(f"{name}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._must(name, program, buffer)
        return buffer.raw

    def _must(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code:
            raise OSError(f"{name}: {self._error(code)}")

    def _error(self, code: int) -> str:
        text: bytes = self._library.nvrtcGetErrorString(code)
        return text.decode()


def _strings(texts: list[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * len(texts))(*(text.encode() for text in texts))


def main(arguments: list[str]) -> int:
    """`JOB OUT`: compiles the job in one file into another."""
    try:
        job = Job(**json.loads(Path(arguments[0]).read_text()))
        cubin, log = Nvrtc(job.library).compile(job)
    except (OSError, AttributeError) as error:
        sys.stderr.write(f"error: {error}\n")
        return NOT_LOADED
    sys.stderr.write(log)
    if cubin is None:
        return 1
    Path(arguments[1]).write_bytes(cubin)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
