"""What a compile reads is known by its content: files, folders, and those that flags name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autotuner.errors import UsageError
from autotuner.system import digests
from autotuner.system.digests import file_digest, known_digest, path_digest, read_by_flags

LARGE = bytes(2 << 20)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "cache"))
    digests._remembered.cache_clear()
    return tmp_path / "cache"


def test_a_large_file_is_hashed_once(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "large"
    file.write_bytes(LARGE)
    first = known_digest(file)
    assert first == file_digest(file)
    assert len(list((cache / "digests").glob("*.json"))) == 1

    def forbidden(_path: Path) -> str:
        raise AssertionError("hashed again")

    digests._remembered.cache_clear()  # as in another process
    monkeypatch.setattr(digests, "file_digest", forbidden)
    assert known_digest(file) == first


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize(("in_place", "keep_time"), [(False, False), (False, True), (True, True)])
def test_a_large_file_that_changes_is_hashed_again(tmp_path: Path, in_place: bool, keep_time: bool) -> None:
    file = tmp_path / "large"
    file.write_bytes(LARGE)
    first, before = known_digest(file), file.stat()
    changed = file if in_place else tmp_path / "other"
    with changed.open("r+b" if in_place else "wb") as opened:
        opened.write(b"x" + LARGE[1:])
    if keep_time:  # as `cp --preserve` does
        os.utime(changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(changed, file)
    assert file.stat().st_size == before.st_size
    assert known_digest(file) == file_digest(file) != first


def test_a_damaged_note_is_not_believed(cache: Path, tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.write_bytes(LARGE)
    first = known_digest(file)
    (note,) = (cache / "digests").glob("*.json")
    for text in ("", "[]", "{}", '{"stamp": 3}'):
        note.write_text(text)
        digests._remembered.cache_clear()
        assert known_digest(file) == first


def test_a_folder_is_known_by_all_files_below_it(tmp_path: Path) -> None:
    def digest() -> str:
        return path_digest(tmp_path / "folder")

    deep = tmp_path / "folder" / "a" / "b"
    deep.mkdir(parents=True)
    seen = {digest()}
    (deep / "one.o").write_text("1")
    seen.add(digest())
    (deep / "one.o").write_text("2")
    seen.add(digest())
    (deep / "one.o").rename(deep / "two.o")
    seen.add(digest())
    assert len(seen) == 4


def test_a_folder_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "_MOST_FILES", 3)
    for number in range(4):
        (tmp_path / str(number)).write_text("")
    with pytest.raises(UsageError, match="more than 3 files"):
        path_digest(tmp_path)


@pytest.mark.parametrize(
    "flag",
    [
        "--iree-codegen-tuning-spec-path={}",
        "--iree-hal-substitute-executable-object=main=main={}",
        "--iree-hal-executable-object-search-path=/nowhere,{}",
        "--iree-preprocessing-pass-pipeline=builtin.module(some-pass{{path={}}})",
        '--quoted="{}"',
    ],
)
def test_a_file_that_a_flag_names_counts_by_its_content(tmp_path: Path, flag: str) -> None:
    file = tmp_path / "read.mlir"
    flags = ["--iree-opt-level=O2", flag.format(file)]

    def read() -> list[str]:
        return read_by_flags(flags, folder=tmp_path / "job")

    assert read() == []
    file.write_text("1")
    first = read()
    assert len(first) == 1
    file.write_text("2")
    assert read() != first


@pytest.mark.parametrize("name", ["with space.mlir", "a=b.mlir"])
@pytest.mark.parametrize("flag", ["--one={}", "--several=/nowhere,{}", "--named=main={}"])
def test_a_path_with_marks_in_it_counts_too(tmp_path: Path, name: str, flag: str) -> None:
    (tmp_path / name).write_text("1")
    assert len(read_by_flags([flag.format(tmp_path / name)], folder=tmp_path / "job")) == 1


def test_a_file_that_cannot_be_read_is_told_with_its_flag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "spec.mlir"
    file.write_text("1")

    def gone(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(digests, "known_digest", gone)
    with pytest.raises(
        UsageError, match=r"spec\.mlir, which a flag names, cannot be read: Permission denied"
    ) as caught:
        read_by_flags([f"--x={file}"], folder=tmp_path / "job")
    assert caught.value.remedy == "Check --flag."


def test_what_is_no_file_does_not_count(tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (job / "spec.mlir").write_text("the compile's own input")
    (job / "local").mkdir()
    flags = ["--plain", "--iree-codegen-tuning-spec-path=spec.mlir", "--iree-hal-target-device=local", "--x=/dev/null"]
    assert read_by_flags([*flags, f"--long={'x' * 5000}", "--nul=a\0b"], folder=job) == []
    (tmp_path / "beside.mlir").write_text("1")
    assert len(read_by_flags(["--x=../beside.mlir"], folder=job)) == 1, "it is outside of the folder"
