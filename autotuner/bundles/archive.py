"""A bundle as a zip file. A stranger's is unpacked into one folder or refused: no member names a path."""

from __future__ import annotations

import hashlib
import json
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autotuner.errors import UsageError
from autotuner.system.files import written
from autotuner.system.workspace import refuse_endless

MANIFEST, RESULT, SUITE = "manifest.json", "result.json", "suite.json"
MOST_MEMBERS = 10_000
MOST_JSON_BYTES = 1 << 26
MOST_MODULE_BYTES, MOST_PART_BYTES = 1 << 28, 1 << 30
MOST_BYTES = 1 << 32
"""The most bytes of an unpacked bundle."""
_MODULE = re.compile(r"modules/([0-9a-f]{64})\.vmfb")
_PART = re.compile(r"parts/[0-9]{4}\.zip")
"""The name of a suite's part: the bundle of one problem, or its result."""
_DOCUMENTS = (MANIFEST, RESULT, SUITE)
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
_FILE_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all members, so that equal bundles have equal bytes."""


@dataclass(frozen=True)
class Unpacked:
    """An unpacked file: its documents, and its modules as files of one folder, by digest."""

    documents: Mapping[str, bytes]
    modules: Mapping[str, Path]
    parts: tuple[Path, ...] = ()
    """For a suite: the bundles of its problems, or their results."""

    def document(self, name: str, *, file: Path) -> Any:
        if name not in self.documents:
            what = "bundle" if name == MANIFEST else "result of a bundle"
            raise refusal(file, f"it has no {name}", remedy=f"Give a {what}.")
        try:
            return json.loads(self.documents[name])
        except (ValueError, RecursionError) as error:
            raise refusal(file, f"{name} is not JSON") from error


def refusal(file: Path, why: str, *, remedy: str = "Ask for it again where it was made.") -> UsageError:
    return UsageError(f"{file} is refused: {why}.", remedy=remedy)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def our_bundle(file: Path) -> bool:
    """Whether a file is a bundle or a result, by the names of its members."""
    wrong = (OSError, ValueError, NotImplementedError, zipfile.BadZipFile, UsageError)
    with suppress(*wrong), zipfile.ZipFile(file) as archive:
        _refuse_members(file, archive.infolist())
        return MANIFEST in archive.namelist() or SUITE in archive.namelist()
    return False


def is_suite(file: Path) -> bool:
    """Whether a file is the bundle of a suite, or its result. An unreadable file is refused later, by `unpack`."""
    refuse_endless(file)
    with suppress(OSError, ValueError, NotImplementedError, zipfile.BadZipFile), zipfile.ZipFile(file) as archive:
        return SUITE in archive.namelist()
    return False


def write(
    file: Path,
    documents: Mapping[str, bytes],
    modules: Mapping[str, Path],
    *,
    parts: Iterable[Path] = (),
    force: bool = False,
) -> None:
    """Writes a bundle, whole or not at all."""
    with written(file, our_bundle, force=force) as whole, zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in documents.items():
            archive.writestr(_named(name), data)
        for key, path in sorted(modules.items()):
            archive.writestr(_named(f"modules/{key}.vmfb"), path.read_bytes())
        for path in parts:
            archive.writestr(_named(f"parts/{path.name}"), path.read_bytes())


def _named(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _FILE_DATE)
    info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, (stat.S_IFREG | 0o644) << 16
    return info


def unpack(file: Path, folder: Path) -> Unpacked:
    """Unpacks a bundle after all members are checked; modules go into `folder`, under their digests."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _refuse_members(file, members)
            documents = {one.filename: archive.read(one) for one in members if one.filename in _DOCUMENTS}
            modules: dict[str, Path] = {}
            parts: list[Path] = []
            for one in members:
                if _PART.fullmatch(one.filename) is not None:
                    parts.append(folder / one.filename.rpartition("/")[2])
                    parts[-1].write_bytes(archive.read(one))
                if (found := _MODULE.fullmatch(one.filename)) is not None:
                    data = archive.read(one)  # no more than it says that it has, whatever it unpacks to
                    if digest(data) != found[1]:
                        raise refusal(file, f"{one.filename} is damaged")
                    modules[found[1]] = folder / f"{found[1]}.vmfb"
                    modules[found[1]].write_bytes(data)
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError) as error:
        raise refusal(file, "it is no zip file, or a damaged one") from error
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}.", remedy="Name a bundle.") from error
    return Unpacked(documents, modules, tuple(sorted(parts)))


def _refuse_members(file: Path, members: list[zipfile.ZipInfo]) -> None:
    if len(members) > MOST_MEMBERS:
        raise refusal(file, f"it has {len(members)} members, and {MOST_MEMBERS} are allowed")
    if sum(one.file_size for one in members) > MOST_BYTES:
        raise refusal(file, f"it unpacks to more than {MOST_BYTES >> 30} GiB")
    seen: set[str] = set()
    for one in members:
        name, kind = one.filename, stat.S_IFMT(one.external_attr >> 16)
        if name not in _DOCUMENTS and _MODULE.fullmatch(name) is None and _PART.fullmatch(name) is None:
            raise refusal(file, f"it has a member {name[:80]!a}, which no bundle has")
        if name in seen:
            raise refusal(file, f"it has {name} twice")
        if kind not in (0, stat.S_IFREG):
            raise refusal(file, f"{name} is not a plain file")
        if one.flag_bits & _ENCRYPTED or one.compress_type not in _METHODS:
            raise refusal(file, f"{name} is encrypted, or packed in another way than bundles are")
        if one.file_size > _most(name):
            raise refusal(file, f"{name} is larger than {_most(name) >> 20} MiB")
        seen.add(name)


def _most(name: str) -> int:
    if name in _DOCUMENTS:
        return MOST_JSON_BYTES
    return MOST_PART_BYTES if _PART.fullmatch(name) else MOST_MODULE_BYTES
