"""`autotune ab` and `--microkernels`: real kernels, compiled, run and judged; wrong ones are told from slow ones."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner import Gemm, Options, Result, Target, tune
from autotuner.iree.tools import Tools
from autotuner.jobs.ab.variants import ALONE
from autotuner.microkernels.variants import Kernel
from autotuner.problems.render import problem_mlir
from autotuner.store.store import Store
from autotuner.tuning.options import Effort
from autotuner.tuning.session import Session
from autotuner.tuning.tune import search
from tests.support.fake_tools import ONE_ROUTE, FakeTools
from tests.support.kernels import own_kernel
from tests.support.spec_files import Answer, autotune

__all__ = ["autotune"]

SHAPE = ("--shape", "96x64x128")
MISA = "misa_igemm_fwd_nhwc_fp16"
QUICK = ("--trials", "2", "--budget", "20m", "--effort", "quick", "--json", "--quiet")

NAIVE = """\
void naive(const float* a, const float* b, float* c, int m, int n, int k) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      c[i * n + j] = sum;
    }
}
"""

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler on this machine"
)


@pytest.fixture(autouse=True)
def cache(warm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(warm / "cache"))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


QUICKLY = Effort(trials=3, budget=600, compile_only_trials=3, race_entrants=2)
GEMM = Gemm.parse(shape="96x64x128", dtype="f32")


def built(workspace: Path, kernel: str) -> Result:
    """A search without a device, in which this kernel joins."""
    options = Options(
        effort=QUICKLY, workspace=workspace, microkernels=(Kernel(kernel),), device="none", jobs=2, command=()
    )
    return tune(GEMM, ONE_ROUTE, options=options)


def test_microkernels_and_code_generation_are_searched_together(workspace: Path) -> None:
    result = built(workspace, "auto")
    said = [path.read_text()[-500:] for path in (workspace / "candidates").glob("*/*/stderr.txt")]
    assert sum(result.counts.failed.values()) == 0, said
    assert not any("microkernel" in note for note in result.notes), "all that fits can be built"
    assert result.best_codegen is None, "nothing was timed"
    with Store.open(None, workspace=workspace, create=False) as store:
        kinds = {row.kind for row in store.candidates(result.run)}
    assert kinds >= {"baseline", "codegen", "microkernel"}


@pytest.mark.long
def test_a_kernel_that_wins_ships_with_its_objects_and_works_from_its_flagfile(workspace: Path, tmp_path: Path) -> None:
    """Compiler and check are real; the times are given, so that it wins on any machine."""
    effort = Effort(trials=1, budget=120, compile_only_trials=1, race_entrants=2)
    options = Options(effort=effort, workspace=workspace, microkernels=(Kernel("sgemm_c"),), command=())
    fake = FakeTools(tmp_path / "fake", tmp_path / "labels", rules=[("*transform-spec-filename*", 50.0)])
    target = Target.parse("cpu")
    with Session.open(target, options, tools=fake.tools) as session:
        result = search(GEMM, target, options=options, session=session, task=ALONE).result
    assert result.verdict == "win"
    assert result.carrier == "microkernel"
    assert result.spec is not None
    assert result.flagfile is not None
    assert result.spec.read_text().startswith("// Microkernel spec by autotune")
    assert "made by:    autotune ab sgemm_c --shape 96x64x128 " in result.spec.read_text()
    assert result.spec.name == "gemm_96x64x128_f32_f32_nn-cpu-sgemm_c.mlir"
    objects = result.spec.with_suffix(".objects")
    assert [path.suffix for path in objects.iterdir()] == [".o"]
    (tmp_path / "problem.mlir").write_text(problem_mlir(GEMM))
    words = [str(Tools.find().iree_compile), "problem.mlir", f"@{result.flagfile}"]
    done = subprocess.run(
        [*words, "--compile-to=preprocessing", "-o", "-"], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert "autotune_microkernel_0" in done.stdout


CRASH = "{\n  *(volatile float*)(c + ((size_t)1 << 45)) = 0;"
WRONG = r"mine computes wrong results: relative error .*, allowed .*; element \(\d+, \d+\) is .*, not .*"


@pytest.mark.parametrize(
    ("old", "new", "words", "code", "says"),
    [
        (
            *("size_t tile_m, size_t entry) {", f"size_t tile_m, size_t entry) {CRASH}"),
            *(("default", "mine", *SHAPE, "--effort", "quick"), 5),
            "mine does not run on 'local-task': ended by SIGSEGV. Check --input and --device",
        ),
        ('"n", "k"]', '"n", "k - 1"]', ("mine", *SHAPE, *QUICK, "--trials", "1", "--budget", "10m"), 4, WRONG),
        (
            'symbol = "sgemm"',
            'symbol = "dgemm"',
            ("mine", *SHAPE, *QUICK),
            2,
            r"symbol: expected dgemm_\w+, found sgemm\.",
        ),
        ("#include", "this is no C\n#include", ("mine", *SHAPE, *QUICK), 3, "sgemm.c does not compile"),
    ],
    ids=["crashes", "wrong", "no symbol", "no C"],
)
def test_what_is_wrong_with_a_kernel_has_its_exit_code_and_words(
    old: str, new: str, words: tuple[str, ...], code: int, says: str, workspace: Path, autotune: Callable[..., Answer]
) -> None:
    own_kernel(workspace, **{old: new})
    answer = autotune("ab", *words, "--workspace", workspace)
    assert answer.code == code, answer.err
    assert re.search(says, answer.err), answer.err
    assert code != 2 or not list((workspace / "candidates").glob("*/*")), "refused before IREE compiles it"


@pytest.mark.long
def test_a_time_that_does_not_hold_is_told_as_such_with_ones_own_iree_too(
    workspace: Path, tmp_path: Path, autotune: Callable[..., Answer]
) -> None:
    """It looks whether its last element lies there."""
    skips = "float sum = -c[m * n - 1]; for (int p = 0; p < k; ++p) sum += a[(m - 1) * k + p] * b[p * n + n - 1];"
    source = tmp_path / "skips.c"
    source.write_text(NAIVE.replace("{\n", f"{{\n{skips} if (sum * sum < 1e-6f) return;\n", 1))
    for name, real in vars(Tools.find()).items():
        if isinstance(real, Path):
            program = tmp_path / name.replace("_", "-")
            program.write_text(f'#!/bin/sh\nexec {real} "$@"\n')
            program.chmod(0o755)
    answer = autotune("ab", source, *SHAPE, *QUICK, "--iree-tools", tmp_path, "--workspace", workspace)
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    assert document["verdict"] == "no-winner"
    assert document["counts"]["failed"]["wrong-time"] == 1
    assert re.search("its time does not hold|faster than this device can be", document["reason"])


@pytest.mark.long
def test_what_is_wrong_only_when_it_is_called_on_new_inputs_is_wrong(
    workspace: Path, autotune: Callable[..., Answer]
) -> None:
    skips = "size_t tile_m, size_t entry) { if (tile_m + tile_n == 0 && c[n + 1] == c[n + 1] && c[0] == c[0]) return;"
    own_kernel(workspace, **{"size_t tile_m, size_t entry) {": skips})
    answer = autotune("ab", "default", "mine", *SHAPE, *QUICK[2:], "--workspace", workspace)
    assert answer.code == 4, (answer.err, answer.out)
    assert re.search(r"mine computes wrong results, .* wrong in \d+ of \d+ calls on inputs that change", answer.err)


def test_in_a_search_a_kernel_that_cannot_be_made_is_a_failed_row(workspace: Path) -> None:
    folder = own_kernel(workspace)
    (folder / "sgemm.c").write_text("this is no C\n")
    result = built(workspace, "mine")
    assert result.counts.failed["compile-error"] >= 1
    texts = [path.read_text() for path in (workspace / "candidates").glob("*/*/stderr.txt")]
    assert any("sgemm.c does not compile" in text for text in texts)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["ab"], "ab needs a microkernel and --shape"),
        (["ab", "sgemm_cc", *SHAPE], "Did you mean sgemm_c"),
        (["ab", MISA, "--shape", "2x32x32x64"], "Give --filter"),
        (["ab", "--inspect", "/dev/null"], ""),
        (["gemm", *SHAPE, "--dtype", "f32", "--microkernels", "nothing"], "there is no microkernel 'nothing'"),
        (["ab", "sgemm_c", *SHAPE, "--dtype", "f16"], "sgemm_c: it does not compute f16"),
        (["ab", "sgemm_c", *SHAPE, "--target", "gfx942", "--device", "none"], "sgemm_c: it is not for gfx942"),
        (["gemm", *SHAPE, "--dtype", "f32", "--microkernels", "conv_c"], "it computes 'conv', not gemm"),
    ],
)
def test_what_cannot_be_is_refused_at_once_and_with_a_remedy(
    words: list[str], says: str, workspace: Path, autotune: Callable[..., Answer]
) -> None:
    answer = autotune(*words, "--workspace", workspace)
    assert answer.code == 2, answer.err
    assert says in answer.err
    assert "reading the space" not in answer.err


def test_without_an_object_the_user_is_asked_for_one(workspace: Path, autotune: Callable[..., Answer]) -> None:
    image = ("--shape", "2x32x32x1280", "--filter", "3x3x1280", "--pad", "1x1")
    answer = autotune("ab", MISA, *image, "--target", "gfx942", "--device", "none", "--workspace", workspace)
    assert answer.code == 2, answer.err
    assert re.search(r"no object for gfx942\. .* Give one yourself", answer.err), answer.err


def test_list_inspect_and_new(workspace: Path, tmp_path: Path, autotune: Callable[..., Answer]) -> None:
    assert Path(autotune("ab", "--new", "first_one", "--workspace", workspace).out.strip()).is_file()
    listed = autotune("ab", "--list", "--json", "--workspace", workspace)
    entries = {entry["name"]: entry for entry in json.loads(listed.out)}
    assert entries["sgemm_c"].keys() >= {"name", "op", "dtypes", "targets", "provider"}
    assert "first_one" in entries
    (source := tmp_path / "kernel.c").write_text("void kernel(float* a) { *a = 1; }\n")
    subprocess.run(["cc", "-c", str(source), "-o", str(tmp_path / "kernel.o")], check=True)
    assert "kernel" in autotune("ab", "--inspect", tmp_path / "kernel.o").out


def test_a_dry_run_shows_the_kernels_spec_and_both_flags(workspace: Path, autotune: Callable[..., Answer]) -> None:
    answer = autotune("ab", "sgemm_c", *SHAPE, "--dry-run", "--json", "--workspace", workspace)
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    assert document["config"]["kernel"] == "sgemm_c"
    assert "autotune_microkernel_0" in document["spec_mlir"]
    assert "--iree-preprocessing-transform-spec-filename=spec.mlir" in document["commands"][0]
    assert "--iree-hal-executable-object-search-path=" in document["commands"][0]
