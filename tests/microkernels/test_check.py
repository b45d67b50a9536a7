"""Each way in which an object does not fit an instance is told, with what was expected and what was found."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autotuner.errors import UsageError
from autotuner.microkernels.check import Mismatch, check, refuse
from autotuner.microkernels.instance import Instance
from autotuner.microkernels.kernel_table import kernels_table
from tests.support.patience import ENOUGH
from tests.support.stand_in import (
    BINDINGS,
    CONSTANT,
    POINTER,
    RELOCATABLE,
    SYMBOL,
    arguments,
    instance,
    misa_metadata,
    misa_stand_in,
    write_hsaco,
)

HOST = platform.machine()


def amd(tmp_path: Path, **changes: Any) -> Path:
    return misa_stand_in(tmp_path / "misa.hsaco", symbol=SYMBOL, **changes)


def ptx(
    tmp_path: Path, *, target: str = "sm_90", params: str = "u64 u64 u64 b32", threads: str = "", shared: str = ""
) -> Path:
    listed = ",\n".join(f"\t.param .{param} gemm_param_{i}" for i, param in enumerate(params.split()))
    head = f".version 8.6\n.target {target}\n.address_size 64\n{shared}\n"
    path = tmp_path / "gemm.ptx"
    path.write_text(f"{head}.visible .entry gemm(\n{listed}\n)\n{threads}\n{{\n\tret;\n}}\n")
    return path


def on_nvidia(path: Path, **changes: Any) -> Instance:
    usual: dict[str, Any] = {"symbol": "gemm", "chip": "sm_90", "constants": (64,), "subgroup_size": 32}
    return instance(path, **(usual | changes))


@pytest.fixture
def gcc(tmp_path: Path) -> Callable[..., Path]:
    """gcc(text, name, flags): its object."""
    found = shutil.which("gcc")
    if found is None:
        pytest.skip("there is no gcc on this machine")

    def make(text: str, name: str = "k.o", *flags: str) -> Path:
        (tmp_path / "k.c").write_text(text)
        options = flags or ("-c", "-ffreestanding", "-fvisibility=hidden")
        subprocess.run([found, "-O1", *options, tmp_path / "k.c", "-o", tmp_path / name], check=True, timeout=ENOUGH)
        return tmp_path / name

    return make


def on_cpu(*paths: Path, **changes: Any) -> Instance:
    usual: dict[str, Any] = {"symbol": "gemm", "chip": HOST, "constants": (), "subgroup_size": None}
    return instance(*paths, **(usual | changes))


def only(found: list[Mismatch], what: str) -> Mismatch:
    assert [mismatch.what for mismatch in found] == [what]
    assert found[0].remedy
    return found[0]


# What fits


def test_an_object_that_fits_is_let_through(tmp_path: Path, gcc: Callable[..., Path]) -> None:
    fitting = (
        instance(amd(tmp_path)),
        on_nvidia(ptx(tmp_path)),
        on_cpu(gcc("void gemm(float *c) { c[0] = 1; }")),
    )
    for each in fitting:
        assert check(each) == []
        refuse(each)
    # What the object does not say is not held against it.
    path = amd(tmp_path, args=None, reqd_workgroup_size=None, wavefront_size=None, group_segment_fixed_size=None)
    assert check(instance(path, workgroup_size=(64, 2, 1))) == []


# What does not


Make = Callable[[Path], Instance]
ONE_BY_ONE: dict[str, tuple[Make, str, str, str]] = {
    "no object": (lambda _: instance(), "objects", "one object", "0 objects"),
    "missing": (lambda to: instance(to / "none.hsaco"), "object", "code for gfx942", "none.hsaco does not exist"),
    "no code": (lambda _: instance(Path(__file__)), "object", "code for gfx942", "is no ELF, PTX or hsaco: it "),
    "another chip": (lambda to: instance(amd(to, chip="gfx950")), "chip", "gfx942", "gfx950"),
    "not linked": (
        lambda to: instance(write_hsaco(to / "k.hsaco", [misa_metadata(SYMBOL)], type_=RELOCATABLE)),
        *("linking", "a linked hsaco", "a relocatable one"),
    ),
    "another symbol": (lambda to: instance(amd(to), symbol=f"{SYMBOL}_gkgs"), "symbol", f"{SYMBOL}_gkgs", SYMBOL),
    "constants first": (
        lambda to: on_nvidia(ptx(to, params="u64 u64 b32 u64")),
        *("arguments", "3 pointers, 1 value", "2 pointers, 1 value, 1 pointer"),
    ),
    "f64": (
        lambda to: on_nvidia(ptx(to, params="u64 u64 u64 f64")),
        *("size of constants", "4 bytes each", "8 bytes at offset 24 (f64)"),
    ),
    "longer kernarg": (
        lambda to: instance(amd(to, args=None, kernarg_segment_size=136)),
        *("kernarg segment", "128 bytes (8 x 3 bindings + 4 x 26 constants)", "136 bytes"),
    ),
    "more constants": (
        lambda to: instance(amd(to), constants=(0,) * 27),
        "arguments",
        "3 pointers, 27 values",
        "26 values",
    ),
    "served by the host": (
        lambda to: instance(
            amd(to, args=hidden("block_count_x", "hostcall_buffer", "heap_v1"), kernarg_segment_size=384)
        ),
        *("hidden arguments", "none that the host must serve", "hidden_hostcall_buffer, hidden_heap_v1"),
    ),
    "required workgroup": (
        lambda to: instance(amd(to), workgroup_size=(128, 2, 1)),
        *("workgroup size", "128x2x1", "256x1x1"),
    ),
    "too many threads": (
        lambda to: instance(amd(to, reqd_workgroup_size=None), workgroup_size=(512, 1, 1)),
        *("workgroup size", "512 threads (512x1x1)", "a kernel for at most 256"),
    ),
    "too many for all": (
        lambda to: on_nvidia(ptx(to), workgroup_size=(1024, 2, 1)),
        *("workgroup size", "2048 threads", "at most 1024"),
    ),
    "wavefront": (lambda to: instance(amd(to, wavefront_size=32)), "wavefront", "64", "32"),
    "static shared memory": (
        lambda to: on_nvidia(ptx(to, shared=f".shared .align 16 .b8 tile[{49 * 1024}];")),
        *("local memory", f"at most {48 * 1024} static", str(49 * 1024)),
    ),
}
"""An instance that does not fit, what is said of it, what was expected and found."""


def hidden(*kinds: str) -> list[dict[str, Any]]:
    own = arguments(*[POINTER] * 3, *[CONSTANT] * 26)
    return own + [{".value_kind": f"hidden_{k}", ".size": 8, ".offset": 128 + 8 * i} for i, k in enumerate(kinds)]


@pytest.mark.parametrize("case", ONE_BY_ONE)
def test_what_does_not_fit_is_told_with_what_was_expected_and_found(case: str, tmp_path: Path) -> None:
    make, what, expected, found = ONE_BY_ONE[case]
    told = only(check(make(tmp_path)), what)
    assert told.expected.startswith(expected)
    assert found in told.found


@pytest.mark.parametrize(
    ("target", "chip", "fits"),
    [
        ("sm_90", "sm_90", True),
        ("sm_80", "sm_90", True),
        ("sm_90", "sm_80", False),
        ("sm_90a", "sm_90", True),
        ("sm_90a", "sm_100", False),
    ],
)
def test_ptx_of_a_newer_chip_is_refused_and_of_an_older_one_taken(
    tmp_path: Path, target: str, chip: str, fits: bool
) -> None:
    found = check(on_nvidia(ptx(tmp_path, target=target), chip=chip))
    assert found == [] if fits else (only(found, "chip").expected, found[0].found) == (chip, target)


def test_a_symbol_that_is_not_there_is_looked_for_among_those_that_are(tmp_path: Path) -> None:
    assert check(instance(amd(tmp_path), symbol=SYMBOL + "_gkgs"))[0].remedy == f"Did you mean {SYMBOL}?"
    many = write_hsaco(tmp_path / "many.hsaco", [misa_metadata(f"kernel_{i}") for i in range(20)])
    found = only(check(instance(many, symbol="kernel_100")), "symbol")
    assert found.found.startswith("kernel_10, ")
    assert found.found.endswith(" and 12 more")
    assert "Did you mean" not in only(check(instance(many, symbol="gemm")), "symbol").remedy


def test_hidden_arguments_that_describe_the_launch_are_tolerated(tmp_path: Path) -> None:
    kinds = ("block_count_x", "group_size_x", "remainder_x", "global_offset_x", "grid_dims", "none")
    assert check(instance(amd(tmp_path, args=hidden(*kinds), kernarg_segment_size=384))) == []


@pytest.mark.parametrize(
    ("chip", "kib"),
    [("gfx950", 160), ("gfx1101", 64), ("sm_90a", 227)],
)
def test_more_local_memory_than_a_chip_has(tmp_path: Path, chip: str, kib: int) -> None:
    static = ".shared .align 16 .b8 tile[32768];"

    def asking(dynamic: int) -> Instance:
        if chip.startswith("gfx"):
            return instance(amd(tmp_path, chip=chip), chip=chip, local_memory=dynamic)  # 32 KiB are static
        return on_nvidia(ptx(tmp_path, target="sm_80", shared=static), chip=chip, local_memory=dynamic)

    rest = (kib - 32) * 1024
    assert check(asking(rest)) == []
    found = only(check(asking(rest + 1)), "local memory")
    assert found.expected == f"at most {kib * 1024} bytes on {chip}"
    assert found.found == f"{kib * 1024 + 1} (32768 static + {rest + 1} dynamic)"


# A processor's


def test_an_object_of_another_machine(tmp_path: Path, gcc: Callable[..., Path]) -> None:
    path = gcc("void gemm(float *c) { c[0] = 1; }")
    machine, other = (183, "aarch64") if HOST == "x86_64" else (62, "x86_64")
    whole = path.read_bytes()
    foreign = tmp_path / "foreign.o"
    foreign.write_bytes(whole[:18] + bytes([machine]) + whole[19:])
    assert only(check(on_cpu(foreign)), "chip").found == other


def test_names_that_are_visible_crash_on_aarch64(gcc: Callable[..., Path]) -> None:
    text = "static int own; void help(float *c) { c[own] = 1; } void gemm(float *c) { help(c); }"
    shown, hidden = (gcc(text, f"{flag}.o", "-c", "-fPIC", f"-fvisibility={flag}") for flag in ("default", "hidden"))
    for path in (shown, hidden):
        whole = path.read_bytes()
        path.write_bytes(whole[:18] + bytes([183]) + whole[19:])
    told = only(check(on_cpu(shown, chip="aarch64")), "visible names")
    assert (told.found, "-fvisibility=hidden" in told.remedy) == ("gemm, help", True)
    assert check(on_cpu(hidden, chip="aarch64")) == []


def test_symbols_that_nobody_defines(gcc: Callable[..., Path]) -> None:
    text = (
        "float help(float); float weak(void) __attribute__((weak));\nvoid gemm(float *c) { c[0] = help(c[1]); weak(); }"
    )
    uses = gcc(text, "uses.o")
    found = only(check(on_cpu(uses)), "undefined symbols")
    assert (found.expected, found.found) == ("none", "help")
    assert "no libc" in found.remedy
    helps = gcc("float help(float x) { return x; }", "helps.o")
    assert check(on_cpu(uses, helps)) == []
    text = "#include <string.h>\nint data; static void own(float *c) { c[1] = data; }\n"
    text += "void gemm(float *c, float *a, size_t n) { own(c); memcpy(c, a, n); }"
    copies = gcc(text, "copies.o", "-c", "-fvisibility=hidden")
    assert only(check(on_cpu(copies)), "undefined symbols").found == "memcpy"
    (row,) = kernels_table(copies)
    assert (row["symbol"], row["chip"], row["undefined"]) == ("gemm", HOST, "memcpy")


def test_a_shared_library_instead_of_an_object(gcc: Callable[..., Path]) -> None:
    path = gcc("void gemm(float *c) { c[0] = 1; }", "k.so", "-shared", "-fPIC", "-nostdlib")
    assert only(check(on_cpu(path)), "linking").found == "a linked one"


# The refusal


def test_a_refusal_lists_every_mismatch_on_a_line_of_its_own(tmp_path: Path) -> None:
    wrong = instance(amd(tmp_path, chip="gfx950"), bindings=BINDINGS[:2], subgroup_size=32, workgroup_size=(64, 1, 1))
    with pytest.raises(UsageError) as raised:
        refuse(wrong)
    head, *lines = str(raised.value).splitlines()
    assert head == "microkernel misa does not fit its object:"
    assert [line.strip().split(":")[0] for line in lines] == [
        *("chip", "arguments", "workgroup size", "wavefront"),
    ]
    assert all("expected " in line and ", found " in line for line in lines)
