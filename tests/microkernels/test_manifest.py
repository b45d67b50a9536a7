"""A manifest says all that a kernel needs, or what is wrong with it, by file and key."""

from __future__ import annotations

import hashlib
import platform
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.errors import UsageError
from autotuner.microkernels.instance import own_folder, shipped_folder
from autotuner.microkernels.loader import load
from autotuner.microkernels.manifest import DoesNotFitError, Manifest
from autotuner.microkernels.variants import AUTO, Kernel, find_variants
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.operations import OPERATIONS

OBJECT = b"object"
GEMM = f"""
operation = "gemm"
dtypes = ["f16", "i8"]
layouts = ["nn", "tn"]
conditions = ["m % tile == 0", "n % 64 == 0"]
symbol = "gemm_128"
constants = ["m", "n", "k", -1, "rows << 1"]
workgroup_size = ["4 * subgroup"]
grid = ["rows", "ceil_div(n, 64)", "batch"]
local_memory = "tile * 64"

[parameters]
tile = [128, 64]
stages = [2]

[values]
rows = "m // tile"

[[bindings]]
operand = "rhs"
access = "read"
layout = "nk"

[[bindings]]
operand = "lhs"
access = "read"

[[bindings]]
operand = "out"
access = "write"
element = "f32"
zeroed = true

[objects.gfx942]
path = "lib/gemm.hsaco"
sha256 = "{hashlib.sha256(OBJECT).hexdigest()}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "gemm_128"
    (folder / "lib").mkdir(parents=True)
    (folder / "lib" / "gemm.hsaco").write_bytes(OBJECT)
    (folder / "kernel.py").write_text("")
    return folder


def written(folder: Path, text: str = GEMM) -> Manifest:
    file = folder / "microkernel.toml"
    file.write_text(text, encoding="utf-8")
    return load(file, OPERATIONS)


def test_a_kernel_is_bound_to_a_problem_and_a_chip(folder: Path) -> None:
    instance = written(folder).bind(Gemm.parse(shape="512x128x64"), "gfx942")
    assert (instance.name, instance.symbol, instance.chip) == ("gemm_128-tile128", "gemm_128", "gfx942")
    assert instance.objects == (folder / "lib" / "gemm.hsaco",)
    assert instance.constants == (512, 128, 64, -1, 8)
    assert (instance.workgroup_size, instance.subgroup_size) == ((256, 1, 1), 64)
    assert (instance.grid, instance.local_memory) == ((4, 2, 1), 8192)
    rhs, lhs, out = instance.bindings
    assert (rhs.operand, rhs.permutation, rhs.tensor.text) == (1, (1, 0), "128x64xf16")
    assert (lhs.operand, lhs.permutation, lhs.tensor.text) == (0, (), "512x64xf16")
    assert (out.operand, out.permutation, out.access, out.zeroed) == (2, (), "write", True)
    assert out.tensor.text == "512x128xf32"


def test_a_batch_stays_outermost_and_parameters_count(folder: Path) -> None:
    problem = Gemm.parse(shape="64x64x32", batch=3, layout="tn", out="bf16")
    instance = written(folder).bind(problem, "gfx942", parameters={"tile": 64})
    assert (instance.name, instance.grid) == ("gemm_128-tile64", (1, 1, 3))
    rhs, lhs, out = instance.bindings
    assert (rhs.permutation, rhs.tensor.text) == ((0, 2, 1), "3x64x32xf16")
    assert (lhs.permutation, lhs.tensor.text) == ((), "3x32x64xf16")
    # The problem rounds to bf16; the buffer is the kernel's.
    assert out.tensor.text == "3x64x64xf32"


SCRATCH = """
[[bindings]]
operand = "scratch"
element = "f32"
bytes = "tile * rows * 4 if tile == 128 else 0"
zeroed = "tile == 128"

[objects.gfx942]"""


def test_scratch_comes_in_the_order_of_the_pointers_and_only_where_it_is_needed(folder: Path) -> None:
    manifest = written(folder, GEMM.replace("\n[objects.gfx942]", SCRATCH))
    problem = Gemm.parse(shape="512x128x64")
    *_, out, scratch = manifest.bind(problem, "gfx942").bindings
    assert (out.access, scratch.access, scratch.tensor.text, scratch.zeroed) == ("write", "scratch", "2048xi8", True)
    without = manifest.bind(problem, "gfx942", parameters={"tile": 64})
    assert [binding.access for binding in without.bindings] == ["read", "read", "write"]


def test_the_settings_are_all_choices_of_parameters(folder: Path) -> None:
    assert list(written(folder).settings()) == [{"tile": 128, "stages": 2}, {"tile": 64, "stages": 2}]


@pytest.mark.parametrize(
    ("problem", "chip", "says"),
    [
        (Conv.parse(shape="1x8x8x8", filter="3x3x8"), "gfx942", "computes gemm, not conv"),
        (Gemm.parse(shape="128x64x64", dtype="bf16"), "gfx942", "does not compute bf16.*f16, i8"),
        (Gemm.parse(shape="128x64x64", layout="nt"), "gfx942", "does not take layout nt.*nn, tn"),
        (Gemm.parse(shape="100x64x64"), "gfx942", "needs m % tile == 0, and here m = 100, tile = 128"),
        (Gemm.parse(shape="128x64x64"), "gfx950", "no object for gfx950.*objects for: gfx942"),
        (Gemm.parse(shape="128x64x64", dtype="i8"), "gfx942", "has out as f32, not i32"),
    ],
)
def test_a_problem_that_does_not_fit_is_refused_with_the_reason(
    folder: Path, problem: Problem, chip: str, says: str
) -> None:
    with pytest.raises(DoesNotFitError, match=says):
        written(folder).bind(problem, chip)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('["4 * subgroup"]', '["m * 16"]', r"workgroup_size: m \* 16 gives 2048.*1 to 1024"),
        ('grid = ["rows"', 'grid = ["rows - 1"', "grid: rows - 1 gives 0"),
        ('"m // tile"', '"m // (k - 64)"', "values.rows: .*divides by zero"),
        ('"rows << 1"', '"m << 30"', "constants: .*does not fit 32 bits"),
    ],
)
def test_sizes_that_no_chip_has_are_refused(folder: Path, old: str, new: str, says: str) -> None:
    assert old in GEMM
    manifest = written(folder, GEMM.replace(old, new))
    with pytest.raises(UsageError, match=says):
        manifest.bind(Gemm.parse(shape="128x64x64"), "gfx942")


def test_parameters_are_those_that_the_manifest_has(folder: Path) -> None:
    manifest, problem = written(folder), Gemm.parse(shape="128x64x64")
    with pytest.raises(UsageError, match=r"no parameter 'warps'.*tile, stages"):
        manifest.bind(problem, "gfx942", parameters={"warps": 4})
    with pytest.raises(UsageError, match=r"tile cannot be 32.*128, 64"):
        manifest.bind(problem, "gfx942", parameters={"tile": 32})
    with pytest.raises(UsageError, match=r"no kernel 'other'.*gemm_128"):
        manifest.bind(problem, "gfx942", symbol="other")


def test_an_object_that_was_changed_or_is_gone_is_not_used(folder: Path) -> None:
    manifest, problem = written(folder), Gemm.parse(shape="128x64x64")
    file = folder / "lib" / "gemm.hsaco"
    file.write_bytes(b"another")
    with pytest.raises(UsageError, match=r"has the sha256 \w{64}; its manifest says"):
        manifest.bind(problem, "gfx942")
    assert manifest.bind(problem, "gfx950", objects=[file]).objects == (file,), "the user's own"
    file.unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        manifest.bind(problem, "gfx942")


TRITON = '[provider]\nkind = "triton"\nsource = "kernel.py"\nchips = ["gfx942", "sm_80"]\n'


def test_a_kernel_built_from_source_is_bound_to_what_the_provider_made(folder: Path, tmp_path: Path) -> None:
    text = GEMM[: GEMM.index("[objects")].replace('"tile * 64"', '"shared"') + TRITON
    manifest, problem = written(folder, text), Gemm.parse(shape="128x64x64")
    assert (manifest.chips, manifest.provider.source) == (("gfx942", "sm_80"), folder / "kernel.py")
    assert manifest.fit(problem, "sm_80", parameters={"tile": 64})["rows"] == 2
    with pytest.raises(UsageError, match="built from source"):
        manifest.bind(problem, "sm_80", reports={"shared": 1})
    with pytest.raises(DoesNotFitError, match=r"not for sm_86.*gfx942, sm_80"):
        manifest.bind(problem, "sm_86")
    ptx = tmp_path / "gemm.ptx"
    ptx.write_text("")
    instance = manifest.bind(problem, "sm_80", objects=[ptx], parameters={"tile": 64}, reports={"shared": 147456})
    assert (instance.local_memory, instance.workgroup_size[0], instance.subgroup_size) == (147456, 128, 32)
    with pytest.raises(UsageError, match=r"local_memory: .*unknown name 'shared'"):
        manifest.bind(problem, "sm_80", objects=[ptx])


def test_ptx_runs_on_later_chips_too(folder: Path) -> None:
    manifest = written(folder, GEMM.replace("objects.gfx942", "objects.sm_80"))
    assert manifest.bind(Gemm.parse(shape="128x64x64"), "sm_120").chip == "sm_120"
    with pytest.raises(DoesNotFitError, match="no object for sm_75"):
        manifest.bind(Gemm.parse(shape="128x64x64"), "sm_75")


BINDING = '[[bindings]]\noperand = "lhs"\naccess = "read"\n'


OBJECTS = GEMM[GEMM.index("[objects") :]
SCRATCHED = SCRATCH.replace("\n[objects.gfx942]", "")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('operation = "gemm"\n', "", "operation: it is missing"),
        (
            'operation = "gemm"',
            'operation = "fft"',
            "operation: it computes 'fft', not gemm or conv or convnd or",
        ),
        ('operation = "gemm"', "operation =", "is not TOML"),
        ('operation = "gemm"', 'operation = "gemm"\nsubgroup_size = 32', "subgroup_size: no such key.*conditions"),
        ('["f16", "i8"]', '"f16"', "dtypes: it is not a list"),
        ('"m % tile == 0"', '"width == 0"', r"conditions\[0\]: .*unknown name 'width'.*batch, .*k, lanes, lds, m, n"),
        ('"m % tile == 0"', "1.5", r"conditions\[0\]: it is neither a whole number nor"),
        ('"gemm_128"', '"gemm 128"', "symbol: 'gemm 128' cannot be a symbol"),
        ('"gemm_128"', '"gemm_128"\nsymbols = "gemm_(?P<m>[0-9]+)"', "m: this name has a meaning already"),
        ('"gemm_128"', '"gemm_128"\nsymbols = "conv_(?P<tile>[0-9]+)"', "symbols: .*own symbol is not of this form"),
        ('"gemm_128"', '"gemm_128"\nsymbols = "gemm_(?P<tile>"', "symbols: it is no regular expression"),
        ('["4 * subgroup"]', "[]", "workgroup_size: it has 0 entries.*1 to 3"),
        ("tile = [128, 64]", "tile = 128", "parameters.tile: it is not a list"),
        ("stages = [2]", f"stages = [{2**40}]", "parameters.stages: .* of 32 bits"),
        ("stages = [2]", "k = [2]", "parameters.k: this name has a meaning already"),
        ("stages = [2]", '"if" = [2]', "parameters.if: it cannot be a name"),
        ("stages = [2]", f"stages = {list(range(5000))}", "too many combinations of parameters.*8,192 are the most"),
        ('rows = "m // tile"', 'rows = "more"\nmore = "m"', "values.rows: .*unknown name 'more'"),
        (BINDING, "", "bindings: lhs is not bound"),
        (BINDING, BINDING * 2, r"bindings\[2\].operand: lhs is bound twice"),
        ('operand = "lhs"', 'operand = "image"', r"bindings\[1\].operand: 'image' is not known.*lhs, rhs, out"),
        ('operand = "lhs"\naccess = "read"', 'operand = "lhs"\naccess = "write"', r"bindings\[1\].access"),
        ('layout = "nk"', 'layout = "nm"', r"bindings\[0\].layout: 'nm' is not a layout of rhs.*'bkn'"),
        ('layout = "nk"', "zeroed = true", r"bindings\[0\].zeroed: no such key.*access, .*panels"),
        ('layout = "nk"', 'panels = 4\npanelled = "b"', r"bindings\[0\].panelled: 'b' is no dimension .*that is cut"),
        ('element = "f32"\n', "", r"bindings\[2\].element: it is missing"),
        (OBJECTS, SCRATCHED + OBJECTS.replace("gfx942", "x86_64"), "a processor's kernel gets no scratch"),
        (OBJECTS, "", "objects: it is missing"),
        ("[objects.gfx942]", "[objects.mi300x]", "objects.mi300x: 'mi300x' is not a chip"),
        ("sha256 =", "# sha256 =", "objects.gfx942.sha256: it is missing"),
        ("[objects.gfx942]", f"{TRITON}[objects.gfx942]", "objects: triton kernels are built from their source"),
        (OBJECTS, TRITON.replace("kernel.py", "none.py"), "provider.source: there is no file"),
    ],
)
def test_each_error_names_file_key_and_remedy(folder: Path, old: str, new: str, says: str) -> None:
    assert old in GEMM
    with pytest.raises(UsageError, match=says) as caught:
        written(folder, GEMM.replace(old, new, 1))
    assert str(folder / "microkernel.toml") in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("path", ["/etc/passwd", "lib/../../x", "link/inside", "a\\u0000b"])
def test_a_path_that_leads_out_of_the_folder_is_refused(folder: Path, tmp_path: Path, path: str) -> None:
    (tmp_path / "outside").mkdir()
    (folder / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(UsageError, match=r"objects\.gfx942\.path: .*leads out of the folder"):
        written(folder, GEMM.replace("lib/gemm.hsaco", path))
    with pytest.raises(UsageError, match=r"provider\.source: .*the folder"):
        written(folder, GEMM[: GEMM.index("[objects")] + TRITON.replace("kernel.py", path))


def test_a_file_that_is_no_manifest_is_refused(folder: Path) -> None:
    file = folder / "microkernel.toml"
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load(file, OPERATIONS)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is not TOML"):
        load(file, OPERATIONS)
    file.write_text("a = " + "[" * 5000)
    with pytest.raises(UsageError, match="is not TOML"):
        load(file, OPERATIONS)
    file.write_text(f'operation = "\\u001b{"x" * 100_000}"')
    with pytest.raises(UsageError, match="operation: it computes") as refused:
        load(file, OPERATIONS)
    assert len(str(refused.value)) < 500
    assert str(refused.value).isprintable()


def test_attention_may_name_no_layouts_and_transposes_heads(folder: Path) -> None:
    head = GEMM[: GEMM.index("[[bindings")].replace('"gemm"', '"attention"').replace('layouts = ["nn", "tn"]\n', "")
    for old, new in (("m % tile", "queries % tile"), ("n % 64", "width % 64"), ("m // tile", "queries // tile")):
        head = head.replace(old, new)
    head = head.replace('"m", "n", "k"', '"queries"').replace("ceil_div(n, 64)", "heads")
    reads = "".join(
        f'[[bindings]]\noperand = "{name}"\naccess = "read"\nlayout = "{layout}"\n'
        for name, layout in (("query", "bqhd"), ("key", "bkhd"), ("value", "bhkd"))
    )
    out = '[[bindings]]\noperand = "out"\naccess = "write"\nlayout = "bqhd"\nelement = "problem"\n'
    manifest = written(folder, head + reads + out + GEMM[GEMM.index("[objects") :])
    query, key, value, out_binding = manifest.bind(Attention.parse(shape="2x4x128x256x64"), "gfx942").bindings
    assert (query.permutation, query.tensor.text) == ((0, 2, 1, 3), "2x128x4x64xf16")
    assert (key.permutation, key.tensor.text) == ((0, 2, 1, 3), "2x256x4x64xf16")
    assert (value.permutation, value.tensor.text) == ((), "2x4x256x64xf16")
    assert (out_binding.operand, out_binding.tensor.text) == (3, "2x128x4x64xf16")
    moved = replace(Attention.parse(shape="2x4x128x256x64"), layout="bshd")
    with pytest.raises(DoesNotFitError, match="does not take layout bshd"):
        manifest.bind(moved, "gfx942")
    both = 'layouts = ["bhsd", "bshd"]\n' + head + reads + out + GEMM[GEMM.index("[objects") :]
    query, _, value, out_binding = written(folder, both).bind(moved, "gfx942").bindings
    assert (query.permutation, query.tensor.text) == ((), "2x128x4x64xf16")
    assert (value.permutation, value.tensor.text) == ((0, 2, 1, 3), "2x4x256x64xf16")
    assert (out_binding.permutation, out_binding.tensor.text) == ((), "2x128x4x64xf16")
    with pytest.raises(UsageError, match="layouts: 'nn' is not known"):
        written(folder, both.replace('["bhsd", "bshd"]', '["nn"]'))


def test_auto_is_what_fits_of_those_that_come_with_autotune(tmp_path: Path) -> None:
    """Nobody is told of kernels that compute something else, and a kernel of one's own has to be named."""
    problem = Gemm.parse(shape="64x64x64", dtype="f32")
    sgemm, own = shipped_folder() / "sgemm_c", own_folder(tmp_path) / "mine"
    shutil.copytree(sgemm, own)
    found, notes = find_variants([Kernel(AUTO)], problem, chip=platform.machine(), workspace=tmp_path)
    assert [variants.manifest.name for variants in found] == ["sgemm_c"]
    assert notes == []
    both, _ = find_variants([Kernel(AUTO), Kernel("mine")], problem, chip=platform.machine(), workspace=tmp_path)
    assert {variants.manifest.name for variants in both} == {"sgemm_c", "mine"}
