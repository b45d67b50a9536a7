"""Makes one network in a process of its own, and times a library on it: `python -m benchmarks.zoo.making NAME …`.

It runs in the Python that has torch, which needs nothing of autotune. The answer is a line of JSON: the file, its
inputs where some of their sizes are free, the library's microseconds; or why there is none.
"""

from __future__ import annotations

import argparse
import json
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.zoo.nets import NETS, Net

_OPSET = 17
_NAMES = {"torch.int64": "i64", "torch.float32": "f32", "torch.float16": "f16", "torch.bfloat16": "bf16"}


def answer(net: Net, folder: Path, *, on_host: bool, threads: int) -> dict[str, Any]:
    if net.how in ("stablehlo", "mlir"):
        from benchmarks.zoo.texts import write

        return {"file": str(write(net, folder / f"{net.name}.mlir", net.element(on_host=on_host)))}
    try:
        torch = import_module("torch")
        made = _made(net, torch, on_host=on_host)
        file = folder / f"{net.name}-{net.element(on_host=on_host)}.{'mlir' if net.how == 'turbine' else 'onnx'}"
        if not file.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            part = folder / f"making-{file.name}"
            _export(net, torch, made, part)
            part.replace(file)
    except ModuleNotFoundError as error:
        return {"not_made": f"no {error.name}" if error.name else _one_line(error)}
    except Exception as error:  # Whatever an exporter raises is this network's own end.
        return {"not_made": f"{net.how} does not export it: {_one_line(error)}"}
    found = {"file": str(file), "inputs": _inputs(made)}
    try:
        return found | _timed(net, torch, made, file, on_host=on_host, threads=threads)
    except Exception as error:
        return found | {"library_fails": _one_line(error)}


def _made(net: Net, torch: Any, *, on_host: bool) -> Any:
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)
    module, _, function = net.make.partition(".")
    with torch.no_grad():
        made = getattr(import_module(f"benchmarks.zoo.{module}"), function)(**net.options)
        return made.of_type(net.element(on_host=on_host))


def _export(net: Net, torch: Any, made: Any, path: Path) -> None:
    with torch.no_grad():
        if net.how == "turbine":
            import_module("iree.turbine.aot").export(made.module, *made.inputs).save_mlir(str(path))
        elif net.how == "dynamo":
            axes = {number: dict(axes) for number, axes in made.dynamic.items()}
            shapes = tuple(axes.get(number) for number in range(len(made.inputs))) if axes else None
            options = {"dynamo": True, "external_data": False, "dynamic_shapes": shapes}
            torch.onnx.export(made.module, made.inputs, str(path), **options)
        else:
            _older(torch, made, path)
            if net.how != "onnx":
                _quantize(net.how, made, path)


def _older(torch: Any, made: Any, path: Path) -> None:
    names = [f"input{number}" for number in range(len(made.inputs))]
    axes = {f"input{number}": dict(axes) for number, axes in made.dynamic.items()}
    options = {"opset_version": _OPSET, "dynamo": False, "input_names": names, "dynamic_axes": axes}
    torch.onnx.export(made.module, made.inputs, str(path), **options)


def _quantize(how: str, made: Any, path: Path) -> None:
    """By what ONNX Runtime has for it; the network's own inputs say how large numbers are."""
    tools, plain = import_module("onnxruntime.quantization"), path.with_name(f"plain-{path.name}")
    path.replace(plain)
    try:
        if how == "dynamic-i8":
            tools.quantize_dynamic(str(plain), str(path))
            return
        calls = [{f"input{number}": one.numpy() for number, one in enumerate(made.inputs)}]

        class Reader(tools.CalibrationDataReader):  # type: ignore[name-defined]
            def get_next(self) -> Any:
                return calls.pop() if calls else None

        tools.quantize_static(str(plain), str(path), Reader(), per_channel=True)
    finally:
        plain.unlink()


def _inputs(made: Any) -> list[str]:
    """The shapes, where the file leaves some open."""
    if not made.dynamic:
        return []
    return ["x".join([*map(str, one.shape), _NAMES[str(one.dtype)]]) for one in made.inputs]


def _timed(net: Net, torch: Any, made: Any, file: Path, *, on_host: bool, threads: int) -> dict[str, Any]:
    from benchmarks.zoo import library

    if not on_host:
        if net.how in ("qdq", "dynamic-i8"):
            return {}
        return {"library": "torch", "library_us": library.torch_graph_us(torch, made)}
    given = file
    if file.suffix != ".onnx":
        given = file.with_suffix(".onnx")
        if not given.is_file():
            _older(torch, made, given)
    return {"library": "ONNX Runtime", "library_us": library.onnx_runtime_us(given, made.inputs, threads)}


def _one_line(error: Exception) -> str:
    words = " ".join(str(error).split()) or type(error).__name__
    return words if len(words) <= 300 else f"{words[:300]} …"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gpu", action="store_true", help="for a GPU: f16, beside torch on it")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    net = next(net for net in NETS if net.name == given.name)
    found = answer(net, given.folder.absolute(), on_host=not given.gpu, threads=given.threads)
    print(f"\n{json.dumps(found)}")


if __name__ == "__main__":
    main()
