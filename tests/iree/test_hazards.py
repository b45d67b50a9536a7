"""What an object could do beside computing, in objects that a compiler or a hostile author makes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from autotuner.iree.hazards import hazards
from autotuner.iree.objects import open_elf
from autotuner.microkernels.providers.c import FLAGS

COMPILERS = {"x86_64": ("gcc", "x86_64-linux-gnu-gcc"), "aarch64": ("gcc", "aarch64-linux-gnu-gcc")}


def compiled(text: str, folder: Path, chip: str, *flags: str) -> Path:
    """The object of C or assembler by a compiler for this processor."""
    found = (name for name in COMPILERS[chip] if shutil.which(name))
    makes = (name for name in found if subprocess.check_output([name, "-dumpmachine"], text=True).startswith(chip))
    compiler = next(makes, None)
    if compiler is None:
        pytest.skip(f"there is no compiler for {chip}")
    source, object_ = folder / ("kernel.c" if "void" in text else "kernel.s"), folder / "kernel.o"
    source.write_text(text)
    subprocess.run([compiler, *FLAGS, *flags, "-c", "-o", object_, source], check=True)
    return object_


HONEST = """
static const float weights[] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f};
static __attribute__((noinline)) float one(const float* a, const float* b, int k) {
  float sum = 0;
  for (int p = 0; p < k; ++p) sum += a[p] * b[p] * weights[p % 5];
  return sum;
}
void kernel(const float* a, const float* b, float* c, int n, int k) {
  for (int i = 0; i < n; ++i)
    switch (i % 7) {
      case 0: c[i] = one(a, b, k); break;
      case 1: c[i] = one(b, a, k + 1) * 3; break;
      case 2: c[i] = one(a, a, k) - 1; break;
      case 3: c[i] = one(b, b, k) / 2; break;
      case 4: c[i] = one(a, b, k / 2); break;
      case 5: c[i] = one(a, b, k / 3) + one(b, a, 5); break;
      default: c[i] = 0;
    }
}
"""


@pytest.mark.parametrize("chip", COMPILERS)
@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3"])
def test_a_kernel_with_constants_calls_and_cases_has_none(chip: str, level: str, tmp_path: Path) -> None:
    assert hazards(compiled(HONEST, tmp_path, chip, level)) == []


X86 = {
    "a clock is read (rdtsc)": "rdtsc",
    "rounding is changed (vldmxcsr)": "vldmxcsr (%rsp)",
    "rounding is changed (fxrstor)": "fxrstor (%rsp)",
    "it leaves its code (retfq)": "lretq",
    "it jumps into an instruction": "jmp . + 3\nmovl $0x9090310f, %eax",
    "it jumps to addresses that it computes (call": "movq $-10485760, %rax\ncall *%rax",  # the vsyscall page's clock
    "code where none belongs (.init)": '.section .init,"ax"\nnop',
    "its code is another one when it is linked (nop)": ".reloc ., R_X86_64_PC32, kernel\nnopl 0(%rax)",
    "its code is another one when it is linked (mov": ".reloc . + 1, R_X86_64_32, clock\nmovl $1, %eax\n.set clock, 7",
    "bytes that are no known instruction": ".byte 0x06",
}
AARCH64 = {
    "a clock is read (mrs)": "mrs x0, cntvct_el0",
    "the machine is asked (mrs)": "mrs x0, tpidr_el0",
    "the system is called (svc, hvc or smc)": "svc #0",
    "rounding is changed (msr)": "msr fpcr, x0",
    "it jumps to addresses that it computes (br or blr": "br x0",
    "its code is another one when it is linked": ".reloc ., R_AARCH64_ABS32, kernel\nnop",
    "writable data (.data, 8 bytes)": ".data\n.quad 1",
    "thread-local storage (.tbss)": '.section .tbss,"awT",@nobits\n.zero 8',
}


@pytest.mark.parametrize(
    ("chip", "words", "text"),
    [(chip, *one) for chip, all_ in (("x86_64", X86), ("aarch64", AARCH64)) for one in all_.items()],
)
def test_what_does_more_than_compute_is_named(chip: str, words: str, text: str, tmp_path: Path) -> None:
    assembler = f".text\n.global kernel\n.type kernel, @function\nkernel:\n{text}\n"
    found = hazards(compiled(assembler, tmp_path, chip))
    assert any(one.startswith(words) for one in found), found


@pytest.mark.parametrize("chip", COMPILERS)
def test_what_a_linker_would_put_among_the_code_is_named(chip: str, tmp_path: Path) -> None:
    path = compiled('.text\nkernel:\nret\n.section .text.more,"a"\nret\n', tmp_path, chip)
    data = bytearray(path.read_bytes())
    elf = open_elf(bytes(data))
    number = next(n for n, section in enumerate(elf.iter_sections()) if section.name == ".text.more")
    flags = elf["e_shoff"] + number * elf["e_shentsize"] + 8
    assert data[flags] & 4
    data[flags] &= ~4  # as no assembler writes it
    path.write_bytes(data)
    assert hazards(path) == ["no code where none belongs (.text.more)"]


@pytest.mark.parametrize("statement", [".global .u32 calls;", ".reg .u32 %r; .visible .global .align 4 .u32 calls;"])
def test_data_of_ptx_is_found_wherever_it_stands(statement: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(f".version 7.0\n.target sm_80\n.address_size 64\n{statement}\nmov.u64 %rd1, calls;\n")
    assert any(one.startswith("global data") for one in hazards(path))


def test_data_of_ptx_that_nobody_names_is_no_hazard(tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(".version 7.0\n.target sm_80\n.address_size 64\n.global .align 1 .b8 _$_str[11] = {95, 95};\n")
    assert hazards(path) == []


def test_pointers_to_global_memory_are_no_data_of_ptx(tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(
        ".version 7.0\n.target sm_80\n.address_size 64\n"
        ".visible .entry kernel(.param .u64 .ptr .global .align 4 p) { ld.global.f32 %f1, [%rd1]; ret; }\n"
    )
    assert hazards(path) == []
