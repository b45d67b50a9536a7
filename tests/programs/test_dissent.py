"""Routes that agree with each other and not with the default: the default may be what is wrong."""

from __future__ import annotations

import numpy as np

from autotuner.devices.device import Computed
from autotuner.programs.arbiter import Dissent, same_outputs


def computed(*numbers: float) -> Computed:
    return Computed((np.array(numbers, np.float32),))


def agree(one: Computed, other: Computed) -> bool:
    return same_outputs(one, other, tolerance=None, rounding=1e-3).ok


def test_two_rejected_routes_that_agree_are_told_once() -> None:
    dissent = Dissent()
    assert dissent.add("im2col", "a", computed(1, 2, 3), same=agree) == ""
    assert dissent.add("padded", "b", computed(7, 8, 9), same=agree) == ""
    assert dissent.add("channels-last", "c", computed(1, 2.0001, 3), same=agree).startswith(
        "routes im2col and channels-last agree with each other and not with IREE's default: "
        "the default may be what is wrong."
    )
    assert dissent.add("channels-last+O3", "d", computed(1, 2, 3), same=agree) == ""


def test_one_module_by_two_names_tells_nothing() -> None:
    dissent = Dissent()
    assert dissent.add("im2col", "a", computed(1, 2, 3), same=agree) == ""
    assert dissent.add("im2col+O3", "a", computed(1, 2, 3), same=agree) == ""
