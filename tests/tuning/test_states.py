"""Warm and cold, sustained and isolated: what a run's options say of the states that it compares in."""

from __future__ import annotations

from typing import Any, cast

import pytest

from autotuner.devices.many import Devices
from autotuner.errors import UsageError
from autotuner.system.progress import Silent, Stop
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Question
from autotuner.tuning.session import Session

NOT_ASKED = cast(Any, None)


def test_a_run_goes_on_only_in_its_own_states() -> None:
    question = Question("single", {}, Target.parse("cpu"), asks={}, reads=())
    others = dict.fromkeys(("tools", "workspace", "store", "executor"), NOT_ASKED)
    session = Session("local-task", Silent(), Stop(), devices=Devices(()), **others)
    given = [Options(), Options(cache="warm"), Options(isolate=True), Options(cache="cold")]
    keys = [question.row(session, options).key for options in given]
    assert len(set(keys)) == 3
    assert keys[0] == keys[1], "both is a warm search that tells more in the end"
    assert [options.timing() for options in given[1:]] == [
        {"state": "sustained", "cache": "warm"},
        {"state": "process", "cache": "warm"},
        {"state": "sustained", "cache": "cold"},
    ]


def test_a_cold_search_needs_a_device_that_stays_open() -> None:
    with pytest.raises(UsageError, match=r"--cache cold needs a device that stays open.* Leave out --isolate"):
        Options(cache="cold", isolate=True)
