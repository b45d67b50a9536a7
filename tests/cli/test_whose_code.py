"""A kernel that does not come with autotune is named before its code runs; those that do are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.cli.tuning import say_whose_code
from autotuner.microkernels.instance import own_folder
from autotuner.microkernels.own import create
from autotuner.microkernels.variants import Kernel


@pytest.mark.parametrize(
    ("kernels", "named"),
    [
        ((), ""),
        ((Kernel("sgemm_c"),), ""),
        ((Kernel("nobodys"),), ""),
        ((Kernel("mine"),), "not of autotune: mine."),
        ((Kernel("sgemm_c", (Path("own.o"),)),), "not of autotune: sgemm_c."),
        ((Kernel("auto"),), ""),
        ((Kernel("mine"), Kernel("auto")), "not of autotune: mine."),
        ((Kernel("mine"), Kernel("other")), "not of autotune: mine, other."),
    ],
)
def test_it_is_said_once_whose_code_will_run(
    kernels: tuple[Kernel, ...], named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("other", "mine"):
        create(name, own_folder(tmp_path))
    say_whose_code(kernels, tmp_path)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == bool(named)
    assert named in err
    assert not named or "with your rights, see SECURITY.md" in err
