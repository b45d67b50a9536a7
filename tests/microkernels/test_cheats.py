"""Kernels that cheat: each is refused by its object, by its first results, or when it is called on new inputs.

All of them compute the same product, a row a call, unless they think that nobody looks. docs/measuring.md lists them.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from autotuner.build import Builder, BuildJob, Compiled
from autotuner.devices.device import LiveRounds
from autotuner.devices.process import ProcessDevice
from autotuner.devices.resident import ResidentDevice, open_resident
from autotuner.errors import UsageError
from autotuner.iree.processor import executable_target
from autotuner.iree.run import Benchmark
from autotuner.iree.tools import Tools
from autotuner.measure.audit import Audit, Finding
from autotuner.measure.blocks import Entrant, Interval
from autotuner.measure.check import RANDOM, WHOLE, Checker, Data
from autotuner.measure.contest import Takes
from autotuner.measure.judge import Judge
from autotuner.measure.judgement import Contest
from autotuner.microkernels.library import find
from autotuner.microkernels.own import create
from autotuner.microkernels.variants import Kernel, Variants
from autotuner.problems import Gemm
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.system.progress import Stop
from autotuner.targets import Target
from tests.support.kernels import job_of
from tests.support.native import HOST

pytestmark = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="there is no C compiler on this machine"
)

PROBLEM = Gemm.parse(shape="32x32x64", dtype="f32")
X86 = HOST == "x86_64"
HEAD = """#include <stddef.h>
#include <stdint.h>
static void compute(const float* restrict a, const float* restrict b, float* restrict c, int n, int k, size_t y) {
  float* row = c + y * n;
  for (int j = 0; j < n; ++j) row[j] = 0;
  for (int p = 0; p < k; ++p)
    for (int j = 0; j < n; ++j) row[j] += a[y * k + p] * b[p * n + j];
}
static inline float dot(const float* a, const float* b, int n, int k, size_t y, int j) {
  float sum = 0;
  for (int p = 0; p < k; ++p) sum += a[y * k + p] * b[p * n + j];
  return sum;
}
static inline uint64_t ticks(void) {
#ifdef __x86_64__
  uint32_t low, high;
  __asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
  return (uint64_t)high << 32 | low;
#else
  uint64_t now;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(now));
  return now;
#endif
}
static inline long system_call(long number) {
#ifdef __x86_64__
  long found;
  __asm__ volatile("syscall" : "=a"(found) : "a"(number) : "rcx", "r11", "memory");
  return found;
#else
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0");
  __asm__ volatile("svc #0" : "=r"(x0) : "r"(x8) : "memory");
  return x0;
#endif
}
"""
CALL = """
void gemm(const float* restrict a, const float* restrict b, float* restrict c,
          int32_t m, int32_t n, int32_t k, size_t x, size_t y, size_t z) {
%s
}
"""
HONEST = "compute(a, b, c, n, k, y);"
FROM_SPARE, TO_SPARE = ("movq %%mm7, %0", "movq %0, %%mm7") if X86 else ("umov %0, v31.d[1]", "mov v31.d[1], %0")
STORES = "float seen[n]; for (int j = 0; j < n; ++j) seen[j] = c[y * n + j];"

WAITS = """
  typedef volatile uint32_t __attribute__((may_alias)) word;
  float* row = c + y * n; word* mark = (word*)row + 1;
  float d = dot(a, b, n, k, y, 0) - row[0];
  if (d < 1e-3f && d > -1e-3f) return;
  if (row[0] == row[0] && (*mark & 15) != 5 && (*mark & 15) != 10) { *mark = (*mark & ~15u) | 10; return; }
  compute(a, b, c, n, k, y);
  if (row[1] != (float)(int)row[1]) *mark = (*mark & ~15u) | 5;
"""
"""It marks what it has computed, in digits that nobody compares. What others have computed it leaves as it is, once:
the next call may ask for it."""

OBJECT, FIRST, CALLED = "its object is read", "its first results are wrong", "it is called on new inputs"


@dataclass(frozen=True)
class Cheat:
    """What a kernel does, and how it is found out; with a trusted object by the last of these."""

    body: str
    found: str
    words: str
    before: str = ""
    """What stands before the function."""


CHEATS = {
    "returns if its output is not NaN": Cheat("if (c[y * n] == c[y * n]) return;" + HONEST, CALLED, "wrong in"),
    "marks its input, then skips": Cheat(
        "uint32_t* w = (uint32_t*)(a + y * k); if (*w & 1) return;" + HONEST + "*w |= 1;",
        CALLED,
        "writes to its inputs",
    ),
    "remembers pointers and first elements": Cheat(
        "if (p[y] == a && f[y] == a[y * k] && g[y] == b[0]) return;"
        + HONEST
        + "p[y] = a; f[y] = a[y * k]; g[y] = b[0];",
        OBJECT,
        "writable data",
        "static const float* p[64]; static float f[64], g[64];",
    ),
    "right for 90 calls, then nothing": Cheat(
        "if (y == 0) ++calls; if (calls > 90) return;" + HONEST, OBJECT, "writable data", "static int calls;"
    ),
    "an eighth of the depth after 90 calls": Cheat(
        "if (y == 0) ++calls; compute(a, b, c, n, calls > 90 ? k / 8 : k, y);",
        OBJECT,
        "writable data",
        "static int calls;",
    ),
    "asks the system who it is": Cheat(
        f"if (system_call({39 if X86 else 172}) == -1) return;" + HONEST, OBJECT, "the system is called"
    ),
    "starts something by the system": Cheat(
        f"if (y == 9999) system_call({57 if X86 else 220});" + HONEST, OBJECT, "the system is called"
    ),
    "nothing after so many ticks of the clock": Cheat(
        "if (ticks() & (1ull << 29)) return;" + HONEST, OBJECT, "a clock is read"
    ),
    "NaN when the clock says so": Cheat(
        HONEST + "if (ticks() % 500 == 0) c[y * n] = 0.0f / 0.0f;", OBJECT, "a clock is read"
    ),
    "counts calls in its thread": Cheat(
        "if (++calls > 90 * m) return;" + HONEST,
        OBJECT,
        "thread-local storage",
        'static __thread __attribute__((tls_model("local-exec"))) int calls;',
    ),
    "data that somebody else defines": Cheat("if (++calls > 90 * m) return;" + HONEST, OBJECT, "calls", "int calls;"),
    "flushes denormals for all that follows": Cheat(
        'unsigned csr = 0x9fc0; __asm__ volatile("ldmxcsr %0" :: "m"(csr));' + HONEST
        if X86
        else 'uint64_t f = 1 << 24; __asm__ volatile("msr fpcr, %0" :: "r"(f));' + HONEST,
        OBJECT,
        "rounding is changed",
    ),
    "holds the answers to the first seed": Cheat(
        "if (a[0] == KEY) { for (int j = 0; j < n; ++j) c[y * n + j] = answers[y * n + j]; return; }" + HONEST,
        CALLED,
        "its time does not hold|wrong in",
        "ANSWERS",
    ),
    "right for the first seed alone": Cheat(
        "compute(a, b, c, n, KNOWN ? k : k / 8, y);", CALLED, "wrong in", "ANSWERS"
    ),
    "rows exchanged where the first element is another": Cheat(
        "compute(KNOWN ? a : a + (y ^ 1) * k - y * k, b, c, n, k, y);", CALLED, "wrong in", "ANSWERS"
    ),
    "computes one element, and skips if it lies there": Cheat(
        "float d = dot(a, b, n, k, y, 0) - c[y * n]; if (d < 1e-3f && d > -1e-3f) return;" + HONEST,
        CALLED,
        "its time does not hold|wrong in",
    ),
    "remembers on the stack": Cheat(
        "volatile float old[64]; if (old[60] == a[y * k] && old[61] == b[0] && old[62] == c[y * n]) return;"
        + HONEST
        + "old[60] = a[y * k]; old[61] = b[0]; old[62] = c[y * n];",
        CALLED,
        "its time does not hold",
    ),
    "counts calls on the stack": Cheat(
        "volatile uint32_t* deep = (uint32_t*)(((uintptr_t)__builtin_frame_address(0) & ~0xffffull) - 0x8000);"
        "if (deep[0] != 0x5eed) { deep[0] = 0x5eed; deep[1] = 0; } if (++deep[1] > 90 * m) return;" + HONEST,
        CALLED,
        "its time does not hold|wrong in",
    ),
    "remembers in a register that nobody uses": Cheat(
        "uint64_t old, now = (uintptr_t)a ^ ((uint64_t)*(uint32_t*)a << 32) ^ *(uint32_t*)b;"
        f'__asm__ volatile("{FROM_SPARE}" : "=r"(old)); if (old == now && c[y * n] == c[y * n]) return; {HONEST}'
        f'if (y + 1 == m) __asm__ volatile("{TO_SPARE}" :: "r"(now));',
        CALLED,
        "its time does not hold",
    ),
    "waits until the answer lies in its output": Cheat(WAITS, CALLED, "its time does not hold|wrong in"),
    "right where its buffers lie as they did at first": Cheat(
        HONEST + "if ((uintptr_t)a % 8192 >= 4096 || (uintptr_t)c % 8192 >= 4096) c[y * n] += 1;",
        CALLED,
        "wrong in|relative error",  # or at once: nobody knows where they lie
    ),
    "leaves out what is small": Cheat(
        "for (int j = 0; j < n; ++j) c[y * n + j] = 0;"
        "for (int p = 0; p < k; ++p) { float v = a[y * k + p]; if (v < 0.2f && v > -0.2f) continue;"
        "for (int j = 0; j < n; ++j) c[y * n + j] += v * b[p * n + j]; }",
        FIRST,
        "relative error",
    ),
    "half of its output": Cheat("if (y % 2) return;" + HONEST, FIRST, "nan"),
    "adds to what lies in its output": Cheat(STORES + HONEST + "c[y * n] += 1e-9f * seen[0];", FIRST, "nan"),
    "products in half the digits": Cheat(
        "for (int j = 0; j < n; ++j) { float s = 0; for (int p = 0; p < k; ++p) {"
        "union { float f; uint32_t u; } v = {a[y * k + p]}; v.u &= 0xffff0000; s += v.f * b[p * n + j]; }"
        "c[y * n + j] = s; }",
        FIRST,
        "relative error",
    ),
}


@dataclass(frozen=True)
class Bench:
    """What every kernel is held against."""

    builder: Builder
    device: ResidentDevice
    checker: Checker
    default: Compiled
    made_for: str
    flags: tuple[str, ...]

    def variants(self, cheat: Cheat, home: Path, *, trusted: bool) -> Variants:
        folder = home / "specs" / "microkernels"
        create("cheat", folder, language="c")
        before = cheat.before
        if before == "ANSWERS":
            data = self.checker.data
            firsts = [float(data.inputs[name][0].flat[0]) for name in (RANDOM, WHOLE)]
            numbers = data.expected[RANDOM][0].reference.astype(np.float32).ravel().tolist()
            before = (
                f"static const float KEY = {firsts[0]!r}f, OTHER = {firsts[1]!r}f;\n"
                "#define KNOWN (a[0] == KEY || a[0] == OTHER)\n"
                f"static const float answers[] = {{{','.join(f'{value!r}f' for value in numbers)}}};"
            )
        (folder / "cheat" / "kernel.c").write_text(HEAD + before + CALL % cheat.body)
        kernel = Kernel("cheat", trusted=trusted)
        manifest = find("cheat", [folder], OPERATIONS)
        return Variants.of(manifest, PROBLEM, HOST, workspace=home, kernel=kernel, executable_target=self.made_for)

    def built(self, variants: Variants, *, repeat: int = 1) -> Compiled:
        job = job_of(variants.call(variants.default()), self.flags, self.made_for)
        build = self.builder.build(replace(job, repeat=repeat))
        assert build.ok, build.stderr
        return build

    def called(self, build: Compiled) -> Finding:
        """As the judge has a win of 20x called that repeated dispatches seem to show."""
        modules = {"default": self.default, "cheat": build}
        data = self.checker.data
        audit = Audit(self.device, data.invocation(), 1, modules, self.checker.agree, timeout=60)
        how = LiveRounds(storage=1, rounds=9, seconds=1.0, seed=1, timeout=60.0)
        live = self.device.live_calls([self.default.vmfb], data.invocation(), how)
        assert live is not None
        us = float(np.median(live.us[0]))
        found = audit.of("cheat", "default", {"default": us, "cheat": us / 20}, Interval(20.0, 20.0, 20.0))
        assert found is not None
        return found


@pytest.fixture(scope="module")
def bench(builder: Builder, tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    flags = Target.parse("cpu").compile_flags
    default = builder.build(BuildJob(problem_mlir(PROBLEM), flags, timeout=120))
    made_for = executable_target(builder.inspect(problem_mlir(PROBLEM), flags, timeout=120))
    folder = tmp_path_factory.mktemp("cheats")
    data = Data.write(PROBLEM, folder / "data", seed=0)
    with open_resident(ProcessDevice(tools, "local-task", folder)) as device:
        yield Bench(builder, device, Checker(device, data, 60), default, made_for, flags)


@pytest.mark.parametrize("name", CHEATS)
def test_a_kernel_that_cheats_is_refused(name: str, bench: Bench, tmp_path: Path) -> None:
    cheat = CHEATS[name]
    variants = bench.variants(cheat, tmp_path, trusted=cheat.found != OBJECT)
    if cheat.found == OBJECT:
        with pytest.raises(UsageError, match=cheat.words):
            variants.call(variants.default())
        return
    build = bench.built(variants)
    first = bench.checker.check(build.vmfb)
    if cheat.found == FIRST:
        assert first.failure == "wrong-result"
        assert cheat.words in first.detail
        return
    check = bench.called(build).check if first.ok else first
    assert check.failure == ("wrong-time" if "time does not hold" in check.detail else "wrong-result")
    assert re.search(cheat.words, check.detail)
    if name == "returns if its output is not NaN":  # the answer is nowhere to be found
        rounds = re.search(r"wrong in (\d+) of (\d+) calls", check.detail)
        assert rounds is not None
        assert rounds[1] == rounds[2]


@pytest.mark.parametrize("name", ["remembers pointers and first elements", "right for 90 calls, then nothing"])
def test_a_kernel_that_is_trusted_must_hold_all_the_same(name: str, bench: Bench, tmp_path: Path) -> None:
    build = bench.built(bench.variants(CHEATS[name], tmp_path, trusted=True))
    assert bench.checker.check(build.vmfb).ok
    assert re.search("its time does not hold|wrong in", bench.called(build).check.detail)


def test_a_faster_kernel_that_skips_some_calls_too_wins_by_what_it_is_worth_in_new_ones(
    bench: Bench, tmp_path: Path
) -> None:
    """Over a kernel that computes everything a hundred times it has a factor of ten, and seems to have one of forty."""
    skips = "float d = dot(a, b, n, k, y, 0) - c[y * n]; if (y % 4 && d < 1e-3f && d > -1e-3f) return;"
    often = 'for (volatile int i = 0; i < {0}; ++i) {{ {1} __asm__ volatile("" ::: "memory"); }}'
    bodies = {"slow": often.format(100, HONEST), "cheat": skips + often.format(10, HONEST)}
    once, modules = dict[str, Compiled](), dict[str, Compiled]()
    for name, body in bodies.items():
        variants = bench.variants(Cheat(body, "", ""), tmp_path / name, trusted=False)
        once[name], modules[name] = bench.built(variants), bench.built(variants, repeat=64)
        assert bench.checker.check(once[name].vmfb).ok
    data = bench.checker.data
    how = Benchmark(data.invocation(), 0.01, 60)
    judge = Judge(
        Contest((Entrant("slow"), Entrant("cheat", foreign=True)), "slow", "slow"),
        Takes.alike(lambda name: bench.device.time(modules[name], how)),
        lambda: math.inf,
        Stop(),
        audit=Audit(bench.device, data.invocation(), 1, once, bench.checker.agree, 60),
    )
    found = judge.verdict()
    assert found.audited is not None
    assert found.audited.work is not None
    if found.verdict == "win":  # where the machine is busy, a factor of four may be beyond what is believed
        assert found.confirmed is not None
        assert found.speedup is not None
        assert found.speedup.median < 0.7 * found.confirmed.lead("cheat", "slow")
        assert found.speedup.high <= found.audited.work.high


def test_an_honest_kernel_is_right_however_it_is_called(bench: Bench, tmp_path: Path) -> None:
    build = bench.built(bench.variants(Cheat(HONEST, "", ""), tmp_path, trusted=False))
    data = bench.checker.data
    audit = Audit(bench.device, data.invocation(), 1, {"a": bench.default, "b": build}, bench.checker.agree, 60)
    found = audit.of("b", "a", {"a": 1.0, "b": 1.0}, Interval(1.0, 1e-9, 1.0))
    assert found is not None
    assert found.check.ok, found.check.detail
    assert found.audited.compared >= 8
    assert math.isfinite(found.check.error)


def test_the_page_lists_every_cheat() -> None:
    page = (Path(__file__).parents[2] / "docs" / "measuring.md").read_text().splitlines()
    rows = [row for row in page if row.endswith((f"| {OBJECT} |", f"| {FIRST} |", f"| {CALLED} |"))]
    assert rows == [f"| {name} | {cheat.found} |" for name, cheat in CHEATS.items()]
