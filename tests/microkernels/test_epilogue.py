"""What becomes of the sums of the Triton kernels, in Triton's interpreter: no GPU is needed."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autotuner.problems.activations import ACTIVATIONS
from tests.microkernels.test_c_kernels import WIDE


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_is_right_for_all_numbers(name: str, tmp_path: Path) -> None:
    activation = ACTIVATIONS[name]
    given, out = tmp_path / "given.npy", tmp_path / "out.npy"
    np.save(given, WIDE)
    (bits,) = struct.unpack("<I", struct.pack("<f", activation.factor))
    words = ["-m", "tests.support.interpreted", given, out, activation.number, bits]
    subprocess.run([sys.executable, *map(str, words)], timeout=60, check=True)
    found = np.load(out)
    with np.errstate(all="ignore"):
        wanted = activation.function(WIDE.astype(np.float64))
    assert np.array_equal(np.isnan(found), np.isnan(wanted))
    sure = np.isfinite(wanted) & (np.abs(wanted) < np.finfo(np.float32).max)
    limit = activation.slack(WIDE[sure].astype(np.float64)) / 4 + 2.0**-126
    assert np.all(np.abs(found[sure] - wanted[sure]) <= limit)
