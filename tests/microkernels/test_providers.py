"""What every provider of microkernels must do, whatever its source is; and what it takes to add one."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from autotuner.errors import StorageError, ToolMissingError, UsageError
from autotuner.microkernels.instance import own_folder
from autotuner.microkernels.loader import load
from autotuner.microkernels.manifest import Manifest
from autotuner.microkernels.providers import PROVIDERS, cuda
from autotuner.microkernels.providers.c import COMPILERS, find_compiler
from autotuner.microkernels.providers.provider import ObjectRefusalError, Request
from autotuner.microkernels.variants import AUTO, Kernel, Variants, find_variants
from autotuner.problems import Gemm
from autotuner.problems.operations import OPERATIONS
from tests.support import cuda_kernel
from tests.support.kernels import built
from tests.support.patience import ENOUGH

ROOT = Path(__file__).parents[2]
PROBLEM = Gemm.parse(shape="40x128x24", dtype="f16")
MANIFEST = """
operation = "gemm"
dtypes = ["f16"]
layouts = ["nn"]
conditions = ["batch == 1", "n % wide == 0"]
symbol = "gemm"
constants = ["m", "n", "k"]
workgroup_size = ["subgroup"]
grid = ["n // wide", "m"]
local_memory = "{memory}"
parameters = {{ wide = [32, 64], num_warps = [1] }}
bindings = [
  {{ operand = "lhs", access = "read" }},
  {{ operand = "rhs", access = "read" }},
  {{ operand = "out", access = "write", element = "f32" }},
]
provider = {{ kind = "{kind}", source = "{source}", chips = ["{chip}"] }}
"""
IN_C = """
#include "own.h"
void gemm(const unsigned short* lhs, const unsigned short* rhs, float* out, int m, int n, int k,
          unsigned long x, unsigned long y, unsigned long z) {
  for (int j = 0; j < WIDE; ++j) out[y * n + x * WIDE + j] = SCALE * lhs[y * k] * rhs[x * WIDE + j];
}
"""
IN_TRITON = """
import triton
import triton.language as tl
from own import scaled

@triton.jit
def gemm(lhs, rhs, out, m, n, k, WIDE: tl.constexpr):
    columns = tl.program_id(0) * WIDE + tl.arange(0, WIDE)
    left = tl.load(lhs + tl.program_id(1) * k).to(tl.float32)
    tl.store(out + tl.program_id(1) * n + columns, scaled(left * tl.load(rhs + columns).to(tl.float32)))
"""


@dataclass(frozen=True)
class Case:
    """A kernel of two files, and how one of them is broken."""

    kind: str
    chip: str
    source: str
    text: str
    own: str
    """The other file."""
    own_text: str
    wrong: tuple[str, str]
    says: str
    memory: str = "0"

    def write(self, folder: Path) -> Manifest:
        folder.mkdir(parents=True)
        (folder / self.source).write_text(self.text)
        (folder / self.own).write_text(self.own_text)
        manifest = MANIFEST.format(kind=self.kind, source=self.source, chip=self.chip, memory=self.memory)
        (folder / "microkernel.toml").write_text(manifest)
        return load(folder / "microkernel.toml", OPERATIONS)


C = Case("c", platform.machine(), "kernel.c", IN_C, "own.h", "#define SCALE 2\n", ("SCALE", "missing"), "missing")
CUDA = Case(
    "cuda",
    "sm_90",
    "kernel.cu",
    IN_C.replace("void", 'extern "C" __global__ void')
    .replace(",\n          unsigned long x, unsigned long y, unsigned long z", "")
    .replace("{\n", "{\n  const int x = blockIdx.x, y = blockIdx.y;\n", 1),
    "own.h",
    "#define SCALE 2\n",
    ("SCALE", "missing"),
    'identifier "missing" is undefined',
)
TRITON = Case(
    "triton",
    "sm_90",
    "kernel.py",
    IN_TRITON,
    "own.py",
    "import triton\n@triton.jit\ndef scaled(x):\n    return x * 2\n",
    ("scaled(left", "missing(left"),
    "missing is not defined",
    memory="shared",
)
CASES = [
    pytest.param(C, id="c", marks=pytest.mark.skipif(not any(map(shutil.which, COMPILERS)), reason="no C compiler")),
    pytest.param(CUDA, id="cuda", marks=cuda_kernel.needs_nvrtc),
    pytest.param(
        TRITON,
        id="triton",
        marks=pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed"),
    ),
]
every_provider = pytest.mark.parametrize("case", CASES)


def test_every_provider_has_a_case() -> None:
    assert {case.kind for case in (C, CUDA, TRITON)} == set(PROVIDERS)


def wanted(manifest: Manifest, case: Case, workspace: Path, *, wide: int = 32, timeout: float = 300.0) -> Request:
    return Request(manifest, PROBLEM, case.chip, workspace, {"wide": wide}, timeout=timeout)


def write(case: Case, workspace: Path) -> Manifest:
    return case.write(own_folder(workspace) / "mine")


@every_provider
def test_an_object_is_as_its_manifest_calls_it(case: Case, tmp_path: Path) -> None:
    manifest = write(case, tmp_path)
    assert manifest.describe()["provider"] == case.kind
    variants = Variants.of(manifest, PROBLEM, case.chip, workspace=tmp_path)
    call = variants.call(variants.default())  # which is checked against its object
    assert (call.instance.symbol.partition("_")[0], call.instance.name) == ("gemm", "mine-wide32")
    assert [path.is_file() for path in call.instance.objects] == [True]


@every_provider
def test_it_is_built_once_until_something_of_it_changes(case: Case, tmp_path: Path) -> None:
    manifest = write(case, tmp_path)
    own, source = manifest.file.with_name(case.own), manifest.file.with_name(case.source)
    first = built(wanted(manifest, case, tmp_path))
    whole, made = first.path.read_bytes(), first.path.stat().st_mtime_ns
    assert built(wanted(manifest, case, tmp_path)) == first
    assert first.path.stat().st_mtime_ns == made
    others = [built(wanted(manifest, case, tmp_path, wide=64)).path]
    own.write_text(case.own_text.replace("2", "3"))
    others.append(built(wanted(manifest, case, tmp_path)).path)
    own.write_text(case.own_text)
    source.write_text(case.text.replace("* k", "* 2 * k"))
    others.append(built(wanted(manifest, case, tmp_path)).path)
    source.write_text(case.text)
    assert len({first.path, *others}) == 4
    assert len({whole, *(path.read_bytes() for path in others)}) == 4
    for damaged in (b"", whole[:-1] + bytes([whole[-1] ^ 1])):
        first.path.write_bytes(damaged)
        assert built(wanted(manifest, case, tmp_path)) == first
        assert first.path.stat().st_size == len(whole)
    assert not list(first.path.parent.glob(".making-*"))


@every_provider
def test_what_does_not_compile_is_refused_in_the_compilers_words(case: Case, tmp_path: Path) -> None:
    manifest = write(case, tmp_path)
    manifest.file.with_name(case.source).write_text(case.text.replace(*case.wrong))
    with pytest.raises(ObjectRefusalError, match=rf"^{case.source} does not compile: .*{case.says}") as caught:
        built(wanted(manifest, case, tmp_path))
    assert case.says in caught.value.stderr
    assert "Correct the source" in caught.value.remedy
    manifest.file.with_name(case.source).write_text(case.text)
    manifest.file.with_name(case.own).unlink()
    with pytest.raises(ObjectRefusalError, match="own"):
        built(wanted(manifest, case, tmp_path))
    manifest.file.with_name(case.source).unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        built(wanted(manifest, case, tmp_path))


@every_provider
def test_a_compile_that_takes_too_long_is_ended(case: Case, tmp_path: Path) -> None:
    manifest = write(case, tmp_path)
    manifest.file.with_name(case.own).write_text(f"{case.own_text}\n# define NEW {os.getpid()}\n")
    with pytest.raises(ObjectRefusalError, match="killed after"):
        built(wanted(manifest, case, tmp_path, timeout=0.0001))


@pytest.mark.parametrize("case", CASES[1:])
def test_a_file_beside_the_source_that_leads_elsewhere_is_refused(case: Case, tmp_path: Path) -> None:
    manifest = write(case, tmp_path)
    (tmp_path / "secret").write_text(case.own_text)
    manifest.file.with_name(case.own).unlink()
    manifest.file.with_name(case.own).symlink_to(tmp_path / "secret")
    with pytest.raises(UsageError, match="leads out of its folder"):
        built(wanted(manifest, case, tmp_path))


@every_provider
def test_a_cache_that_cannot_be_written_says_what_to_do(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = write(case, tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("AUTOTUNE_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(StorageError, match="AUTOTUNE_CACHE_DIR"):
        built(wanted(manifest, case, tmp_path))


@pytest.fixture
def nothing_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    monkeypatch.setattr(cuda, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    find_compiler.cache_clear()


@pytest.mark.usefixtures("nothing_installed")
@pytest.mark.parametrize(
    ("case", "remedy", "shipped", "dtype"),
    [
        (C, "gcc", "sgemm_c", "f32"),
        (CUDA, "pip install nvidia-cuda-nvrtc", "gemm_cuda", "f16"),
        (TRITON, "pip install triton", "gemm_triton", "f16"),
    ],
)
def test_what_must_be_installed_is_named_and_auto_does_without(
    case: Case, remedy: str, shipped: str, dtype: str, tmp_path: Path
) -> None:
    """One note for what is missing, of the kernels that would compute this very problem."""
    write(case, tmp_path)
    problem = Gemm.parse(shape="512x512x512", dtype=dtype)
    for chip, told in ((case.chip, True), ("gfx900", False)):
        found, notes = find_variants([Kernel(AUTO)], problem, chip=chip, workspace=tmp_path)
        assert not found
        assert sum(remedy in note for note in notes) == told
        assert any(shipped in note and remedy in note for note in notes) == told
        assert not any("attention" in note or "conv" in note for note in notes)
    (named,), _ = find_variants([Kernel("mine")], PROBLEM, chip=case.chip, workspace=tmp_path)
    with pytest.raises(ToolMissingError, match=re.escape(remedy)) as missing:
        named.call(named.default())
    assert missing.value.exit_code == 5


@pytest.mark.parametrize(("case", "chip"), [(C, "sm_80"), (CUDA, "gfx942"), (TRITON, "x86_64")])
def test_a_manifest_for_chips_that_it_makes_nothing_for_is_refused(case: Case, chip: str, tmp_path: Path) -> None:
    file = write(case, tmp_path).file
    file.write_text(file.read_text().replace(case.chip, chip))
    with pytest.raises(UsageError, match=f"chips: {case.kind} is not for {chip}"):
        load(file, OPERATIONS)


# --- What it takes to add one ---------------------------------------------------------------------------------------


def test_a_provider_is_added_in_two_files_as_the_documentation_shows(tmp_path: Path) -> None:
    """What docs/adding/provider.diff shows for HIP C++, done to a copy: the new kind is read, listed and built."""
    diff = (ROOT / "docs" / "adding" / "provider.diff").read_text()
    assert len(re.findall(r"^\+\+\+ b/", diff, re.M)) <= 2
    shutil.copytree(ROOT / "autotuner", tmp_path / "autotuner", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("specs", "templates"):
        (tmp_path / name).symlink_to(ROOT / name)
    subprocess.run(["git", "apply", "-"], input=diff, text=True, cwd=tmp_path, check=True, timeout=ENOUGH)
    hipcc = tmp_path / "bin" / "hipcc"
    hipcc.parent.mkdir()
    hipcc.write_text(
        '#!/bin/sh\ncase "$*" in *" -o "*) for last; do :; done; echo made > "$last";; *) echo text;; esac\n'
    )
    hipcc.chmod(0o755)
    folder = own_folder(tmp_path / "workspace") / "mine"
    folder.mkdir(parents=True)
    (folder / "kernel.hip").write_text("")
    manifest = MANIFEST.format(kind="hip", source="kernel.hip", chip="gfx942", memory="0")
    (folder / "microkernel.toml").write_text(manifest)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PATH": f"{hipcc.parent}:{os.environ['PATH']}"}
    program = f"""
from pathlib import Path
from autotuner.microkernels.loader import load
from autotuner.microkernels.providers import PROVIDERS
from autotuner.microkernels.providers.provider import Request
from autotuner.problems import Gemm
manifest = load(Path({str(folder / "microkernel.toml")!r}), {{"gemm": Gemm}})
built = PROVIDERS["hip"].load().build(Request(manifest, Gemm.parse(shape="40x128x24"), "gfx942", Path()))
print(manifest.describe()["provider"], built.path.read_text())
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=ENOUGH
    )
    assert done.stdout.split() == ["hip", "made"], done.stderr
