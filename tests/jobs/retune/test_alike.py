"""When files written anew need no compile: they must say the same to the compiler as those that were raced."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.carriers.flagfile import flagfile_text
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.carriers.provenance import Provenance
from autotuner.iree.tools import Tools
from autotuner.jobs.buckets import plain_only
from autotuner.jobs.retune.alike import says_the_same
from autotuner.jobs.retune.unit import Unit, read_unit
from autotuner.problems import Gemm
from autotuner.specfiles.entries import read
from autotuner.specfiles.renew import renew
from autotuner.system.cache import Cache
from autotuner.targets import Target
from autotuner.tuning.plan import Plan
from tests.support.spec_files import make_spec

CPU = Target.parse("cpu")
PROBLEM = Gemm.parse(shape="64x32x48", dtype="f32")
KERNEL = Path(__file__).parents[3] / "specs/h200/gemm_1x5120x5120_f16_f32_nn-sm_80"

Write = Callable[..., Unit]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> str:
    builder = Builder(Tools.find(), Cache(tmp_path_factory.mktemp("cache")))
    with BuildExecutor.local(builder, 2) as executor:
        return make_spec(Plan.make(PROBLEM, plain_only(CPU), executor, timeout=60.0))


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str | None, *flags: str, named: Path | None = None) -> Unit:
        path = tmp_path / f"{name}.mlir"
        if text is not None:
            path.write_text(text)
        carried = [f"{CPU.spec_flag}={named or path}"] if text is not None else []
        path.with_suffix(".flags").write_text(flagfile_text([*CPU.compile_flags, *flags, *carried]))
        return read_unit(path, trust=True)

    return write


def renewed(text: str, folder: Path) -> str:
    (folder / "before.mlir").write_text(text)
    ids = {f"match_{PROBLEM.name}": Provenance(problem=PROBLEM.name, verdict="win", us=12.0)}
    return renew(folder / "before.mlir", ids, header=["Spec, retuned: 1 entry"])


def test_a_new_provenance_and_other_comments_are_the_same(write: Write, spec: str, tmp_path: Path) -> None:
    new = renewed(spec, tmp_path)
    assert new != spec
    assert says_the_same(write("old", spec), write("new", new), CPU)


def test_another_configuration_is_not(write: Write, spec: str, tmp_path: Path) -> None:
    changed = renewed(spec, tmp_path).replace("distribution = [", "distribution = [1", 1)
    assert changed != renewed(spec, tmp_path)
    assert not says_the_same(write("old", spec), write("new", changed), CPU)


def test_flags_alone_are_the_same_where_they_are_equal(write: Write) -> None:
    flag = "--iree-opt-data-tiling"
    assert says_the_same(write("old", None, flag), write("new", None, flag), CPU)
    assert not says_the_same(write("old", None, flag), write("new", None), CPU)
    assert not says_the_same(write("old", None), write("new", None, flag), CPU)


def test_a_flagfile_that_names_another_spec_is_not(write: Write, spec: str, tmp_path: Path) -> None:
    """What was raced is what the flagfile names, wherever another of the same name lies."""
    elsewhere = tmp_path / "elsewhere.mlir"
    elsewhere.write_text(spec)
    both = write("old", spec, f"{CPU.spec_flag}={elsewhere}")
    assert not says_the_same(both, write("new", renewed(spec, tmp_path)), CPU)
    assert not says_the_same(
        write("old", spec, named=tmp_path / "moved" / "old.mlir"), write("new", renewed(spec, tmp_path)), CPU
    )


def test_kernels_are_the_same_where_their_objects_are_byte_by_byte(tmp_path: Path) -> None:
    shipped, target = KERNEL.with_suffix(".mlir"), Target.parse("sm_80")

    def placed(name: str, text: str) -> Unit:
        spec = tmp_path / name / shipped.name
        shutil.copytree(shipped.with_suffix(".objects"), spec.with_suffix(".objects"))
        spec.write_text(text)
        named = [f"{SPEC_FLAG}={spec}", f"{OBJECTS_FLAG}={spec.with_suffix('.objects')}"]
        spec.with_suffix(".flags").write_text(flagfile_text([*target.compile_flags, *named]))
        return read_unit(spec, trust=True)

    ids = {entry.id: Provenance(problem="a gemm", verdict="win") for entry in read(shipped).entries}
    text = renew(shipped, ids, header=["Spec, retuned: 1 entry"])
    old, new = placed("old", shipped.read_text()), placed("new", text)
    assert text != shipped.read_text()
    assert says_the_same(old, new, target)
    assert new.objects is not None
    (kernel,) = new.objects.iterdir()
    kernel.write_bytes(kernel.read_bytes() + b"\0")
    assert not says_the_same(old, new, target)
    elsewhere = placed("elsewhere", text)
    assert elsewhere.flagfile is not None
    flags = elsewhere.flagfile.path
    flags.write_text(flags.read_text().replace(str(elsewhere.objects), str(old.objects)))
    moved = read_unit(elsewhere.spec, trust=True)
    assert says_the_same(old, moved, target) == (moved.objects == old.objects)
