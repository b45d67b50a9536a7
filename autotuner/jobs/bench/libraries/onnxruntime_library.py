"""ONNX Runtime on the processor: a whole model from its file."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotuner.jobs.bench.libraries.child import Call, Task


class Library:
    """ONNX Runtime's own kernels for processors."""

    title = "ONNX Runtime"

    def __init__(self, device: str, threads: int) -> None:
        if device != "cpu":
            raise RuntimeError("it is timed on the processor only")
        self._runtime = import_module("onnxruntime")
        self.version = str(self._runtime.__version__)
        self._options = self._runtime.SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.inter_op_num_threads = 1
        self._options.log_severity_level = 3

    def model(self, task: Task, arrays: list[Any]) -> Call:
        session = self._runtime.InferenceSession(task["path"], self._options, providers=["CPUExecutionProvider"])
        names = [one.name for one in session.get_inputs()]
        if len(names) != len(arrays):
            raise NotImplementedError(f"its graph takes {len(names)} inputs, not {len(arrays)}")

        def compute(*inputs: Any) -> Any:
            return session.run(None, dict(zip(names, inputs, strict=True)))

        return {"how": "the model as it is", "compute": compute, "inputs": arrays, "fixed": True}
