"""What the registry knows, applied: real compiles, real results, nothing timed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotuner import Options, Target
from autotuner.errors import NoCandidateError, UsageError, WrongResultError
from autotuner.jobs.model.known import apply_model
from autotuner.jobs.registry.apply import apply_problem
from autotuner.jobs.registry.check import check_registry
from autotuner.microkernels.variants import Kernel
from autotuner.problems import Gemm
from autotuner.programs.model import Model
from autotuner.specfiles.entries import read
from autotuner.store.store import Store
from tests.jobs.registry.conftest import Make
from tests.support.models import EXAMPLES, fake_tools, run

CPU = Target.parse("cpu")
SMALL = Gemm.parse(shape="64x128x96", dtype="f32")


def test_an_exact_entry_is_applied_proven_and_checked(tmp_path: Path, known: Make) -> None:
    known(problem=SMALL.name)
    result = apply_problem(SMALL, CPU, options=Options(workspace=tmp_path))
    assert result.reason.startswith("from the registry (exact): 2.00x faster than IREE's default")
    assert "results right" in result.reason
    assert (result.verdict, result.carrier, result.baseline.us) == ("compile-only", "microkernel", None)
    assert result.spec is not None
    (said,) = {one.provenance for one in read(result.spec).entries}
    assert said is not None
    assert (said.verdict, said.us, said.median) == ("win", 10.0, 2.0)


def test_the_nearest_shape_is_applied_and_marked_as_never_timed(tmp_path: Path, known: Make) -> None:
    known(problem="gemm_64x128x128_f32_f32_nn", config={"kc": 96})
    result = apply_problem(SMALL, CPU, options=Options(workspace=tmp_path, device="none"))
    assert "of gemm_64x128x128_f32_f32_nn, the nearest shape" in result.reason
    assert result.spec is not None
    (said,) = {one.provenance for one in read(result.spec).entries}
    assert said is not None
    assert said.verdict.startswith("never timed: as gemm_64x128x128_f32_f32_nn")
    assert said.us is None


def test_without_an_entry_nothing_is_written_and_the_remedy_is_to_tune(tmp_path: Path, known: Make) -> None:
    known(problem="gemm_4096x4096x4096_f32_f32_nn")
    known(problem=SMALL.name, iree="3.12.0")
    with pytest.raises(NoCandidateError, match=r"nothing for gemm_64x128x96_f32_f32_nn on cpu \(1 entry"):
        apply_problem(SMALL, CPU, options=Options(workspace=tmp_path, device="none"))
    assert not [*(tmp_path / "specs").glob("*")]


def test_a_model_gets_the_kernels_that_are_known_each_proven_in_it(tmp_path: Path, known: Make) -> None:
    known(problem="gemm_64x64x128_f32_f32_nn")
    result = apply_model(Model(EXAMPLES / "three.mlir"), CPU, options=Options(workspace=tmp_path))
    assert result.reason.startswith("from the registry: 1 exact, 2 of the nearest shape; each proven")
    assert "outputs right" in result.reason
    states = {row.label: row.state for row in result.details.kernels}
    assert set(states.values()) == {"taken"}
    assert result.flagfile is not None
    assert "--iree-preprocessing-transform-spec-filename=" in result.flagfile.read_text()


def test_a_model_that_computes_something_else_with_what_is_known_gets_no_files(tmp_path: Path, known: Make) -> None:
    known(problem="gemm_64x64x128_f32_f32_nn")
    other = tmp_path / "other.npy"
    np.save(other, np.zeros((64, 32), np.float32))
    model = Model(EXAMPLES / "three.mlir", expected=(other,))
    with pytest.raises(WrongResultError, match="three computes something else with what the registry knows"):
        apply_model(model, CPU, options=Options(workspace=tmp_path))
    assert not [*(tmp_path / "specs").rglob("*.flags")]


def test_a_check_keeps_what_applies_and_drops_what_does_not(tmp_path: Path, known: Make) -> None:
    known(problem=SMALL.name, iree="3.12.0")
    known(problem="gemm_64x128x97_f32_f32_nn", kernel="sgemv_c")
    known(op="model", problem="m", sha256="aa", carrier="flags", kernel="")
    result = check_registry(
        tmp_path / "registry", CPU, options=Options(workspace=tmp_path, device="none"), into=tmp_path / "new"
    )
    found = {row.problem: row.state for row in result.details.rows}
    assert found == {SMALL.name: "kept", "gemm_64x128x97_f32_f32_nn": "dropped", "m": "skipped"}
    (file,) = (tmp_path / "new").iterdir()
    assert len(file.read_text().splitlines()) == 2
    with pytest.raises(UsageError, match="has no entry for sm_80"):
        check_registry(tmp_path / "registry", Target.parse("sm_80"), options=Options(workspace=tmp_path))


@pytest.mark.long
def test_a_search_over_a_model_begins_with_what_is_known_of_it(tmp_path: Path, known: Make) -> None:
    """What the registry knows doubles the speed; nothing else gains."""
    known(problem="gemm_64x64x128_f32_f32_nn")
    (tmp_path / "registry").rename(tmp_path / "here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOTUNE_REGISTRY", str(tmp_path / "here"))
        fake = fake_tools(tmp_path, rules=[("*preprocessing-transform-spec-filename*", 50.0)])
        result = run("three", tmp_path, fake, microkernels=(Kernel("sgemm_c"),), model={"top": 1})
    assert result.verdict == "win"
    with Store.open(None, workspace=tmp_path / "workspace", create=False) as store:
        tried = [row.kind for row in store.candidates(result.run)]
    assert tried.index("microkernel") == 1, "after IREE's default"
