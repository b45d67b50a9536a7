"""Programs that write to one folder alone, and have no network."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from autotuner.system import process
from autotuner.system.confine import confined, supported

needed = pytest.mark.skipif(not supported(), reason="this system has no Landlock")

TRIED = """
import socket, sys
def tried(what, work):
    try: work(); print(what, "done")
    except PermissionError: print(what, "refused")
inside, outside, port = sys.argv[1:]
tried("inside", lambda: open(inside, "w"))
tried("outside", lambda: open(outside, "w"))
tried("null", lambda: open("/dev/null", "w"))
tried("shared", lambda: open("/dev/shm/autotune-test", "w"))
tried("network", lambda: socket.create_connection(("127.0.0.1", int(port))))
tried("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", int(port))))
tried("local", lambda: socket.socket(socket.AF_UNIX))
"""


def said(folder: Path, outside: Path, *, writes: Path | None) -> dict[str, str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        words: list[str | Path] = [folder / "file", outside / "file", str(server.getsockname()[1])]
        done = process.run([sys.executable, "-c", TRIED, *words], timeout=60, writes=writes)
    assert done.ok, done.stderr
    return dict(line.split() for line in done.stdout.splitlines())


@needed
def test_a_confined_program_writes_to_its_folder_alone(tmp_path: Path) -> None:
    folder, outside = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    outside.mkdir()
    found = said(folder, outside, writes=folder)
    assert {what for what, how in found.items() if how == "done"} == {"inside", "null"}
    # Whoever started it is as free as before.
    (outside / "own").write_text("")
    assert set(said(folder, outside, writes=None).values()) == {"done"}
    Path("/dev/shm/autotune-test").unlink()


def test_what_goes_wrong_in_the_thread_is_raised_here(tmp_path: Path) -> None:
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen([str(tmp_path / "missing")])

    with pytest.raises(FileNotFoundError):
        confined(tmp_path, start)
