"""Names of processors' objects: hidden in what IREE links, whatever the compiler was told."""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from autotuner.errors import UsageError
from autotuner.iree.objects import hide, shows_names
from autotuner.microkernels.library import find
from autotuner.microkernels.providers.c import compile_object
from autotuner.microkernels.variants import Kernel, Variants, hidden_copy
from autotuner.problems import Gemm
from tests.support.patience import ENOUGH

CHIP = platform.machine()
SOURCE = """
#define SHOWN __attribute__((visibility("default")))
SHOWN int counter = 3;
SHOWN __attribute__((weak)) int help(int x) { return x + counter; }
extern int absent(int) __attribute__((weak));
extern int elsewhere(int);
static int own(int x) { return x * 2; }
__attribute__((visibility("protected"))) int guarded(int x) { return own(x); }
__attribute__((visibility("internal"))) int inner(int x) { return x - 1; }
SHOWN int gemm(int x) { return help(guarded(inner(x))) + (absent ? absent(x) : 0) + elsewhere(x); }
"""
HIDDEN = {
    "counter": "STV_HIDDEN",
    "help": "STV_HIDDEN",
    "absent": "STV_HIDDEN",
    "elsewhere": "STV_DEFAULT",
    "guarded": "STV_HIDDEN",
    "inner": "STV_INTERNAL",
    "gemm": "STV_HIDDEN",
}


def symbol_table(data: bytes) -> SymbolTableSection:
    table = ELFFile(io.BytesIO(data)).get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    return table


def visibilities(data: bytes) -> dict[str, str]:
    named = [s for s in symbol_table(data).iter_symbols() if s["st_info"]["bind"] != "STB_LOCAL"]
    found = {s.name: s["st_other"]["visibility"] for s in named}
    found.pop("_GLOBAL_OFFSET_TABLE_", None)  # the linker's own, on x86
    return found


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Path]:
    """make(flags): the object of SOURCE, as a stranger's compiler makes it."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc on this machine")

    def made(*flags: str, name: str = "k.o") -> Path:
        (tmp_path / "k.c").write_text(SOURCE)
        options = flags or ("-c",)
        subprocess.run(
            [compiler, "-O1", "-fPIC", *options, tmp_path / "k.c", "-o", tmp_path / name], check=True, timeout=ENOUGH
        )
        return tmp_path / name

    return made


def test_all_names_but_those_of_other_objects_are_hidden_and_nothing_else_changes(make: Callable[..., Path]) -> None:
    before = make().read_bytes()
    assert shows_names(before)
    after = hide(before)
    assert visibilities(after) == HIDDEN
    assert not shows_names(after)
    assert hide(after) == after
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert {b for _, b in changed} == {2}
    assert len(changed) == 5


def test_a_users_object_is_left_alone_and_its_copy_has_the_same_name(make: Callable[..., Path]) -> None:
    path = make()
    before = path.read_bytes()
    copy = hidden_copy(path)
    assert path.read_bytes() == before
    assert (copy.name, copy.read_bytes()) == (path.name, hide(before))
    assert copy.parent != path.parent
    assert hidden_copy(copy) == copy
    assert hidden_copy(path) == copy
    copy.write_bytes(b"damaged")
    assert hidden_copy(path).read_bytes() == hide(before)


def test_what_is_no_relocatable_object_is_refused(make: Callable[..., Path], tmp_path: Path) -> None:
    library = make("-shared", "-nostdlib", name="k.so")
    with pytest.raises(UsageError, match="no relocatable object"):
        hidden_copy(library)
    whole = make().read_bytes()
    start = symbol_table(whole)["sh_offset"]
    for data in (b"", b"text", whole[:40], whole[: start + 30]):
        (tmp_path / "cut.o").write_bytes(data)
        with pytest.raises(UsageError, match="damaged object"):
            hidden_copy(tmp_path / "cut.o")


def test_a_source_that_shows_its_names_is_hidden_after_the_compile(tmp_path: Path) -> None:
    (tmp_path / "k.c").write_text(SOURCE)
    assert visibilities(compile_object(tmp_path / "k.c", {}, chip=CHIP, timeout=60).read_bytes()) == HIDDEN


def test_a_prebuilt_object_is_called_by_its_hidden_copy(tmp_path: Path) -> None:
    """What goes into a spec, and what ships with it."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc on this machine")
    folder = tmp_path / "specs" / "microkernels" / "mine"
    folder.mkdir(parents=True)
    (folder / "microkernel.toml").write_text(
        'operation = "gemm"\ndtypes = ["f32"]\nlayouts = ["nn"]\nsymbol = "gemm"\nworkgroup_size = [1]\ngrid = [1]\n'
        '[[bindings]]\noperand = "lhs"\naccess = "read"\n[[bindings]]\noperand = "rhs"\naccess = "read"\n'
        '[[bindings]]\noperand = "out"\naccess = "write"\nelement = "f32"\n'
        f'[provider]\nkind = "prebuilt"\nchips = ["{CHIP}"]\n'
    )
    (tmp_path / "mine.c").write_text("void gemm(const float *a, const float *b, float *c) { c[0] = a[0] * b[0]; }")
    subprocess.run(
        [compiler, "-c", "-fPIC", tmp_path / "mine.c", "-o", tmp_path / "mine.o"], check=True, timeout=ENOUGH
    )
    problem = Gemm.parse(shape="1x1x1", dtype="f32")
    manifest = find("mine", [folder.parent])
    variants = Variants.of(manifest, problem, CHIP, workspace=tmp_path, kernel=Kernel("mine", (tmp_path / "mine.o",)))
    (bound,) = variants.call(variants.default()).instance.objects
    assert bound.name == "mine.o"
    assert visibilities(bound.read_bytes()) == {"gemm": "STV_HIDDEN"}
