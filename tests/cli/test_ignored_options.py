"""An option is used, or it is refused by its name: none is taken and ignored. And whose code will run is said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from autotuner.cli.tuning import say_whose_code
from autotuner.microkernels.instance import own_folder
from autotuner.microkernels.own import create
from autotuner.microkernels.variants import Kernel
from autotuner.specfiles.entries import read
from autotuner.tuning.ship import ESTIMATED
from tests.support.command_line import Here, complaint
from tests.support.models import EXAMPLES

MODEL = ("model", str(EXAMPLES / "three.mlir"))
AB = ("ab", "default", "default")
GEMM = ("--shape", "64x64x64")
CONV = ("--shape", "1x8x8x4", "--filter", "3x3x4")
NONE = ("--device", "none")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*AB, *GEMM, "--causal"), "--causal is not for gemm"),
        ((*AB, *GEMM, "--groups", "1"), "--groups is not for gemm"),  # also where it is the default
        ((*AB, *GEMM, "--stride", "2x2"), "--stride is not for gemm"),
        ((*AB, *CONV, "--batch", "2"), "--batch is not for conv"),
        ((*AB, *CONV, "--acc", "f32"), "--acc is not for conv"),
        ((*AB, "--shape", "1x2x8x8x4", "--layout", "nn"), "--layout is not for attention"),
        ((*AB, "--model", MODEL[1], "--dtype", "f32"), "--dtype says more of a --shape"),
        ((*AB, *GEMM, "--trials", "3"), "--trials is for a search"),
        (("ab", "--list", "--shape", "1x1x1"), "--shape has no meaning with --list"),
        (("ab", "sgemm_c", "--list"), "MICROKERNEL|A has no meaning with --list"),
        (("ab", "--new", "mine", "--json"), "--json has no meaning with --new"),
        (("ab", "sgemm_c", "--c", "--shape", "64x64x64"), "--c says more of --new"),
        (("ab", "sgemm_c", "--cuda", "--shape", "64x64x64"), "--cuda says more of --new"),
        (("ab", "--new", "mine", "--c", "--cuda"), "--c and --cuda are two languages"),
        ((*MODEL, *NONE, "--tolerance", "0.1"), "--tolerance needs a device"),
        ((*MODEL, *NONE, "--parameters", "a=b.irpa"), "--parameters needs a device"),
        ((*MODEL, *NONE, "--route", "data-tiling", "--route", "plain"), "no route is faster than another"),
        ((*MODEL, "--top", "2", "--min-share", "5"), "--min-share is for a model without --top"),
        ((*MODEL, *NONE, "--input", "7x7xf32"), "takes 5 inputs"),
        (("gemm", *GEMM, "--bucket-m", "16,any", "--cache", "cold"), "--cache cold is for one --shape"),
        (("gemm", *GEMM, "--bucket-m", "16,any", "--epilogue", "relu"), "for a plain product"),
        (("gemm", *GEMM, "--bucket-m", "16,any", "--microkernels", "auto"), "no microkernels join"),
        ((*AB, "--model", MODEL[1], "--cache", "cold"), "--cache is for single problems"),
        (("gemm", *GEMM, *NONE, "--cache", "warm"), "--cache needs a device"),
        (("gemm", *GEMM, "--isolate", "--cache", "cold"), "--cache cold needs a device that stays open"),
        (("suite", "--list", "--sample", "3"), "--sample has no meaning with --list"),
        (("suite", "unet", "--list", "--budget", "1m"), "--budget has no meaning with --list"),
        (("suite", "unet", *NONE, "-o", "all.mlir"), "--output needs a device"),
        (("history", "20260101-000000-abcdef", "--limit", "3"), "--limit chooses among runs"),
    ],
)
def test_what_a_command_would_not_use_is_refused(words: tuple[str, ...], says: str, here: Here) -> None:
    assert says in complaint(here(*words), 2)


@pytest.mark.usefixtures("warm_cache")
def test_without_a_device_the_most_promising_spec_is_written_where_it_is_asked_for(here: Here) -> None:
    words = ("gemm", *GEMM, "--target", "sm_80", *NONE, "--trials", "6", "--quiet", "--json")
    done = here(*words, "-o", "out/best.mlir")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    spec = here.folder / "out" / "best.mlir"
    assert (document["verdict"], document["spec"]) == ("compile-only", str(spec))
    assert f"// verdict:    {ESTIMATED}" in spec.read_text()
    assert document["speedup"] is None
    assert document["best"]["estimate"]["score"] <= document["baseline"]["estimate"]["score"]
    assert [entry.provenance.verdict for entry in read(spec).entries if entry.provenance] == [ESTIMATED]
    assert str(spec) in Path(document["flagfile"]).read_text()


def test_a_model_is_never_written_over(here: Here) -> None:
    model, notes = here.folder / "net.mlir", here.folder / "net.md"
    model.write_text(Path(MODEL[1]).read_text())
    notes.write_text("mine\n")
    before = model.read_text()
    assert "is an input" in complaint(here("model", "net.mlir", *NONE, "-o", "net.mlir"), 2)
    other = ("model", "net.mlir", *NONE, "-o", "../" + here.folder.name + "/net.mlir")
    assert "is an input" in complaint(here(*other), 2)
    copy = here.folder / "model.mlir"
    copy.hardlink_to(model)
    assert "is an input" in complaint(here("model", "model.mlir", *NONE, "-o", "net.mlir"), 2)
    assert (model.read_text(), notes.read_text()) == (before, "mine\n")


# --- whose code runs --------------------------------------------------------------------------------------------------


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
