"""Warm and cold, sustained and isolated: what a run's options say of the states that it compares in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from autotuner.devices.conditions import DeviceState
from autotuner.errors import UsageError
from autotuner.iree.run import CacheState
from autotuner.measure.caches import Cache
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Question
from autotuner.tuning.session import Session


@pytest.mark.parametrize(("cache", "searched"), [("warm", "warm"), ("both", "warm"), ("cold", "cold")])
def test_both_is_a_warm_search(cache: Cache, searched: CacheState) -> None:
    assert Options(cache=cache).searched_cache == searched


@pytest.mark.parametrize(
    ("options", "searched"),
    [
        (Options(), "sustained"),
        (Options(isolate=True), "process"),
    ],
)
def test_a_process_for_each_timing_is_a_state_of_its_own(options: Options, searched: DeviceState) -> None:
    assert options.searched_state == searched


def test_a_run_goes_on_only_in_its_own_states() -> None:
    question = Question("single", {}, Target.parse("cpu"), asks={}, reads=())
    session = cast(Session, SimpleNamespace(named="local-task", parent=None, chip=""))
    same = (Options(), Options(cache="warm"))
    others = (Options(isolate=True), Options(cache="cold"))
    keys = [question.row(session, options).key for options in (*same, *others)]
    assert len(set(keys)) == 1 + len(others)
    assert keys[0] == keys[1], "both is a warm search that tells more in the end"


def test_a_cold_search_needs_a_device_that_stays_open() -> None:
    with pytest.raises(UsageError, match=r"--cache cold needs a device that stays open.* Leave out --isolate"):
        Options(cache="cold", isolate=True)
