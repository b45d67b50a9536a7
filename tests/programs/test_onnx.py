"""ONNX files as converters write them: every storage of tensors, weights beside the model, the importer's own words;
those that compute sizes, are of old opsets or have odd names compile, and compute what ONNX says."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.programs.imports import import_onnx
from autotuner.programs.inputs import in_order, input_shapes
from autotuner.programs.model import Model
from autotuner.system import process
from autotuner.targets import Target

onnx = pytest.importorskip("onnx")
worker = pytest.importorskip("autotuner.programs.onnx_worker")
rewrites = pytest.importorskip("autotuner.programs.onnx_rewrites")
T = onnx.TensorProto
node, value = onnx.helper.make_node, onnx.helper.make_tensor_value_info
ROWS, INNER, COLUMNS = 2, 3, 4
WEIGHT = np.arange(INNER * COLUMNS, dtype=np.float32).reshape(INNER, COLUMNS) / 8


def numbers(name: str, kind: int, bits: np.ndarray[Any, Any]) -> Any:
    """A tensor whose values stand in int32_data, each as its bits."""
    tensor = T(name=name, data_type=kind, dims=bits.shape)
    tensor.int32_data.extend(int(value) for value in bits.ravel())
    return tensor


def half_bits() -> np.ndarray[Any, Any]:
    return WEIGHT.astype(np.float16).view(np.uint16).astype(np.int64)


def product(weight: Any, kind: int, *, opset: int = 17, ir_version: int = 8, constant: bool = False) -> Any:
    """`x @ w`, with w as an initializer or as a Constant node."""
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    if constant:
        nodes.insert(0, node("Constant", [], ["w"], value=weight))
    x, y = value("x", kind, [ROWS, INNER]), value("y", kind, [ROWS, COLUMNS])
    graph = onnx.helper.make_graph(nodes, "main", [x], [y], [] if constant else [weight])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=ir_version)


def imported(model: Any, folder: Path) -> Path:
    onnx.save(model, folder / "model.onnx")
    return import_onnx(folder / "model.onnx", folder / "imported", name="model")


@pytest.mark.parametrize("constant", [False, True])
def test_f16_in_int32_data_is_imported_and_computes_with_the_right_values(tmp_path: Path, constant: bool) -> None:
    model = product(numbers("w", T.FLOAT16, half_bits()), T.FLOAT16, constant=constant)
    path = imported(model, tmp_path)
    assert [file.suffix for file in sorted(path.parent.iterdir())] == [".json", ".mlir"]
    if constant:
        return
    tools, vmfb, result = Tools.find(), tmp_path / "m.vmfb", tmp_path / "y.npy"
    flags = Target.parse("cpu").compile_flags
    assert process.run([tools.iree_compile, path, *flags, "-o", vmfb], timeout=120).ok
    ones = f"--input={ROWS}x{INNER}xf16=" + " ".join(["1"] * (ROWS * INNER))
    words = [f"--module={vmfb}", "--device=local-sync", "--function=main", ones, f"--output=@{result}"]
    assert process.run([tools.iree_run_module, *words], timeout=60).ok
    np.testing.assert_array_equal(np.load(result), np.ones((ROWS, INNER), np.float16) @ WEIGHT.astype(np.float16))


@pytest.mark.parametrize(
    ("kind", "size"),
    [("FLOAT16", 2), ("BFLOAT16", 2), ("UINT16", 2), ("FLOAT8E4M3FN", 1), ("FLOAT8E5M2FNUZ", 1)],
)
def test_numbers_become_the_bytes_that_they_stand_for(kind: str, size: int) -> None:
    bits = np.array([0, 1, 127, 128, 255] if size == 1 else [0, 1, 0x3C00, 0x7FFF, 0xFFFF], np.int64)
    tensor = numbers("w", getattr(T, kind), bits)
    assert worker.normalise(tensor)
    assert tensor.raw_data == bits.astype(f"<u{size}").tobytes()
    assert not tensor.int32_data
    assert not worker.normalise(tensor)


def test_tensors_of_inner_graphs_and_functions_are_found() -> None:
    inner = onnx.helper.make_graph([], "inner", [], [], [numbers("deep", T.FLOAT16, half_bits())])
    branches = node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    constant = node("Constant", [], ["k"], value=numbers("called", T.FLOAT16, half_bits()))
    function = onnx.helper.make_function("own", "f", [], ["k"], [constant], [onnx.helper.make_opsetid("", 17)])
    model = onnx.helper.make_model(onnx.helper.make_graph([branches], "outer", [], []), functions=[function])
    assert [tensor.name for tensor in worker.tensors(model)] == ["deep", "deep", "called"]


def test_a_model_is_imported_once_and_what_is_none_is_told(tmp_path: Path) -> None:
    onnx.save(product(onnx.numpy_helper.from_array(WEIGHT, "w"), T.FLOAT), tmp_path / "tiny.onnx")
    first, again = (Model(tmp_path / "tiny.onnx").opened(folder=tmp_path / "imported") for _ in range(2))
    assert "onnx.MatMul" in first.source.read_text()
    assert again.source == first.source
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    with pytest.raises(UsageError, match=r"IREE's importer does not take .*broken\.onnx: Error parsing"):
        Model(tmp_path / "broken.onnx").opened(folder=tmp_path / "imported")


def test_weights_beside_the_model_are_read_and_a_change_of_them_is_seen(tmp_path: Path) -> None:
    model = product(onnx.numpy_helper.from_array(WEIGHT, "w"), T.FLOAT)
    where = {"save_as_external_data": True, "location": "w.data", "size_threshold": 0}
    onnx.save(model, tmp_path / "model.onnx", **where)
    first = import_onnx(tmp_path / "model.onnx", tmp_path / "imported", name="model").read_text()
    weights = np.fromfile(tmp_path / "w.data", np.float32)
    (weights + 1).tofile(tmp_path / "w.data")
    second = import_onnx(tmp_path / "model.onnx", tmp_path / "imported", name="model").read_text()
    assert first != second


def test_twenty_gigabytes_of_weights_are_never_read(tmp_path: Path) -> None:
    """The file is sparse; the import may take no more than it would for a small model."""
    rows = 20 * 10**9 // (4 * COLUMNS)
    weight = T(name="w", data_type=T.FLOAT, dims=(rows, COLUMNS), data_location=T.EXTERNAL)
    weight.external_data.add(key="location", value="w.data")
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [node("Gather", ["w", "i"], ["y"])],
            "main",
            [value("i", T.INT64, [4])],
            [value("y", T.FLOAT, [4, COLUMNS])],
            [weight],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
    )
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    with (tmp_path / "w.data").open("wb") as file:
        file.truncate(rows * COLUMNS * 4)
    opened = Model(tmp_path / "model.onnx").opened(folder=tmp_path / "imported")
    text = opened.source.read_text()
    assert '#stream.parameter.named<"model"::"w">' in text
    assert len(text) < 10_000


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (product(onnx.numpy_helper.from_array(WEIGHT, "w"), T.FLOAT, ir_version=99), "ir_version 99 is higher than"),
        (product(numbers("w", T.COMPLEX64, np.zeros((INNER, COLUMNS))), T.COMPLEX64), "w"),
    ],
)
def test_what_cannot_be_imported_is_told_in_the_importers_own_words(tmp_path: Path, model: Any, words: str) -> None:
    with pytest.raises(UsageError, match=rf"IREE's importer does not take .*{words}") as refusal:
        imported(model, tmp_path)
    assert "opset 17" not in str(refusal.value)
    assert len(str(refusal.value).splitlines()) == 1
    assert not list((tmp_path / "imported").glob("*.mlir"))


# --- files of strangers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["{}/secret", "../secret", "../../../../../../dev/zero", "link", "pipe"])
def test_weights_are_read_from_files_beside_the_model_alone(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"S" * WEIGHT.nbytes)
    (folder / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(folder / "pipe")
    weight = T(name="w", data_type=T.FLOAT, dims=WEIGHT.shape, data_location=T.EXTERNAL)
    weight.external_data.add(key="location", value=location.format(tmp_path))
    (folder / "model.onnx").write_bytes(product(weight, T.FLOAT).SerializeToString())
    with pytest.raises(UsageError, match="IREE's importer does not take"):
        import_onnx(folder / "model.onnx", folder / "imported", name="model")
    assert list((folder / "imported").iterdir()) == []


def test_names_are_no_code_and_no_paths(tmp_path: Path) -> None:
    evil = 'a"\n}\nfunc.func @evil() { return }\n//'
    model = product(onnx.numpy_helper.from_array(WEIGHT, "w"), T.FLOAT)
    model.graph.name, model.graph.node[0].name, model.graph.doc_string = f"../../{evil}", evil, evil
    text = imported(model, tmp_path).read_text()
    assert "func.func @evil" not in [line.strip() for line in text.splitlines()]
    assert text.count("func.func") == 1


def test_a_small_file_does_not_take_all_memory(tmp_path: Path) -> None:
    """ONNX's inference follows a range of 10^11 numbers, one by one."""
    given = {"first": 0, "last": 10**11, "step": 1}
    few = {"begin": [0], "end": [2]}
    weights = [
        onnx.numpy_helper.from_array(np.array(value, np.int64), name) for name, value in {**given, **few}.items()
    ]
    nodes = [
        node("Range", [*given], ["all"]),
        node("Slice", ["all", *few], ["shape"]),
        node("Reshape", ["x", "shape"], ["y"]),
    ]
    x, y = (value(name, T.FLOAT, shape) for name, shape in (("x", [4, 4]), ("y", ["a", "b"])))
    graph = onnx.helper.make_graph(nodes, "main", [x], [y], weights)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)]), tmp_path / "model.onnx")
    program = (
        "import sys; from pathlib import Path; from autotuner.programs import onnx_worker as worker\n"
        "worker.MEMORY = 1 << 29\n"
        "try: worker.main(Path(sys.argv[1]), Path(sys.argv[2]))\n"
        "except MemoryError: sys.exit('too large')"
    )
    command: list[str | Path] = [sys.executable, "-P", "-c", program]
    command += [tmp_path / "model.onnx", tmp_path / "out.mlir"]
    done = process.run(command, timeout=300)
    assert not done.ok
    assert not done.timed_out


def test_inputs_go_by_their_names_in_any_order_and_a_wrong_name_is_told() -> None:
    given = ("ids=1x4xi64=1 2 3 4", "mask=@m.npy")
    assert in_order(given, ["mask", "ids"]) == ["@m.npy", "1x4xi64=1 2 3 4"]
    plain = ("1x4xi64=@ids.bin", "2x3xf32=1 2", "@a.npy", "4", "1x3x5")
    assert in_order(plain, ["mask", "ids"]) is plain
    assert input_shapes(["1x3x5", "1x3x5xf32=1", "4"]) == [(1, 3, 5), (1, 3, 5), ()]
    for names, said in ((["image"], "its inputs are image"), ([], "have no names")):
        with pytest.raises(UsageError, match=said):
            in_order(("img=1x3xf32",), names)


# --- what they compute ------------------------------------------------------------------------------------------------


pytest.importorskip("onnx.reference")
SHAPE = (1, 4, 8, 8)


def whole(name: str, *numbers: int) -> Any:
    return onnx.numpy_helper.from_array(np.array(numbers, np.int64), name)


def modelled(nodes: list[Any], weights: list[Any], *, opset: int, out: Any, name: str = "main") -> Any:
    x, y = value("x", T.FLOAT, SHAPE), value("y", T.FLOAT, out)
    graph = onnx.helper.make_graph(nodes, name, [x], [y], initializer=weights)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)


def group_norm() -> Any:
    """As torch writes it: back to the shape that the input had, which is asked for. What follows needs a rank."""
    nodes = [
        node("Reshape", ["x", "groups"], ["grouped"]),
        node("InstanceNormalization", ["grouped", "one", "zero"], ["normed"]),
        node("Shape", ["x"], ["shape"]),
        node("Reshape", ["normed", "shape"], ["back"]),
        node("MaxPool", ["back"], ["y"], kernel_shape=[2, 2], strides=[2, 2]),
    ]
    one, zero = (onnx.numpy_helper.from_array(np.full(2, v, np.float32), n) for n, v in (("one", 1), ("zero", 0)))
    return modelled(nodes, [whole("groups", 1, 2, -1), one, zero], opset=13, out=(1, 4, 4, 4))


def heads() -> Any:
    """As torch writes the split of a layer's last size into heads: from parts of the shape, cut at a computed place."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Add", ["two", "one"], ["end"]),
        node("Reshape", ["end", "flat"], ["there"]),
        node("Slice", ["shape", "zero", "there"], ["first"]),
        node("Concat", ["first", "split"], ["wanted"], axis=0),
        node("Reshape", ["x", "wanted"], ["parts"]),
        node("Transpose", ["parts"], ["y"], perm=[3, 0, 1, 2, 4]),
    ]
    weights = [whole("zero", 0), whole("one", 1), whole("two", 2), whole("split", 2, 4), whole("flat", -1)]
    return modelled(nodes, weights, opset=17, out=(2, 1, 4, 8, 4))


def pooled() -> Any:
    pool = node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2], strides=[2, 2])
    return modelled([pool], [], opset=11, out=(1, 4, 4, 4), name="torch/jit\x1bgraph")


def windows() -> Any:
    """As torch writes the windows of a Swin Transformer: padding in an order that is computed, then sizes of it."""
    nodes = [
        node("ConstantOfShape", ["six"], ["zeros"], value=whole("fill", 0)),
        node("Concat", ["ends", "zeros"], ["both"], axis=0),
        node("Reshape", ["both", "pairs"], ["rows"]),
        node("Slice", ["rows", "last", "least", "zero", "last"], ["turned"]),
        node("Transpose", ["turned"], ["columns"], perm=[1, 0]),
        node("Reshape", ["columns", "last"], ["pads"]),
        node("Pad", ["x", "pads"], ["padded"]),
        node("Shape", ["padded"], ["shape"]),
        node("Gather", ["shape", "three"], ["width"]),
        node("Div", ["width", "three"], ["count"]),
        node("Concat", ["first", "count", "three"], ["wanted"], axis=0),
        node("Reshape", ["padded", "wanted"], ["parts"]),
        node("Transpose", ["parts"], ["y"], perm=[3, 0, 1, 2, 4]),
    ]
    weights = [whole("six", 6), whole("ends", 0, 1), whole("pairs", -1, 2), whole("last", -1)]
    weights += [whole("least", -(2**63) + 1), whole("zero", 0), whole("three", 3), whole("first", 1, 4, 8)]
    return modelled(nodes, weights, opset=17, out=(3, 1, 4, 8, 3))


def sound() -> Any:
    """Convolutions along one axis, each channel alone and all together, with a bias."""
    nodes = [
        node("Reshape", ["x", "row"], ["long"]),
        node("Conv", ["long", "own"], ["each"], kernel_shape=[3], strides=[1], pads=[2, 0], group=4),
        node("Conv", ["each", "w", "b"], ["y"], kernel_shape=[5], strides=[2], pads=[1, 2], dilations=[2]),
    ]
    weights = [np.linspace(-1, 1, size, dtype=np.float32) for size in (12, 120, 6)]
    shapes = zip(weights, ((4, 1, 3), (6, 4, 5), (6,)), ("own", "w", "b"), strict=True)
    tensors = [onnx.numpy_helper.from_array(one.reshape(shape), name) for one, shape, name in shapes]
    return modelled(nodes, [whole("row", 1, 4, 64), *tensors], opset=17, out=(1, 6, 30))


def last_image() -> Any:
    """As a detector ends: of a padded image of 2x2 one window is left, which does not reach the padding at the end."""
    nodes = [
        node("AveragePool", ["x"], ["small"], kernel_shape=[4, 4], strides=[4, 4]),
        node("Conv", ["small", "w"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], group=4),
    ]
    weight = onnx.numpy_helper.from_array(np.linspace(-1, 1, 36, dtype=np.float32).reshape(4, 1, 3, 3), "w")
    return modelled(nodes, [weight], opset=17, out=(1, 4, 1, 1))


def enlarged() -> Any:
    """As segmentation ends: an image of 16 bits with more pixels, whose weights are f32 in the compiler's rule."""
    nodes = [
        node("Cast", ["x"], ["half"], to=T.FLOAT16),
        node("Resize", ["half", "", "scales"], ["larger"], mode="linear", coordinate_transformation_mode="half_pixel"),
        node("Resize", ["larger", "", "scales"], ["copied"], mode="nearest"),
        node("Cast", ["copied"], ["y"], to=T.FLOAT),
    ]
    scales = onnx.numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales")
    return modelled(nodes, [scales], opset=17, out=(*SHAPE[:2], *(4 * size for size in SHAPE[2:])))


def newest() -> Any:
    """What torch's exporter writes where it is asked for opset 23."""
    nodes = [
        node("RMSNormalization", ["x", "weight"], ["normed"]),
        node("Attention", ["normed", "x", "x"], ["y"], is_causal=1),
    ]
    weight = onnx.numpy_helper.from_array(np.linspace(0.5, 2, SHAPE[3], dtype=np.float32), "weight")
    return modelled(nodes, [weight], opset=23, out=SHAPE)


def norms() -> Any:
    """Behind a convolution in groups with a bias, behind one that another part reads too, and behind neither."""
    nodes = [
        node("BatchNormalization", ["x", *(f"n0_{i}" for i in range(4))], ["first"]),
        node("Conv", ["first", "w", "b"], ["made"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=2),
        node("BatchNormalization", ["made", *(f"n1_{i}" for i in range(4))], ["second"], epsilon=0.25),
        node("Conv", ["second", "w"], ["both"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=2),
        node("BatchNormalization", ["both", *(f"n2_{i}" for i in range(4))], ["third"]),
        node("Add", ["third", "both"], ["y"]),
    ]
    rng = np.random.default_rng(1)
    drawn = {f"n{n}_{i}": rng.uniform(0.5, 2.0, 4) for n in range(3) for i in range(4)}
    drawn |= {"w": rng.standard_normal((4, 2, 3, 3)), "b": rng.standard_normal(4)}
    weights = [onnx.numpy_helper.from_array(one.astype(np.float32), name) for name, one in drawn.items()]
    return modelled(nodes, weights, opset=17, out=SHAPE)


def folded(model: Any) -> list[str]:
    onnx.checker.check_model(model, full_check=True)
    rewrites.fold_norms(model)
    onnx.checker.check_model(model, full_check=True)
    return [one.op_type for one in model.graph.node]


def test_a_norm_becomes_part_of_a_convolution_that_nothing_else_reads() -> None:
    assert folded(norms()) == ["Mul", "Add", "Conv", "Conv", "Mul", "Add", "Add"]


@pytest.mark.parametrize("change", ["training", "unknown", "too large for f16"])
def test_a_norm_that_is_not_a_constant_for_each_channel_stays(change: str) -> None:
    kind = T.FLOAT16 if "f16" in change else T.FLOAT
    numbers = np.ones((4, 4), np.float16 if "f16" in change else np.float32)
    if "f16" in change:
        numbers[3] = 1e-7  # a variance: what is multiplied with is 300
        numbers[0] = 60000
    names = ["scale", "bias", "mean", "variance"]
    norm = node("BatchNormalization", ["x", *names], ["y"])
    if change == "training":
        norm = node("BatchNormalization", ["x", *names], ["y", "m", "v"], training_mode=1)
    x, y = value("x", kind, SHAPE), value("y", kind, SHAPE)
    weights = [onnx.numpy_helper.from_array(row, name) for row, name in zip(numbers, names, strict=True)]
    given = [x, value("variance", kind, [4])] if change == "unknown" else [x]
    graph = onnx.helper.make_graph([norm], "main", given, [y], weights[: 3 if change == "unknown" else 4])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    assert folded(model) == ["BatchNormalization"]


@pytest.mark.parametrize(
    ("model", "function"),
    [
        (norms(), "main"),
        pytest.param(group_norm(), "main", marks=pytest.mark.long),
        (windows(), "main"),
        (sound(), "main"),
        (last_image(), "main"),
        (enlarged(), "main"),
        (newest(), "main"),
        pytest.param(heads(), "main", marks=pytest.mark.long),
        (pooled(), "torch_jit_graph"),
    ],
    ids=[
        "batch-norms",
        "shape-before-opset-15",
        "windows-by-computed-padding",
        "convolution-along-one-axis",
        "padding-that-no-window-reaches",
        "f16-that-is-interpolated",
        "operators-of-opset-23",
        "slice-with-a-computed-end",
        "opset-11-and-a-name-with-a-slash",
    ],
)
def test_what_torch_exports_compiles_and_computes_what_onnx_says(tmp_path: Path, model: Any, function: str) -> None:
    onnx.save(model, tmp_path / "model.onnx")
    path = import_onnx(tmp_path / "model.onnx", tmp_path / "imported", name="model")
    left = ("onnx.Shape", "!torch.vtensor<[?", "onnx.BatchNormalization")
    assert not [word for word in left if word in path.read_text()], "sizes are known, and what norms compute"
    tools, vmfb, result = Tools.find(), tmp_path / "m.vmfb", tmp_path / "y.npy"
    built = process.run([tools.iree_compile, path, *Target.parse("cpu").compile_flags, "-o", vmfb], timeout=120)
    assert built.ok, built.why()
    given = np.random.default_rng(0).standard_normal(SHAPE).astype(np.float32)
    np.save(tmp_path / "x.npy", given)
    words = [f"--module={vmfb}", "--device=local-sync", f"--function={function}", f"--input=@{tmp_path / 'x.npy'}"]
    assert process.run([tools.iree_run_module, *words, f"--output=@{result}"], timeout=60).ok
    (wanted,) = onnx.reference.ReferenceEvaluator(model).run(None, {"x": given})
    np.testing.assert_allclose(np.load(result), wanted, rtol=1e-5, atol=1e-5)
