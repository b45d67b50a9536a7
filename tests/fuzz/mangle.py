"""Files as a stranger may bring them: real ones with pieces cut, doubled, changed, and odd values in odd places."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

RUNS = "touch stolen"
"""What would write a file, if anything ran it."""
WORDS = (
    *(b"\0", b"\xff\xfe", b"\n", b"\r", b" ", b",", b"=", b'"', b"'", b"\\", b"#", b"-", b"--", b"@", b"%s", b"x"),
    *(b"0", b"-1", b"1e999", b"nan", b"true", b"9" * 40, b"9" * 5000, b"\xd9\xa4", b"1.5", b"0x10", b"null"),
    *(b"[", b"]", b"{", b"}", b"(", b")", b"[" * 3000, b"{" * 3000, b"<" * 3000, b"a" * 20_000, b"\n" * 5000),
    *(b"../../stolen", b"/etc/passwd", b"/dev/zero", b"file:///", b"\xe2\x80\xae", b"\x1b[31m", b"\xed\xa0\x80"),
    *(f"$({RUNS})".encode(), f"; {RUNS};".encode(), f"__import__('os').system('{RUNS}')".encode()),
    f"!!python/object/apply:os.system ['{RUNS}']".encode(),
)
ODD: tuple[Any, ...] = (
    *(None, True, 0, -1, 1, 2**63, 10**40, 1e308, float("nan"), float("inf"), -0.0),
    *("", "x", "\0", "a" * 5000, "../../stolen", "\ud800", "\u202e", "\x1b[31m", "9" * 400, f"$({RUNS})"),
    *([], {}, [[]], [1, "a"], {"a": 1}, {"": {}}, [0] * 5000, ["x"] * 50, {"schema": 99}),
)


@st.composite
def mangled(draw: st.DrawFn, seeds: Sequence[bytes], words: Iterable[bytes] = ()) -> bytes:
    """One of the files with up to five changes; `words` are the format's own."""
    data = bytearray(draw(st.sampled_from(seeds)))
    known = (*words, *WORDS)
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.sampled_from((1, 2, 8, 40, 400)))
        what = draw(st.integers(0, 5))
        if what == 0:
            data[at : at + length] = b""
        elif what == 1:
            data[at:at] = data[at : at + length] * draw(st.sampled_from((1, 2, 100)))
        elif what == 2:
            data[at : at + 1] = bytes([draw(st.integers(0, 255))])
        elif what == 3:
            del data[at:]
        else:
            data[at : at + (length if what == 4 else 0)] = draw(st.sampled_from(known))
    return bytes(data)


@st.composite
def changed(draw: st.DrawFn, documents: Sequence[Any]) -> Any:
    """One of the documents with up to three odd values, missing or foreign keys at any depth."""
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for _ in range(draw(st.integers(0, 3))):
        holders = [one for one in _within(document) if one]
        if not holders:
            break
        holder = draw(st.sampled_from(holders))
        key = draw(st.sampled_from(list(holder) if isinstance(holder, dict) else range(len(holder))))
        what = draw(st.integers(0, 5))
        if what == 0:
            del holder[key]
        elif what == 1 and isinstance(holder, dict):
            holder[draw(st.sampled_from(("x", "", "a" * 5000, "__class__", "\ud800")))] = holder[key]
        else:
            holder[key] = copy.deepcopy(draw(st.sampled_from(ODD)))
    return document


def _within(value: Any) -> list[Any]:
    """All lists and tables of a document."""
    if not isinstance(value, dict | list):
        return []
    parts = value.values() if isinstance(value, dict) else value
    return [value, *(inner for one in parts for inner in _within(one))]


def as_json(documents: Sequence[Any]) -> st.SearchStrategy[bytes]:
    """Documents with odd values as JSON, and their text mangled."""
    texts = [json.dumps(one).encode() for one in documents]
    return changed(documents).map(lambda one: json.dumps(one).encode()) | mangled(texts)


@st.composite
def zipped(draw: st.DrawFn, members: Mapping[str, Sequence[Any]], *, foreign: bytes = b"") -> bytes:
    """A zip file of JSON documents, some changed or missing, one perhaps foreign; or its bytes mangled."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", draw(st.sampled_from((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))) as archive:
        for name, documents in members.items():
            if draw(st.integers(0, 9)):
                archive.writestr(name, json.dumps(draw(changed(documents))))
        if draw(st.booleans()):
            names = ("../stolen", "/stolen", "modules/x.vmfb", f"modules/{'0' * 64}.vmfb", "parts/0000.zip", "a\\b")
            archive.writestr(draw(st.sampled_from(names)), foreign)
    return draw(mangled([whole.getvalue()])) if draw(st.booleans()) else whole.getvalue()
