"""Warm and cold, sustained and burst: what a run's options say of the states that it compares in."""

from __future__ import annotations

import pytest

from autotuner.devices.device import DeviceState
from autotuner.errors import UsageError
from autotuner.iree.benchmark import CacheState
from autotuner.tuning.options import CACHES, STATES, Cache, Options


@pytest.mark.parametrize(("cache", "searched"), [("warm", "warm"), ("both", "warm"), ("cold", "cold")])
def test_both_is_a_warm_search(cache: Cache, searched: CacheState) -> None:
    assert Options(cache=cache).searched_cache == searched


@pytest.mark.parametrize(
    ("options", "searched"),
    [
        (Options(), "sustained"),
        (Options(state="burst"), "burst"),
        (Options(isolate=True), "process"),
        (Options(isolate=True, state="burst"), "process"),
    ],
)
def test_a_process_for_each_timing_is_a_state_of_its_own(options: Options, searched: DeviceState) -> None:
    assert options.searched_state == searched


def test_a_cold_search_needs_a_device_that_stays_open() -> None:
    with pytest.raises(UsageError, match=r"--cache cold needs a device that stays open.* Leave out --isolate"):
        Options(cache="cold", isolate=True)


def test_the_choices_are_those_of_the_types() -> None:
    assert (CACHES, STATES) == (("warm", "cold", "both"), ("sustained", "burst"))
