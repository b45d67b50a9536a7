"""Results in parts of the depth: a kernel in C that writes three of them, which IREE adds up, on this processor."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotuner.build import Builder, BuildJob
from autotuner.carriers.calls import kernel_calls
from autotuner.carriers.microkernel import SPEC_FLAG, executable_target, object_flags, spec_mlir
from autotuner.devices.process import ProcessDevice
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.measure.check import Checker, Data
from autotuner.microkernels.loader import load
from autotuner.microkernels.manifest import DoesNotFitError, Manifest
from autotuner.microkernels.variants import Variants
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.targets import Target
from tests.support.native import HOST

MANIFEST = f"""
operation = "gemm"
dtypes = ["f32"]
layouts = ["nn"]
symbol = "mine"
constants = ["m", "n", "k", "many"]
workgroup_size = [1]
grid = ["many"]
[parameters]
many = [3, 1, 65]
[[bindings]]
operand = "lhs"
access = "read"
[[bindings]]
operand = "rhs"
access = "read"
[[bindings]]
operand = "out"
access = "write"
element = "f32"
parts = "many"
[provider]
kind = "c"
source = "mine.c"
chips = ["{HOST}"]
"""
SOURCE = """
void mine(const float *a, const float *b, float *c, int m, int n, int k, int many, unsigned long part) {
  for (int i = 0; i < m; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0.0f;
      for (int d = (int)part; d < k; d += many) sum += a[i * k + d] * b[d * n + j];
      c[((long)part * m + i) * n + j] = sum;
    }
}
"""
PROBLEM = Gemm.parse(shape="12x20x48", dtype="f32")


def written(folder: Path, text: str = MANIFEST) -> Manifest:
    (folder / "mine").mkdir()
    (folder / "mine" / "mine.c").write_text(SOURCE)
    (folder / "mine" / "microkernel.toml").write_text(text)
    return load(folder / "mine" / "microkernel.toml")


@pytest.mark.parametrize("many", [3, 1])
def test_what_is_added_up_is_the_product(many: int, builder: Builder, tools: Tools, tmp_path: Path) -> None:
    flags = Target.parse("cpu").compile_flags
    made_for = executable_target(builder.inspect(problem_mlir(PROBLEM), flags, timeout=120))
    manifest = written(tmp_path)
    variants = Variants.of(
        manifest, PROBLEM, HOST, workspace=tmp_path, executable_target=made_for, first={"many": many}
    )
    call = variants.call(variants.space[0])
    assert [binding.parts for binding in call.instance.bindings] == [1, 1, many]
    job = BuildJob(
        problem_mlir(PROBLEM),
        (*flags, *object_flags(call.instance.objects)),
        timeout=120,
        spec=spec_mlir([call], target=made_for),
        spec_flag=SPEC_FLAG,
        kernels=kernel_calls([call]),
    )
    build = builder.build(job)
    assert build.ok, build.stderr
    data = Data.write(PROBLEM, tmp_path / "data", seed=3)
    checked = Checker(ProcessDevice(tools, "local-task", data.folder), data, timeout=120).check(build.vmfb)
    assert checked.ok, checked.detail


def test_too_many_parts_do_not_fit(tmp_path: Path) -> None:
    manifest = written(tmp_path)
    with pytest.raises(DoesNotFitError, match="results in 65 parts"):
        manifest.bind(PROBLEM, HOST, objects=(tmp_path / "mine" / "mine.c",), parameters={"many": 65})


def test_an_input_has_no_parts(tmp_path: Path) -> None:
    text = MANIFEST.replace('operand = "lhs"\naccess = "read"', 'operand = "lhs"\naccess = "read"\nparts = "many"')
    with pytest.raises(UsageError, match=r"bindings\[0\].parts: no such key"):
        written(tmp_path, text)
