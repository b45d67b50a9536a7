"""hipblaslt-bench: the product in its terms, its figures read, and its end a failure; by a program that stands in."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from autotuner.jobs.bench.given import task_of
from autotuner.jobs.bench.hipblaslt import Hipblaslt, command, read_us, refusal
from autotuner.jobs.bench.sides import Manner
from autotuner.jobs.suite.logs import row_major
from autotuner.problems import Conv, Gemm
from autotuner.problems.epilogue import Epilogue
from tests.support.bare_device import BareDevice

OLD = """transA,transB,M,N,K,alpha,lda,hipblaslt-Gflops,us
N,N,128,128,128,1,128, 415.278, 10.
"""
NEW = """Is supported 1 / Total solutions: 1
[0]:transA,transB,grouped_gemm,batch_count,m,n,k,hipblaslt-Gflops,hipblaslt-GB/s,us
    N,T,0,1,4096,4096,4096,610500,1200,225.1
"""
TITLES = (
    "transA,transB,grouped_gemm,batch_count,m,n,k,alpha,lda,stride_a,beta,ldb,stride_b,ldc,stride_c,ldd,stride_d,a_type,"
    "b_type,c_type,d_type,compute_type,scaleA,scaleB,scaleC,scaleD,amaxD,swizzle_a,swizzle_b,activation_type,"
    "bias_vector,bias_type,aux_type,rotating_buffer,flush,use_gpu_timer,hipblaslt-Gflops,hipblaslt-GB/s,us"
)
WHOLE = f"""hipBLASLt version: 100200
Query device success: there are 8 devices. (Target device ID is 0)
Device ID 0 : AMD Instinct MI300X gfx942:sramecc+:xnack-
with 206.1 GB memory, max. SCLK 2100 MHz, max. MCLK 1300 MHz, compute capability 9.4

Rotating buffer 512 MiB. Needed Size: 96 MiB. Needed block count: 6 (Capped to max iters: 50)
Is supported 1 / Total solutions: 1
[0]:{TITLES}
    T,N,0,1,8192,8192,8192,1,8192,67108864,0,8192,67108864,8192,67108864,8192,67108864,bf16_r,bf16_r,bf16_r,bf16_r,f32_r,0,\
0,0,0,0,0,0,none,0,bf16_r,bf16_r,512,1,1,1.1e+06,375.2,999.6
    --Solution index: 1234
    --Solution name:  Cijk_Alik_Bljk
    --kernel name:    Cijk_Alik_Bljk
"""
"""The titles and lines of the versions of 2025; the figures are chosen."""


@pytest.mark.parametrize(
    ("text", "us"), [(OLD, 10.0), (NEW, 225.1), (WHOLE, 999.6), ("", None), ("hipblaslt-Gflops,us\nx,y", None)]
)
def test_the_time_is_read_where_the_titles_say(text: str, us: float | None) -> None:
    assert read_us(text) == us


@pytest.mark.parametrize("layout", ["nn", "nt", "tn", "tt"])
def test_a_product_is_asked_for_as_the_library_would_log_it(layout: str) -> None:
    """Read back as the suites read its logs, it is the same problem."""
    problem = Gemm(16, 32, 64, batch=3, dtype="f16", layout=layout)
    words = command(Path("bench"), task_of(problem), device="hip://2", cold=True)
    said = dict(zip(words[1::2], words[2::2], strict=False))
    m, n, k, batch = (int(said[name]) for name in ("-m", "-n", "-k", "--batch_count"))
    words_of = (said[f"--{name}"] for name in ("transA", "transB", "a_type", "b_type", "d_type", "compute_type"))
    assert row_major((m, n, k), batch, *words_of) == problem
    assert words[words.index("--device") + 1] == "2"
    assert "--rotating" in words
    assert "--rotating" not in command(Path("bench"), task_of(problem), device="hip", cold=False)


def test_what_it_does_not_compute_is_said() -> None:
    assert refusal(task_of(Gemm(8, 8, 8))) == ""
    assert refusal(task_of(Conv(1, 8, 8, 4, 3, 3, 4))) == "hipBLASLt has products, and no conv"
    assert "epilogue" in refusal(task_of(Gemm(8, 8, 8, epilogue=Epilogue(low=0.0))))


@dataclass
class Lending(BareDevice):
    """Counts how often it is given to another process."""

    lent: list[bool] = field(default_factory=list)

    def lend(self, *, busy: bool) -> None:
        self.lent.append(busy)


@pytest.mark.parametrize(
    ("script", "us", "failure"),
    [
        (f"cat <<'END'\n{NEW}END", (225.1,), None),
        ("echo no such device >&2; exit 3", (), "run-error"),
        ("echo nothing", (), "run-error"),
        ("sleep 60", (), "run-timeout"),
    ],
)
def test_each_block_is_a_process_whose_end_is_its_row(
    tmp_path: Path, script: str, us: tuple[float, ...], failure: str | None
) -> None:
    program, device = tmp_path / "hipblaslt-bench", Lending()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    timeout = 0.5 if failure == "run-timeout" else 60.0
    task = task_of(Gemm(8, 8, 8))
    side = Hipblaslt(program, "hip://0", task, Manner(device, 0.02, timeout, on_host=False))
    timing = side.time(repetitions=3)
    assert (timing.us, timing.failure) == (us, failure)
    assert device.lent == [True]
    assert side.answer() is None  # type: ignore[func-returns-value]
