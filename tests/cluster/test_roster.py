"""Who is used, who is refused and why, and when a worker is lost: plain data, no cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from autotuner.cluster.facts import FACTS, Facts, resource_of
from autotuner.cluster.roster import SILENT_SECONDS, Roster
from autotuner.targets import Target

OWN = Facts("1.0", "code", "3.13.0", "compiler", "runtime", "here", "zen", 8, 0)
BUILDER = replace(OWN, host="there", builds=4)
GPU = replace(BUILDER, host="gpu", device="cuda://0", resource="H200", model="NVIDIA H200")
CPU = replace(BUILDER, host="timed", device="local-task", resource="cpu", model="Zen")


def roster(target: str, notes: list[str], *, wanted: str = "", timed: bool = True) -> Roster:
    return Roster(OWN, Target.parse(target), timed, wanted, notes.append)


def workers(*, seen: float = 0.0, **named: Facts | dict[str, Any] | None) -> dict[str, dict[str, Any]]:
    return {
        f"tcp://{name}": {
            "name": name,
            "last_seen": seen,
            **({} if one is None else {FACTS: one.to_json() if isinstance(one, Facts) else one}),
        }
        for name, one in named.items()
    }


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (None, "was not started by `autotune worker`"),
        ({"autotune": "0.1"}, "has autotune 0.1, not 1.0"),
        (replace(BUILDER, autotune="0.9"), "has autotune 0.9, not 1.0"),
        (replace(BUILDER, code="other"), "has other files of autotune 1.0 (other, not code)"),
        (replace(BUILDER, iree="3.12.0"), "has IREE 3.12.0, not 3.13.0"),
        (replace(BUILDER, compiler="other"), "has another build of IREE 3.13.0"),
    ],
)
def test_what_builds_something_else_is_refused_by_name_and_once(facts: Facts | None, why: str) -> None:
    notes: list[str] = []
    found = roster("sm_80", notes)
    for _ in range(2):
        found.update(workers(odd=facts, good=BUILDER))
    assert notes == [f"worker odd is refused: it {why}"]
    assert [member.name for member in found.builders()] == ["good"]
    assert found.reasons == f"odd {why}"


def test_another_model_than_most_have_builds_and_does_not_time() -> None:
    notes: list[str] = []
    found = roster("sm_80", notes)
    a100 = replace(GPU, resource="A100", model="NVIDIA A100")
    found.update(workers(a=a100, b=GPU, c=GPU, d=BUILDER, e=replace(GPU, runtime="other")))
    assert [member.name for member in found.devices()] == ["b", "c"]
    assert len(found.builders()) == 5
    kinds = "(A100: NVIDIA A100, cuda) than is used (H200: NVIDIA H200, cuda)"
    assert notes == [
        f"worker a is refused: it has another device {kinds}; it only builds",
        "worker e is refused: it has another runtime of IREE 3.13.0; it only builds",
    ]
    found = roster("sm_80", [], wanted="a100")
    found.update(workers(a=a100, b=GPU, c=GPU))
    assert [member.name for member in found.devices()] == ["a"]


def test_code_for_one_amd_chip_is_not_timed_on_another() -> None:
    mi = replace(GPU, device="hip://0", resource="gfx950", model="AMD Instinct MI355X")
    found = roster("gfx942", [])
    found.update(workers(a=mi, b=replace(mi, resource="gfx942", model="AMD Instinct MI300X")))
    assert [member.name for member in found.devices()] == ["b"]


def test_a_device_of_another_chip_than_was_named_is_refused_and_builds() -> None:
    notes: list[str] = []
    found = Roster(OWN, Target.parse("sm_80", chip="sm_90"), True, "", notes.append)
    found.update(workers(a=replace(GPU, chip="sm_80", model="NVIDIA A100"), b=replace(GPU, chip="sm_90")))
    assert [member.name for member in found.devices()] == ["b"]
    assert notes == ["worker a is refused: it has a sm_80, not the sm_90 that --chip names; it only builds"]


def test_a_processor_that_is_timed_builds_only_where_there_is_no_other() -> None:
    found = roster("cpu", [])
    found.update(workers(a=CPU, b=BUILDER, c=replace(BUILDER, host="timed")))
    assert ([m.name for m in found.builders()], found.shares_cores) == (["b"], False)
    found = roster("cpu", [])
    found.update(workers(a=CPU))
    assert ([m.name for m in found.builders()], found.shares_cores) == (["a"], True)
    found = roster("cpu", [])
    found.update(workers(a=replace(CPU, processor="other"), b=replace(CPU, cores=4)))
    assert found.devices() == []


def test_a_worker_that_is_gone_or_silent_is_lost_and_not_taken_back() -> None:
    notes: list[str] = []
    found = roster("sm_80", notes)
    found.update(workers(a=GPU, b=GPU, c=GPU), now=0.0)
    members = {member.name: member for member in found.devices()}
    alive = {**workers(a=GPU), **workers(b=GPU, seen=1.0)}
    silent = found.update(alive, now=SILENT_SECONDS + 1)
    assert [member.name for member in silent] == ["a"], "whom the scheduler should forget"
    assert {name: member.lost for name, member in members.items()} == {"a": True, "b": False, "c": True}
    assert sorted(notes) == [
        f"worker a has said nothing for {SILENT_SECONDS:.0f} s: its work goes to others",
        "worker c is gone: its work goes to others",
    ]
    found.update(workers(a=GPU, b=GPU, seen=2.0), now=SILENT_SECONDS + 2)
    assert [member.name for member in found.builders()] == ["b"]


def test_a_resource_is_called_like_the_product_or_the_chip() -> None:
    assert resource_of("cuda://0", "NVIDIA H200") == "H200"
    assert resource_of("hip://1", "AMD Instinct MI300X") == "gfx942"
    assert resource_of("local-task", "Zen") == "cpu"
