"""What travels is read field by field: another kind of value is a refusal that names the field."""

from __future__ import annotations

from typing import Any

import pytest

from autotuner.bundles.documents import Manifest, Report
from autotuner.errors import UsageError
from tests.bundles.documents import MANIFEST, REPORT, plain


def test_a_manifest_and_a_result_come_out_as_they_went_in() -> None:
    assert Manifest.read(plain(MANIFEST), "m") == MANIFEST
    assert Report.read(plain(REPORT), "r") == REPORT


def put(document: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    *way, last = path.split(".")
    place: Any = document
    for word in way:
        place = place[int(word)] if word.isdigit() else place[word]
    if isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return document


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *[("schema", 2), ("kind", "zip"), ("problem", 7), ("problem", "a\nb"), ("seed", -1), ("seed", True)],
        *[("budget", "long"), ("budget", float("nan")), ("flags", "--x"), ("flags", [1]), ("entries", {})],
        *[
            ("entries.0.kind", "microkernel"),
            ("microkernels", "auto"),
            ("entries.0.id", "../x"),
            ("entries.1.id", "baseline"),
        ],
        *[("entries.0.modules", {}), ("entries.0.modules", {"1": "../x"}), ("entries.0.modules", {"-1": "0" * 64})],
        *[("entries.1.config", [["a"]]), ("entries.1.config", [["a", [1]]]), ("race_entrants", 10**9)],
        ("entries.0.modules", {"99999": "0" * 64}),
    ],
)
def test_a_manifest_with_something_else_in_a_field_is_refused(path: str, value: object) -> None:
    with pytest.raises(UsageError) as error:
        Manifest.read(put(plain(MANIFEST), path, value), "out.zip")
    assert str(error.value).startswith("out.zip")
    assert path.split(".")[-1] in str(error.value) or "entries" in str(error.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *[("bundle", None), ("device", ["cpu"]), ("environment", []), ("environment", {"host": {}})],
        *[("environment", {"host": "a\nb"}), ("seconds", -1), ("notes", [{}]), ("tried", [])],
        *[("tried.0.taken", []), ("tried.0.taken.0.us", [0]), ("tried.0.taken.0.us", ["1"])],
        *[
            ("tried.0.taken.0.phase", "warm"),
            ("tried.0.error", -1.0),
            ("tried.0.error", float("nan")),
            ("tried.0.taken.0.conditions", {"state": "x", "cache": "warm"}),
        ],
        *[
            ("tried.0.failure", "compile-error"),
            ("tried.1.failure", "run-error"),
            ("judgement.verdict", "draw"),
            ("judgement.winner", "c9999"),
        ],
        *[("judgement.winner", None), ("judgement.speedup", None), ("judgement.us", {"baseline": "fast"})],
        *[("judgement.verdict", "no-winner"), ("tried.1.id", "baseline")],
    ],
)
def test_a_result_with_something_else_in_a_field_is_refused(path: str, value: object) -> None:
    with pytest.raises(UsageError) as error:
        Report.read(put(plain(REPORT), path, value), "result.zip")
    assert str(error.value).startswith("result.zip")


@pytest.mark.parametrize("document", [None, [], "text", 3])
def test_what_is_no_object_is_refused(document: object) -> None:
    for read in (Manifest.read, Report.read):
        with pytest.raises(UsageError, match="is not an object"):
            read(document, "out.zip")
