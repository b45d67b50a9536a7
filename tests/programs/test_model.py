"""A model as IREE's tools take it: files, inputs, outputs."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import cast

import ml_dtypes
import numpy as np
import pytest

from autotuner.carriers.outputs import MODEL
from autotuner.devices.device import Computed
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.iree.tools import Tools
from autotuner.jobs.model.route_search import choose
from autotuner.measure.check import Check
from autotuner.problems import Array
from autotuner.programs import imports
from autotuner.programs.arbiter import same_outputs
from autotuner.programs.inputs import input_shapes
from autotuner.programs.model import Model, call_of
from autotuner.programs.signature import Argument, Signature
from autotuner.targets import Target
from autotuner.tuning.options import Options
from autotuner.tuning.run import Account, Job
from tests.support.bare_model import BareContext

IMAGE = Signature("main", (Argument((1, 4), "f32"), Argument((None, 2), "i64")), ("f32",))


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"is no model: its name ends in none of \.mlir, \.mlirbc, \.onnx"):
        Model(tmp_path / "model.pt").opened(folder=tmp_path)
    with pytest.raises(UsageError, match="there is no model"):
        Model(tmp_path / "model.mlir").opened(folder=tmp_path)


def test_each_function_of_a_file_has_results_and_files_of_its_own(tmp_path: Path) -> None:
    path, target = tmp_path / "llm.mlir", Target.parse("cpu")
    path.write_text("func.func @prefill() { return }\nfunc.func @decode() { return }\n")
    models = [Model(path), Model(path, function="prefill"), Model(path, function="decode$bs4")]
    names = ["llm", "llm_prefill", "llm_decode_bs4"]
    assert [model.name for model in models] == names
    assert [model.opened(folder=tmp_path, tools=Tools.find()).describe(flops=0)["name"] for model in models] == names
    job = Job(target, Options(), BareContext(root=tmp_path).session, cast(Account, None))
    files = [job.outputs(model.name, MODEL) for model in models]
    assert [file.spec.name for file in files] == [f"{name}-cpu.mlir" for name in names]


def test_inputs_that_have_only_a_shape_are_filled_and_others_passed_on(tmp_path: Path) -> None:
    given = Model(tmp_path / "m.mlir", inputs=("1x4xf32", "3x2xi64=1 0 1 0 1 0"), parameters=("scope=w.irpa",))
    call, _ = call_of(given, IMAGE, tmp_path, seed=0)
    assert call.arguments[0] == f"--input=1x4xf32=@{tmp_path / 'input0.bin'}"
    assert call.arguments[1:] == ["--input=3x2xi64=1 0 1 0 1 0", "--parameters=scope=w.irpa"]
    values = np.fromfile(tmp_path / "input0.bin", np.float32)
    assert len(set(values)) == 4
    assert (np.abs(values) <= 1).all()


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((), "3 is not known|sizes are not known"),
        (("1x4xf32",), "takes 2 inputs"),
        (("1x5xf32", "3x2xi64"), "does not fit the input, which is 1x4xf32"),
        (("banana", "3x2xi64"), "is not SHAPExTYPE"),
        (("1x4xf17", "3x2xi64"), "is not SHAPExTYPE"),
        (("1x4xf32", "3x3xi64"), r"does not fit the input, which is \?x2xi64"),
    ],
)
def test_inputs_that_cannot_be_meant_are_refused(tmp_path: Path, inputs: tuple[str, ...], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        call_of(Model(tmp_path / "m.mlir", inputs=inputs), IMAGE, tmp_path, seed=0)


def test_arrays_in_files_are_held_against_the_input_and_found_from_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arrays: dict[str, Array] = {
        "floats": np.zeros((1, 4), np.float32),
        "halves": np.zeros((1, 4), np.float16),
        "doubles": np.zeros((1, 4), np.float64),
        "longs": np.zeros((3, 2), np.uint64),
        "shorts": np.zeros((3, 2), np.int32),
        "foreign": np.zeros((3, 2), ">i8"),
        "brains": np.zeros(3, ml_dtypes.bfloat16),
    }
    for name, array in arrays.items():
        np.save(name, array)
    (tmp_path / "a.txt").touch()

    def called(*inputs: str, signature: Signature = IMAGE) -> tuple[str, ...]:
        (tmp_path / "m.mlir").write_text("module {}")
        program = Model(tmp_path / "m.mlir", inputs=inputs, trust=True).opened(folder=tmp_path)
        return call_of(program, signature, tmp_path / "inputs", seed=0)[0].inputs

    assert called("@floats.npy", "@longs.npy") == (f"@{tmp_path / 'floats.npy'}", f"@{tmp_path / 'longs.npy'}")
    halves = Signature("main", (Argument((3,), "bf16"),), ("f32",))
    assert called("@brains.npy", signature=halves) == (f"@{tmp_path / 'brains.npy'}",)
    for inputs, says in [
        (("@halves.npy", "@longs.npy"), r"halves\.npy is 1x4xfloat16, and the input is 1x4xf32"),
        (("@doubles.npy", "@longs.npy"), r"float64, and .* 1x4xf32. .*IREE makes f32 of f64"),
        (("@floats.npy", "@shorts.npy"), r"is 3x2xint32, and the input is \?x2xi64"),
        (("@floats.npy", "@foreign.npy"), r"is 3x2x>i8, and the input is \?x2xi64"),
        (("@longs.npy", "@longs.npy"), "does not fit the input, which is 1x4xf32"),
        (("@a.txt", "@longs.npy"), r"a\.txt is no \.npy file\. Give SHAPExTYPE=@FILE, or @FILE\.npy"),
        (("1x4xf32=@b.bin", "@longs.npy"), r"there is no file .*b\.bin"),
    ]:
        with pytest.raises(UsageError, match=says):
            called(*inputs)


def test_a_tensor_may_be_empty_as_a_cache_is_before_the_first_token(tmp_path: Path) -> None:
    cache = Signature("main", (Argument((None, 4), "f32"), Argument((0, 4), "f32")), ("f32",))
    program = Model(tmp_path / "m.mlir", inputs=("0x4xf32", "0x4xf32"))
    call, _ = call_of(program, cache, tmp_path, seed=0)
    assert call.inputs == tuple(f"0x4xf32=@{tmp_path / f'input{number}.bin'}" for number in range(2))
    made, _ = call_of(replace(program, inputs=()), Signature("main", cache.arguments[1:], ("f32",)), tmp_path, seed=0)
    assert made.inputs == (f"0x4xf32=@{tmp_path / 'input0.bin'}",)


def test_truth_values_are_given_as_the_tools_read_them(tmp_path: Path) -> None:
    masked = Signature("main", (Argument((2, 2), "i1"), Argument((), "i1"), Argument((4,), "i1")), ("f32",))
    given = ("2x2xi1=[[1 0][0 1]]", "i1=1", "4xi1")
    call, _ = call_of(Model(tmp_path / "m.mlir", inputs=given), masked, tmp_path, seed=0)
    assert call.inputs == ("2x2xi8=[[1 0][0 1]]", "i8=1", f"4xi1=@{tmp_path / 'input2.bin'}")
    digits = ("2x2xi1=01000001", "i1=01", "4xi8=1 0 1 1")
    call, _ = call_of(Model(tmp_path / "m.mlir", inputs=digits), masked, tmp_path, seed=0)
    assert call.inputs == digits


def test_shapes_are_read_from_what_the_user_gives(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 5), np.float32))
    given = ["2x3xf32", "4xi32=1 2 3 4", f"@{tmp_path / 'a.npy'}", f"7x8xf32=@{tmp_path / 'b.bin'}", "@missing.npy"]
    assert input_shapes(given) == [(2, 3), (4,), (3, 5), (7, 8), None]


def test_outputs_are_compared_by_their_type() -> None:
    def same(found: Array, wanted: Array, tolerance: float | None = None) -> Check:
        return same_outputs(Computed((found,)), Computed((wanted,)), tolerance=tolerance, rounding=1e-4)

    one = np.linspace(1, 2, 64, dtype=np.float32)
    good, bad = one * np.float32(1 + 1e-6), one * np.float32(1 + 1e-2)
    assert same(good, one).ok
    assert same(bad, one).failure == "wrong-result"
    assert same(bad, one, 0.1).ok
    halves = one.astype(ml_dtypes.bfloat16)
    assert same(halves * ml_dtypes.bfloat16(1.004), halves).failure == "wrong-result"
    assert same(halves * ml_dtypes.bfloat16(1.004), halves, 1e-2).ok
    numbers = np.arange(20_000)
    assert same(numbers, numbers).ok
    assert not same(numbers + (numbers == 7), numbers).ok
    assert not same(one[:3], one).ok
    number = np.array(2.5, np.float32)
    assert same(number, number).ok
    assert same(np.array(3.5, np.float32), number).detail.endswith("element () is 3.5, not 2.5")


def test_the_largest_element_of_a_softmax_may_be_off_by_as_much_as_its_size_allows() -> None:
    one = np.full(50_000, 1e-7)
    one[3] = 1.0
    almost = one.copy()
    almost[3] -= 5e-5
    outputs = Computed((one,))
    assert same_outputs(Computed((almost,)), outputs, tolerance=None, rounding=1e-4).ok
    almost[3] = 0.99
    assert not same_outputs(Computed((almost,)), outputs, tolerance=None, rounding=1e-4).ok


def test_without_the_onnx_package_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    monkeypatch.setattr(imports, "find_spec", lambda name: None if name == "onnx" else sys.modules[name])
    with pytest.raises(EnvironmentFailure, match="pip install onnx"):
        Model(tmp_path / "model.onnx").opened(folder=tmp_path)


def test_routes_can_be_pinned_and_added() -> None:
    cpu = Target.parse("cpu")
    assert [r.name for r in choose(cpu, ["im2col"], {"conv"}).first] == ["plain", "im2col"]
    own = choose(cpu, ["mine=--iree-opt-level=O3 --iree-flag='a b'"], {"gemm"})
    assert own.named("mine").flags == ("--iree-opt-level=O3", "--iree-flag=a b")
    assert "data-tiling+ukernels" in {route.name for route in own.first}
    assert own.knobs
    for wrong in ("nowhere", "mine=O3", "mine=", "=--flag", "mine=--a 'b"):
        with pytest.raises(UsageError):
            choose(cpu, [wrong], {"gemm"})


def test_files_that_a_call_reads_are_known_by_their_content(tmp_path: Path) -> None:
    model, weights, image = (tmp_path / name for name in ("m.mlir", "weights.irpa", "image.npy"))
    for path in (model, weights, image):
        path.write_bytes(b"1")

    def reads(*, inputs: tuple[str, ...] = (), parameters: tuple[str, ...] = ()) -> list[str]:
        return Model(model, inputs=inputs, parameters=parameters).reads()

    assert reads() == []
    assert reads(inputs=("4xf32", "4xf32=1 2 3 4")) == []
    wanted = {"parameters": (f"model={weights}",), "inputs": (f"@{image}", f"4xf32=@{image}")}
    first = reads(**wanted)
    assert len(first) == 3
    for path in (weights, image):
        before = reads(**wanted)
        path.write_bytes(b"2")
        assert reads(**wanted) != before
