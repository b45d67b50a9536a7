"""Who is used, who is refused and why: plain data, no cluster."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from autotuner.cluster.facts import FACTS, Facts, Member, Roster
from autotuner.targets import Target

OWN = Facts("1.0 (code)", "3.13.0, compiler abc", "runtime", "zen, 8 cores", 0)
BUILDER = replace(OWN, builds=4)
GPU = replace(BUILDER, device="cuda://0", called="H200", environment={"device_name": "NVIDIA H200"})
CPU = replace(BUILDER, device="local-task", called="cpu", environment={"device_name": "Zen"})


def gpu(called: str, model: str, device: str = "cuda://0", chip: str = "") -> Facts:
    return replace(GPU, device=device, called=called, chip=chip, environment={"device_name": model})


def roster(
    target: str, *, chip: str | None = None, wanted: str = "", **workers: Facts | dict[str, Any] | None
) -> Roster:
    told = {name: asdict(one) if isinstance(one, Facts) else one for name, one in workers.items()}
    found = Roster(OWN, Target.parse(target, chip=chip), timed=True, wanted=wanted)
    found.update({f"tcp://{name}": {"name": name, **({FACTS: one} if one else {})} for name, one in told.items()})
    return found


def names(members: list[Member]) -> list[str]:
    return [member.name for member in members]


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        (None, "was not started by `autotune worker`"),
        ({"autotune": "0.1"}, "has autotune 0.1, not 1.0 (code)"),
        (replace(BUILDER, autotune="1.0 (other)"), "has autotune 1.0 (other), not 1.0 (code)"),
        (replace(BUILDER, iree="3.13.0, compiler d"), "has IREE 3.13.0, compiler d, not 3.13.0, compiler abc"),
    ],
)
def test_what_builds_something_else_is_refused_by_name(facts: Facts | None, why: str) -> None:
    found = roster("sm_80", odd=facts, good=BUILDER)
    assert found.refusals == {"odd": why}
    assert names(found.members) == ["good"]
    if isinstance(facts, Facts):
        assert facts.build_resource != OWN.build_resource, "Dask gives it no build either"
    assert BUILDER.build_resource == OWN.build_resource


def test_another_model_than_most_have_builds_and_does_not_time() -> None:
    a100 = gpu("A100", "NVIDIA A100")
    found = roster("sm_80", a=a100, b=GPU, c=GPU, d=BUILDER, e=replace(GPU, runtime="other"))
    assert names(found.devices) == ["b", "c"]
    assert len(found.members) == 5
    kinds = "(A100: NVIDIA A100, cuda) than is used (H200: NVIDIA H200, cuda)"
    assert found.refusals == {
        "a": f"has another device {kinds}; it only builds",
        "e": "has another runtime of IREE; it only builds",
    }
    assert names(roster("sm_80", wanted="a100", a=a100, b=GPU, c=GPU).devices) == ["a"]


def test_code_for_one_amd_chip_is_not_timed_on_another() -> None:
    mi355, mi300 = gpu("gfx950", "AMD Instinct MI355X", "hip://0"), gpu("gfx942", "AMD Instinct MI300X", "hip://1")
    found = roster("gfx942", a=mi355, b=mi300)
    assert names(found.devices) == ["b"]


def test_a_device_of_another_chip_than_was_named_is_refused_and_builds() -> None:
    a100 = gpu("H200", "NVIDIA A100", chip="sm_80")
    found = roster("sm_80", chip="sm_90", a=a100, b=replace(GPU, chip="sm_90"))
    assert names(found.devices) == ["b"]
    assert found.refusals == {"a": "has a sm_80, not the sm_90 that --chip names; it only builds"}


def test_code_for_one_processor_is_not_timed_on_another() -> None:
    found = roster("cpu", a=replace(CPU, processor="other"), b=replace(CPU, processor="zen, 4 cores"), c=BUILDER)
    assert (found.devices, names(found.members)) == ([], ["a", "b", "c"])
    assert names(roster("cpu", a=CPU, b=replace(CPU, processor="zen, 4 cores")).devices) == ["a"]
