"""A stranger's zip file: what no bundle has is refused, in one line, before anything is written."""

from __future__ import annotations

import hashlib
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner.bundles import archive
from autotuner.errors import UsageError

MODULE = b"not a module, but bytes"
NAME = f"modules/{hashlib.sha256(MODULE).hexdigest()}.vmfb"
Write = Callable[[zipfile.ZipFile], None]


def member(name: str, data: bytes = b"x", *, mode: int = stat.S_IFREG | 0o644) -> Write:
    def write(file: zipfile.ZipFile) -> None:
        info = zipfile.ZipInfo(name)
        info.external_attr = mode << 16
        file.writestr(info, data)

    return write


def twice(file: zipfile.ZipFile) -> None:
    member("manifest.json")(file)
    with pytest.warns(UserWarning, match="Duplicate"):
        member("manifest.json")(file)


def huge(file: zipfile.ZipFile) -> None:
    with file.open(zipfile.ZipInfo("manifest.json"), "w", force_zip64=True) as stream:
        for _ in range(archive.MOST_JSON_BYTES // (1 << 20) + 1):
            stream.write(bytes(1 << 20))


HOSTILE: dict[str, tuple[Write, str]] = {
    "up": (member("../evil"), "no bundle has"),
    "up within modules": (member(f"modules/../../{'0' * 64}.vmfb"), "no bundle has"),
    "absolute": (member("/tmp/evil"), "no bundle has"),
    "backslash": (member("modules\\..\\evil.vmfb"), "no bundle has"),
    "a program": (member("run.py", b"import os"), "no bundle has"),
    "a folder": (member("modules/"), "no bundle has"),
    "a part in another folder": (member("parts/../0000.zip"), "no bundle has"),
    "a line break": (member("manifest.json\n"), "no bundle has"),
    "a link": (member(NAME, b"/etc/passwd", mode=stat.S_IFLNK | 0o777), "not a plain file"),
    "a device": (member("manifest.json", mode=stat.S_IFBLK | 0o600), "not a plain file"),
    "twice": (twice, "twice"),
    "another content": (member(NAME, b"other bytes"), "damaged"),
    "huge": (huge, "larger than 64 MiB"),
}


@pytest.mark.parametrize(("write", "why"), HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_and_writes_nothing(write: Write, why: str, tmp_path: Path) -> None:
    file, folder = tmp_path / "in" / "out.zip", tmp_path / "a" / "b"
    file.parent.mkdir()
    folder.mkdir(parents=True)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        write(made)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError, match=why) as error:
        archive.unpack(file, folder)
    assert "\n" not in str(error.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_too_many_members_and_too_many_bytes_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "out.zip"
    archive.write(file, {archive.MANIFEST: b"{}", archive.RESULT: b"{}"}, {})
    monkeypatch.setattr(archive, "MOST_BYTES", 3)
    with pytest.raises(UsageError, match="unpacks to more"):
        archive.unpack(file, tmp_path)
    monkeypatch.setattr(archive, "MOST_MEMBERS", 1)
    with pytest.raises(UsageError, match="1 are allowed"):
        archive.unpack(file, tmp_path)


def test_a_member_that_is_larger_than_it_says_is_not_read_on(tmp_path: Path) -> None:
    file = tmp_path / "out.zip"
    archive.write(file, {archive.MANIFEST: b"y" * 50}, {})
    data = file.read_bytes()
    file.write_bytes(data.replace((50).to_bytes(4, "little"), (5).to_bytes(4, "little")))
    with pytest.raises(UsageError, match=r"larger than it says|damaged"):
        archive.unpack(file, tmp_path)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04", b"not a zip file at all"])
def test_what_is_no_zip_file_is_refused(data: bytes, tmp_path: Path) -> None:
    file = tmp_path / "out.zip"
    file.write_bytes(data)
    with pytest.raises(UsageError, match="no zip file"):
        archive.unpack(file, tmp_path)


def test_a_bundle_comes_out_as_it_went_in(tmp_path: Path) -> None:
    module, file = tmp_path / "m.vmfb", tmp_path / "out.zip"
    module.write_bytes(MODULE)
    key = hashlib.sha256(MODULE).hexdigest()
    archive.write(file, {archive.MANIFEST: b'{"a": 1}'}, {key: module})
    (tmp_path / "into").mkdir()
    found = archive.unpack(file, tmp_path / "into")
    assert found.document(archive.MANIFEST, file=file) == {"a": 1}
    assert found.modules[key].read_bytes() == MODULE
    assert [path.name for path in (tmp_path / "into").iterdir()] == [f"{key}.vmfb"]
    with pytest.raises(UsageError, match=r"no result\.json"):
        found.document(archive.RESULT, file=file)


def test_the_bundles_of_a_suite_come_out_in_their_order(tmp_path: Path) -> None:
    parts = [tmp_path / f"000{number}.zip" for number in range(3)]
    for part in parts:
        archive.write(part, {archive.MANIFEST: part.name.encode()}, {})
    archive.write(tmp_path / "suite.zip", {archive.SUITE: b"{}"}, {}, parts=parts)
    assert [archive.is_suite(file) for file in (tmp_path / "suite.zip", parts[0])] == [True, False]
    assert archive.our_bundle(tmp_path / "suite.zip")
    (tmp_path / "into").mkdir()
    found = archive.unpack(tmp_path / "suite.zip", tmp_path / "into")
    assert [part.read_bytes() for part in found.parts] == [part.read_bytes() for part in parts]
    assert not archive.unpack(parts[0], tmp_path / "into").parts
