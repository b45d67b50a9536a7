"""How arms are named, what their files may say, and which inputs are taken: all before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from autotuner import Gemm, Target
from autotuner.errors import UsageError
from autotuner.jobs.ab.arms import parse_arm
from autotuner.jobs.ab.opening import problem_inputs
from autotuner.jobs.ab.recipe import file_flags
from tests.jobs.ab.conftest import CPU

SMALL = Gemm.parse(shape="2x3x4", dtype="f32")


def test_an_arm_is_told_by_its_form(tmp_path: Path, flagfile: Callable[..., Path]) -> None:
    flags, spec, compiler = flagfile("one", "--x"), tmp_path / "spec.mlir", tmp_path / "iree-compile"
    spec.write_text("")
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    words = ("default", "sgemm_c", f"@{flags}", str(flags), str(spec), str(compiler))
    kinds = [parse_arm(word, workspace=tmp_path).kind for word in words]
    assert kinds == ["default", "microkernel", "flagfile", "flagfile", "spec", "compiler"]


def test_a_microkernels_name_counts_where_a_file_has_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sgemm_c").write_text("a file of this name")
    assert parse_arm("sgemm_c", workspace=tmp_path).kind == "microkernel"


@pytest.mark.parametrize("word", ["sgem_c", "@", "@nothing", "nothing.flags", "nothing.mlir", "./nothing", "../evil"])
def test_what_is_no_arm_is_refused(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError):
        parse_arm(word, workspace=tmp_path)


def test_a_file_that_cannot_be_run_is_no_compiler(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(UsageError, match="not executable"):
        parse_arm(str(tmp_path / "notes.txt"), workspace=tmp_path)


def test_flags_of_a_file_take_the_place_of_the_targets() -> None:
    target = Target.parse("cpu", flags=["--iree-opt-data-tiling"])
    flags = file_flags(target, ["--iree-llvmcpu-target-cpu=generic", "--iree-opt-data-tiling=false"], path=Path("f"))
    assert "--iree-llvmcpu-target-cpu=generic" in flags
    assert sum(flag.startswith(("--iree-llvmcpu-target-cpu", "--iree-opt-data-tiling")) for flag in flags) == 2


def test_files_that_flags_name_are_found_from_anywhere() -> None:
    flags = file_flags(CPU, ["--iree-codegen-tuning-spec-path=a/spec.mlir"], path=Path("f"))
    assert flags[-1] == f"--iree-codegen-tuning-spec-path={Path('a/spec.mlir').absolute()}"
    substitution = "--iree-hal-substitute-executable-configuration=main$async_dispatch_0"
    flags = file_flags(CPU, [f"{substitution}=a/b=c.mlir"], path=Path("f"))
    assert flags[-1] == f"{substitution}={Path('a/b=c.mlir').absolute()}"


def test_a_flagfile_for_another_target_is_refused() -> None:
    with pytest.raises(UsageError, match="another target"):
        file_flags(CPU, ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx942"], path=Path("f.flags"))


# --- inputs ---------------------------------------------------------------------------------------------------------


def test_inputs_are_files_values_or_seeded(tmp_path: Path) -> None:
    given = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.save(tmp_path / "a.npy", np.asfortranarray(given))
    a, b = problem_inputs([f"@{tmp_path / 'a.npy'}", "4x3xf32=0.5"], SMALL, seed=0)
    assert (a == given).all()
    assert b.shape == (4, 3)
    assert (b == 0.5).all()
    _, seeded = problem_inputs(["2x4xf32=1 2 3 4 5 6 7 8", "4x3xf32"], SMALL, seed=3)
    assert (seeded == SMALL.inputs(3)[1]).all()
    given.tofile(tmp_path / "a.bin")
    raw, _ = problem_inputs([f"2x4xf32=@{tmp_path / 'a.bin'}", "4x3xf32"], SMALL, seed=0)
    assert (raw == given).all()


def test_a_file_of_bfloat16_has_no_type_and_is_taken(tmp_path: Path) -> None:
    problem = Gemm.parse(shape="2x3x4", dtype="bf16")
    np.save(tmp_path / "a.npy", np.ones((2, 4), ml_dtypes.bfloat16))
    a, _ = problem_inputs([f"@{tmp_path / 'a.npy'}", "4x3xbf16"], problem, seed=0)
    assert a.dtype == ml_dtypes.bfloat16
    assert float(a[0, 0]) == 1.0


def test_inputs_that_do_not_fit_say_what_is_expected_and_what_was_found(tmp_path: Path) -> None:
    np.save(tmp_path / "wide.npy", np.zeros((2, 5), np.float32))
    np.save(tmp_path / "double.npy", np.zeros((2, 4)))
    np.save(tmp_path / "nan.npy", np.full((2, 4), np.nan, np.float32))
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "many.npz", a=np.zeros(2))
    (tmp_path / "text.npy").write_text("this is no array")
    (tmp_path / "empty.npy").write_text("")
    for name, says in [
        ("wide.npy", "does not fit the input, which is 2x4xf32"),
        ("double.npy", "is 2x4xfloat64, and the input is 2x4xf32"),
        ("nan.npy", "not finite"),
        ("pickle.npy", "no .npy file"),
        ("many.npz", "no .npy file"),
        ("text.npy", "no .npy file"),
        ("empty.npy", "no .npy file"),
        ("nothing.npy", "there is no file"),
    ]:
        with pytest.raises(UsageError, match=says):
            problem_inputs([f"@{tmp_path / name}", "4x3xf32"], SMALL, seed=0)
    for text, says in [
        ("2x5xf32", "does not fit"),
        ("2x4xf32=1 2", "has 2 values, not 8"),
        ("2x4xf32=a", "is no number"),
        ("", "is not SHAPExTYPE"),
    ]:
        with pytest.raises(UsageError, match=says):
            problem_inputs([text, "4x3xf32"], SMALL, seed=0)
    with pytest.raises(UsageError, match="takes 2 inputs"):
        problem_inputs(["2x4xf32"], SMALL, seed=0)
