"""Entries appear whole or not at all, and what is damaged counts as absent."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest

from autotuner.errors import StorageError
from autotuner.system.cache import Cache

RECORD: dict[str, Any] = {
    "ok": True,
    "failure": None,
    "stderr": "a warning",
    "seconds": 1.5,
    "binary": "abc",
    "applied": 1,
    "isa": {},
}
KEY = Cache.key(["a job"])


def module(folder: Path, text: str = "a module") -> Path:
    path = folder / "made.vmfb"
    path.write_text(text)
    return path


def test_what_was_stored_is_read_back(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert cache.read(KEY) is None
    folder = cache.store(KEY, RECORD, vmfb=module(tmp_path))
    assert folder == cache.entry(KEY)
    assert cache.read(KEY) == {**RECORD, "sha256": hashlib.sha256(b"a module").hexdigest()}
    assert (folder / "module.vmfb").read_text() == "a module"
    assert list(cache.builds.glob(".making-*")) == []


def test_a_failure_is_kept_without_a_module(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    failed = {**RECORD, "ok": False, "failure": "compile-error"}
    cache.store(KEY, failed, vmfb=None)
    assert cache.read(KEY) == failed


def test_parts_of_a_key_do_not_run_together() -> None:
    keys = [Cache.key(parts) for parts in (["ab", "c"], ["a", "bc"], ["abc"], ["abc", ""], ["", "abc"], ["é"], [])]
    assert len(set(keys)) == len(keys)
    assert Cache.key(["ab", "c"]) == Cache.key(("ab", "c"))


@pytest.mark.parametrize("text", [b"", b"[]", b"\xff\xfe\x00", b'{"ok": false, "failure": "compile-error"}'])
def test_a_record_that_is_not_whole_counts_as_absent(tmp_path: Path, text: bytes) -> None:
    cache = Cache(tmp_path / "cache")
    folder = cache.store(KEY, RECORD, vmfb=module(tmp_path))
    (folder / "build.json").write_bytes(text)
    assert cache.read(KEY) is None


@pytest.mark.parametrize("damage", ["missing", "empty", "flipped"])
def test_a_success_without_its_very_module_counts_as_absent(tmp_path: Path, damage: str) -> None:
    cache = Cache(tmp_path / "cache")
    stored = cache.store(KEY, RECORD, vmfb=module(tmp_path)) / "module.vmfb"
    data = stored.read_bytes()
    damaged = {"empty": b"", "flipped": b"A" + data[1:]}
    if damage == "missing":
        stored.unlink()
    else:
        stored.write_bytes(damaged[damage])
    assert cache.read(KEY) is None


def test_a_damaged_entry_is_replaced_and_a_good_one_stays(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    folder = cache.store(KEY, RECORD, vmfb=module(tmp_path, "first"))
    cache.store(KEY, {**RECORD, "stderr": "second"}, vmfb=module(tmp_path, "second"))
    assert (folder / "module.vmfb").read_text() == "first"
    assert (cache.read(KEY) or {})["stderr"] == RECORD["stderr"]
    (folder / "module.vmfb").unlink()
    cache.store(KEY, RECORD, vmfb=module(tmp_path, "third"))
    assert (folder / "module.vmfb").read_text() == "third"


def test_a_cache_on_another_file_system_than_what_is_made_works(tmp_path: Path) -> None:
    shared = Path("/dev/shm")
    if not shared.is_dir() or shared.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("this machine has no second file system to put a cache on")
    with TemporaryDirectory(dir=shared) as folder:
        stored = Cache(Path(folder)).store(KEY, RECORD, vmfb=module(tmp_path))
        assert (stored / "module.vmfb").read_text() == "a module"


def test_many_writers_of_one_entry_leave_one_whole_entry(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")

    def write(writer: int) -> Path:
        own = tmp_path / str(writer)
        own.mkdir()
        return cache.store(KEY, {**RECORD, "stderr": str(writer)}, vmfb=module(own, str(writer)))

    with ThreadPoolExecutor(8) as pool:
        folders = set(pool.map(write, range(32)))
    assert folders == {cache.entry(KEY)}
    record = cache.read(KEY)
    assert record is not None
    assert (cache.entry(KEY) / "module.vmfb").read_text() == record["stderr"]
    assert list(cache.builds.glob(".making-*")) == []


def test_a_writer_never_removes_what_another_has_just_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, remove = Cache(tmp_path / "cache"), shutil.rmtree
    theirs = module(tmp_path, "theirs")
    other = Thread(target=cache.store, args=(KEY, RECORD), kwargs={"vmfb": theirs})
    lost: list[bool] = []

    def late(path: Any, *args: Any, **options: Any) -> None:
        if Path(path) == cache.entry(KEY) and other.ident is None:
            other.start()
            other.join(0.2)  # between this writer's look and its removal, the other one writes, or waits
            written = cache.read(KEY) is not None
            remove(path, *args, **options)
            lost.append(written and cache.read(KEY) is None)
        else:
            remove(path, *args, **options)

    monkeypatch.setattr("autotuner.system.cache.shutil.rmtree", late)
    own = tmp_path / "own"
    own.mkdir()
    cache.store(KEY, RECORD, vmfb=module(own, "ours"))
    other.join()
    assert lost == [False]
    assert cache.read(KEY) is not None


def test_size_and_clear(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache")
    assert cache.size() == (0, 0)
    for i in range(3):
        cache.store(Cache.key([str(i)]), RECORD, vmfb=module(tmp_path))
    entries, size = cache.size()
    assert entries == 3
    assert size > 3 * len("a module")
    cache.clear()
    assert list((tmp_path / "cache" / "builds").iterdir()) == []
    assert cache.size() == (0, 0)
    assert cache.read(Cache.key(["0"])) is None
    cache.clear()


def test_what_a_killed_run_and_an_earlier_format_left_goes_with_the_rest(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.store(KEY, RECORD, vmfb=module(tmp_path))
    shutil.copytree(cache.builds, earlier := cache.builds.with_name("v0"))
    (cache.builds / ".making-0").mkdir()
    (cache.builds / ".making-0" / "half").write_text("")
    assert cache.size()[0] == 2
    cache.clear()
    assert not cache.builds.exists()
    assert not earlier.exists()


def test_in_a_project_only_builds_of_autotune_are_removed(tmp_path: Path) -> None:
    """Somebody who set the cache to a folder of his own, which has builds too, loses nothing."""
    cache = Cache(tmp_path)
    theirs = [tmp_path / "builds" / name for name in ("app.exe", "v2/ab/abcd/build.json", "v1/CACHEDIR.TAG")]
    for path in theirs:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("Signature: 8a477f597d28d172789f06886806bc55\n# of another program\n")
    cache.store(Cache.key(["other"]), RECORD, vmfb=module(tmp_path))
    assert cache.size()[0] == 1
    cache.clear()
    assert all(path.is_file() for path in theirs)
    assert cache.size() == (0, 0)


def test_a_cache_that_cannot_be_made_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file" / "cache")
    with pytest.raises(StorageError, match="cannot be written") as caught:
        cache.store(KEY, RECORD, vmfb=None)
    assert "AUTOTUNE_CACHE_DIR" in caught.value.remedy
    assert cache.read(KEY) is None


def test_a_full_disk_leaves_no_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(tmp_path / "cache")

    def full(*_: object, **__: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(StorageError, match="No space left on device"):
            cache.store(KEY, RECORD, vmfb=None)
    assert cache.read(KEY) is None
    assert cache.size() == (0, 0)
    assert list(cache.builds.glob(".making-*")) == []


def test_a_disk_that_fills_up_while_something_is_made_is_named_with_the_variable_that_helps(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No space left") as raised, Cache(tmp_path).scratch():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "AUTOTUNE_CACHE_DIR" in raised.value.remedy
