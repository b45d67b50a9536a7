"""Finding, listing and beginning microkernels."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from autotuner.errors import StorageError, UsageError
from autotuner.microkernels.instance import own_folder, search_folders, shipped_folder
from autotuner.microkernels.library import all_manifests, find
from autotuner.microkernels.loader import load
from autotuner.microkernels.own import adopt, create
from autotuner.problems import Gemm
from autotuner.problems.operations import OPERATIONS
from tests.support.patience import ENOUGH

NAMES = ["../x", "", "A", "a\n", "x" * 81]
MISA = "misa_igemm_fwd_nhwc_fp16"


def filled_in(folder: Path, name: str) -> Path:
    (file,) = create("new", folder)
    file.parent.rename(folder / name)
    file = folder / name / file.name
    file.write_text(file.read_text().replace('sha256 = ""', f'sha256 = "{"0" * 64}"'))
    return file


def test_a_list_has_both_folders_and_reports_what_is_broken(tmp_path: Path) -> None:
    own = own_folder(tmp_path)
    filled_in(own, "mine")
    (broken,) = create("unfinished", own)
    filled_in(own, MISA)
    (own / "empty").mkdir()
    (own / "Bad Name").mkdir()
    (own / "Bad Name" / "microkernel.toml").write_text("")
    listing = all_manifests(search_folders(tmp_path), OPERATIONS)
    by_name = {manifest.name: manifest for manifest in listing.manifests}
    assert "mine" in by_name
    assert MISA not in by_name
    assert [b.name for b in listing.broken] == ["Bad Name", MISA, "unfinished"]
    assert str(broken) in listing.broken[2].why
    assert "sha256" in listing.broken[2].why
    described = {str(manifest.describe()["name"]): manifest.describe() for manifest in listing.manifests}
    wanted = {"op": "gemm", "provider": "prebuilt", "targets": ["gfx942"], "dtypes": ["f16"]}
    assert wanted.items() <= described["mine"].items()


def test_a_missing_folder_has_no_microkernels(tmp_path: Path) -> None:
    assert all_manifests([tmp_path / "none"], OPERATIONS).manifests == ()
    with pytest.raises(UsageError, match=r"There are none; `autotune ab --new mine` begins one"):
        find("mine", [tmp_path / "none"], OPERATIONS)


def test_a_manifest_in_the_workspace_does_not_take_the_place_of_a_shipped_one(tmp_path: Path) -> None:
    file = filled_in(own_folder(tmp_path), MISA)
    with pytest.raises(UsageError) as refused:
        find(MISA, search_folders(tmp_path), OPERATIONS)
    assert str(file) in str(refused.value)
    assert str(shipped_folder() / MISA) in str(refused.value)
    with pytest.raises(UsageError, match="comes with autotune"):
        create(MISA, own_folder(tmp_path / "other"))


def test_a_copy_of_shipped_ones_is_no_other(tmp_path: Path) -> None:
    """A checkout has them all, beside what `pip install .` has put elsewhere, where Python keeps some compiled."""
    own = own_folder(tmp_path)
    shutil.copytree(shipped_folder(), own)
    (own / "gemm_triton" / "__pycache__").mkdir(exist_ok=True)
    (own / "gemm_triton" / "__pycache__" / "gemm.pyc").write_bytes(b"")
    folders = search_folders(tmp_path)
    listing, shipped = all_manifests(folders, OPERATIONS), all_manifests([shipped_folder()], OPERATIONS)
    assert [one.file for one in listing.manifests] == [one.file for one in shipped.manifests]
    assert listing.broken == ()
    assert find("gemm_triton", folders, OPERATIONS).file.is_relative_to(shipped_folder())
    with (own / "gemm_triton" / "gemm.py").open("a") as file:
        file.write("# mine\n")
    with pytest.raises(UsageError, match="there are two microkernels gemm_triton"):
        find("gemm_triton", folders, OPERATIONS)
    assert [one.name for one in all_manifests(folders, OPERATIONS).broken] == ["gemm_triton"]


def test_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"Did you mean {MISA}.*There are: .*{MISA}"):
        find(MISA[:-1], search_folders(tmp_path), OPERATIONS)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_not_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="cannot name a microkernel"):
        find(name, [tmp_path], OPERATIONS)
    with pytest.raises(UsageError, match="cannot name a microkernel"):
        create(name, tmp_path / "own")
    assert list(tmp_path.iterdir()) == []


def test_a_skeletons_comments_hold_keys_that_read(tmp_path: Path) -> None:
    file = filled_in(tmp_path, "mine")
    (file.parent / "kernel.py").write_text("")
    head, tail = file.read_text().split("[objects.gfx942]")
    tables = re.sub(r"^# ", "", tail[tail.index("# [provider]") :], flags=re.MULTILINE)
    for line in ("[parameters]", "tile = [128, 64]", "[values]", "tiles =", 'layout = "km"', "zeroed"):
        assert f"# {line}" in head
        head = head.replace(f"# {line}", line)
    file.write_text(head + tables)
    manifest = load(file, OPERATIONS)
    assert (manifest.provider.kind, manifest.parameters) == ("triton", {"tile": (128, 64)})
    assert manifest.fit(Gemm.parse(shape="128x256x64"), "gfx942")["m"] == 128


@pytest.mark.parametrize(("name", "language"), [("microkernel.toml", None), ("kernel.c", "c")])
def test_what_is_there_is_not_overwritten(name: str, language: Literal["c"] | None, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text("precious")
    with pytest.raises(UsageError, match=f"{name} is there already"):
        create("mine", tmp_path, language=language)
    assert [file.read_text() for file in (tmp_path / "mine").iterdir()] == ["precious"]


def test_a_kernel_in_c_computes_a_product_as_it_is_written(tmp_path: Path) -> None:
    manifest_file, source = create("mine", tmp_path, language="c")
    manifest = load(manifest_file, OPERATIONS)
    assert manifest.fit(Gemm.parse(shape="5x7x3", dtype="f32"), "x86_64")["m"] == 5
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "kernel.so", source], check=True, timeout=ENOUGH)
    kernel = ctypes.CDLL(str(tmp_path / "kernel.so"))[manifest.symbol]
    a, b = np.arange(15, dtype=np.float32).reshape(5, 3), np.arange(21, dtype=np.float32).reshape(3, 7)
    c = np.full((5, 7), np.nan, np.float32)
    for y in range(5):
        pointers = [ctypes.c_void_p(x.ctypes.data) for x in (a, b, c)]
        kernel(*pointers, *map(ctypes.c_int32, (5, 7, 3)), *map(ctypes.c_size_t, (0, y, 0)))
    assert (c == a @ b).all()
    docs = (Path(__file__).parents[2] / "docs" / "microkernels.md").read_text()
    assert f"```c\n{source.read_text()}```" in docs


def test_a_folder_that_cannot_be_written_is_the_machines_fault(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        create("mine", tmp_path / "file")


PLAIN_C = """\
static void helper(const float* a, const float *b, float* c, int m) { c[0] = a[0] + b[0]; }
void product(const float* restrict a, const float *b,
             float* c, int K, int32_t n, int m) { helper(a, b, c, m); }
"""


def test_a_product_in_c_gets_a_manifest_made_from_it(tmp_path: Path) -> None:
    own = own_folder(tmp_path)
    (source := tmp_path / "My kernel.c").write_text(PLAIN_C)
    assert adopt(source, own) == "my_kernel"
    manifest = find("my_kernel", search_folders(tmp_path), OPERATIONS)
    assert (manifest.symbol, [one.text for one in manifest.constants]) == ("product", ["k", "n", "m"])
    copy = own / "my_kernel" / source.name
    source.write_text(PLAIN_C.replace("+", "-"))
    manifest.file.write_text(changed := manifest.file.read_text() + "# mine\n")
    assert adopt(source, own) == adopt(copy, own) == "my_kernel"
    assert (copy.read_text(), manifest.file.read_text()) == (source.read_text(), changed)
    source.rename(other := source.with_name("my-kernel.c"))
    other.write_text("float gemm(float x) { return x; }")
    with pytest.raises(UsageError, match="autotune ab --new my-kernel --c"):
        adopt(other, own)
    (own / "my-kernel").mkdir()
    shutil.copy(manifest.file, own / "my-kernel")
    with pytest.raises(UsageError, match="another microkernel"):
        adopt(other, own)
