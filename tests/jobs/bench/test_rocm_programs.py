"""AMD's own benchmarks as anchors: what they are asked, and what is read from what they print, by stand-ins that speak
the formats of their documents. None of this has run on a GPU."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from autotuner.errors import EnvironmentFailure
from autotuner.jobs.bench.backends import LIBRARIES
from autotuner.jobs.bench.given import given_problem
from autotuner.jobs.bench.library import open_library
from autotuner.jobs.bench.sides import Manner, NoSideError
from autotuner.problems import Gemm
from autotuner.targets import Target
from tests.support.bare_device import BareDevice

MANNER = Manner(BareDevice(), seconds=0.001, timeout=60.0, on_host=False)
HIPBLASLT = """Is supported 1 / Total solutions: 1
[0]:transA,transB,grouped_gemm,batch_count,m,n,k,alpha,bias_type,hipblaslt-Gflops,hipblaslt-GB/s,us
    T,N,0,1,24,16,32,1,non-supported type,403.298,17.6063,24.5
    --Solution index: 302128
"""
ROCBLAS = """rocBLAS info: maximum library size per device is 0.61866 GB.

transA,transB,M,N,K,alpha,lda,beta,ldb,ldc,rocblas-Gflops,us

T,N,24,16,32,1,32,0,32,24, 97190.6, 1317
"""
TRACE = """"Kind","Kernel_Name","Start_Timestamp","End_Timestamp"
"KERNEL_DISPATCH","fill(float*)",1000,900000
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of stand-ins: each notes how it is called, and prints what it is given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def program(folder: Path, name: str, prints: str, *, more: str = "") -> None:
    lines = [f"#!{sys.executable}", "import sys", f"calls = open({str(folder / name)!r} + '.txt', 'a')"]
    lines += ["print(*sys.argv[1:], file=calls)", more, f"print({prints!r})"]
    (folder / name).write_text("\n".join(lines))
    (folder / name).chmod(0o755)


def timed(name: str, problem: Gemm, folder: Path) -> tuple[str, tuple[float, ...]]:
    library = LIBRARIES[name]
    with open_library(library, python=Path(sys.executable), device="hip://0", on_host=False, folder=folder) as process:
        side = process.prepare(given_problem(problem, folder, seed=0), MANNER)
        return side.how, side.time(2).us


@pytest.mark.parametrize(
    ("name", "prints", "us", "asked"),
    [
        ("hipblaslt", HIPBLASLT, 24.5, "--transA T --transB N -m 24 -n 16 -k 32 --batch_count 1 --lda 32 --ldb 32"),
        (
            "rocblas",
            ROCBLAS,
            1317.0,
            "--transposeA T --transposeB N -m 24 -n 16 -k 32 --batch_count 1 --lda 32 --ldb 32",
        ),
    ],
)
def test_amds_program_is_asked_for_the_transpose_and_its_time_is_read(
    name: str, prints: str, us: float, asked: str, programs: Path, tmp_path: Path
) -> None:
    program(programs, f"{name}-bench", prints)
    how, times = timed(name, Gemm(16, 24, 32, layout="nt"), tmp_path / "own")
    assert times == pytest.approx((us, us))
    assert "results not compared; never run on a GPU" in how
    called = (programs / f"{name}-bench.txt").read_text().splitlines()
    types = "--a_type f16_r --b_type f16_r --c_type f32_r --d_type f32_r --compute_type f32_r --alpha 1 --beta 0"
    assert called[0].startswith(f"{asked} --ldc 24 --ldd 24 {types} --device 0 ")
    assert called[0].endswith("--cold_iters 10 --iters 10")


def test_kernels_are_timed_by_the_profiler_where_it_is_installed(programs: Path, tmp_path: Path) -> None:
    program(programs, "hipblaslt-bench", HIPBLASLT)
    rows = "".join(f'"KERNEL_DISPATCH","Cijk",{at},{at + 12_500}\n' for at in range(0, 2000 * 20_000, 20_000))
    write = f"open(sys.argv[sys.argv.index('-d') + 1] + '/product_kernel_trace.csv', 'w').write({TRACE + rows!r})"
    program(programs, "rocprofv3", "", more=write)
    how, _ = timed("hipblaslt", Gemm(16, 24, 32), tmp_path / "own")
    assert how.endswith("by rocprofv3 its kernels alone take 12.50 µs")
    assert "--kernel-trace --output-format csv" in (programs / "rocprofv3.txt").read_text()


def test_two_types_lie_the_other_way_round_as_do_the_factors(programs: Path, tmp_path: Path) -> None:
    program(programs, "hipblaslt-bench", HIPBLASLT)
    timed("hipblaslt", Gemm(16, 24, 32, dtype="f8xbf8", f8="f8E4M3FNUZ", layout="nt", batch=3), tmp_path / "own")
    called = (programs / "hipblaslt-bench.txt").read_text()
    assert "--batch_count 3 " in called
    assert "--a_type bf8_fnuz_r --b_type f8_fnuz_r --c_type f32_r" in called


@pytest.mark.parametrize(
    ("name", "problem", "says"),
    [
        ("rocblas", Gemm(16, 24, 32, dtype="f8", layout="nt"), "rocblas has no f8E4M3FN here"),
        ("hipblaslt", Gemm(16, 24, 32, acc="f16"), "sums in f32 and i32"),
        ("hipblaslt", Gemm(16, 24, 32, dtype="f8row", layout="nt"), "plain products"),
    ],
)
def test_what_it_is_not_asked_for_is_refused_in_words(
    name: str, problem: Gemm, says: str, programs: Path, tmp_path: Path
) -> None:
    program(programs, f"{name}-bench", "nothing")
    with pytest.raises(NoSideError, match=says) as raised:
        timed(name, problem, tmp_path / "own")
    assert raised.value.failure == "not-supported"


def test_a_program_that_prints_no_time_is_a_failure(programs: Path, tmp_path: Path) -> None:
    program(programs, "hipblaslt-bench", "no device")
    with pytest.raises(NoSideError, match="has printed no time: no device") as raised:
        timed("hipblaslt", Gemm(16, 24, 32), tmp_path / "own")
    assert raised.value.failure == "run-error"


def test_without_the_program_the_error_says_what_to_build(programs: Path, tmp_path: Path) -> None:
    del programs
    with pytest.raises(EnvironmentFailure, match="rocblas-bench is not in PATH: build rocblas's clients"):
        timed("rocblas", Gemm(16, 24, 32), tmp_path / "own")
    assert LIBRARIES["rocblas"].objection(Target.parse("sm_80")).startswith("rocblas computes on AMD's GPUs")
    assert not LIBRARIES["rocblas"].objection(Target.parse("mi300x"))
