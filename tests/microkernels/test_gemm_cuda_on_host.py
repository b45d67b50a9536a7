"""The product for Hopper on the host: its own source, with plain C++ for the two headers that speak to the chip.

Its threads are fibers; its barriers, descriptors, swizzled tiles and clusters are followed word by word, so that a
wrong result, a copy that begins behind the end of a matrix and a thread that waits for ever show; and what is read
before it has come, or written over before it was read, as copies or products may be done as late as can be.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from autotuner.measure.check import Check, compare
from autotuner.microkernels.instance import shipped_folder
from autotuner.microkernels.loader import FILE, load
from autotuner.problems import Array, Gemm
from autotuner.problems.operations import OPERATIONS
from autotuner.system import process
from tests.microkernels.test_shipped import f8
from tests.support.kernels import request

FOLDER = shipped_folder() / "gemm_cuda"
MANIFEST = load(FOLDER / FILE, OPERATIONS)
HOST = Path(__file__).with_name("on_host")
COMPILER = shutil.which("c++")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: apt-get install g++")


@dataclass(frozen=True)
class OnHost:
    """A variant as a program."""

    program: Path
    problem: Gemm
    parts: int
    pitches: tuple[int, int]
    """From row to row of the two operands."""

    @classmethod
    def build(cls, problem: Gemm, parameters: dict[str, int], folder: Path, **instead: str) -> OnHost:
        """`instead`: texts of the kernel that are to be others."""
        wanted = request(MANIFEST, problem, "sm_90", dict.fromkeys(MANIFEST.parameters, 0) | parameters)
        numbers = wanted.numbers
        launch = {"GRID": MANIFEST.grid[0].evaluate(numbers), "LOCAL_MEMORY": MANIFEST.local_memory.evaluate(numbers)}
        sources = {path.name: path.read_text() for home in (FOLDER, HOST) for path in home.iterdir()}
        for name, text in sources.items():
            for old, new in instead.items():
                text = text.replace(old, new)
            (folder / name).write_text(text)
        defines = [f"-D{name}={value}" for name, value in (wanted.macros() | launch).items()]
        assert COMPILER is not None
        options = ["-std=c++17", "-O1", "-U_FORTIFY_SOURCE", "-w"]  # fibers jump from stack to stack
        made = process.run([COMPILER, *options, *defines, folder / "run.cpp", "-o", folder / "run"], timeout=300)
        assert made.ok, made.why()
        return cls(folder / "run", problem, numbers["parts"], (numbers["lhs_pitch"], numbers["rhs_pitch"]))

    def run(self, inputs: tuple[Array, ...], *, late: str) -> process.Finished:
        files = [self.program.with_name(f"operand{number}") for number in range(len(inputs))]
        rows = [apart(array, pitch) for array, pitch in zip(inputs[:2], self.pitches, strict=True)]
        for file, array in zip(files, [*rows, *inputs[2:]], strict=True):
            array.tofile(file)
        return process.run([self.program, late, self.result, self._bytes, *files], timeout=600)

    @property
    def result(self) -> Path:
        return self.program.with_name("result")

    @property
    def _bytes(self) -> str:
        out = self.problem.operands[-1]
        return str(self.parts * int(np.prod(out.shape)) * (4 if self.parts > 1 else out.element.bytes))

    def check(self, late: str) -> Check:
        inputs = self.problem.inputs(0)
        done = self.run(inputs, late=late)
        assert done.ok, done.why()
        out = self.problem.operands[-1]
        raw = np.fromfile(self.result, np.float32 if self.parts > 1 else out.element.numpy)
        summed = raw.reshape(self.parts, *out.shape).sum(axis=0, dtype=np.float32)
        reference = self.problem.reference(inputs)
        return compare(summed.astype(out.element.numpy), reference, self.problem.bound(inputs, reference))


def apart(array: Array, pitch: int) -> Array:
    """With so many numbers from row to row. What lies between them is no number: nobody may count on zeros."""
    row = array.shape[-1]
    if row >= pitch:  # of f8 two numbers are counted as one
        return array
    between = np.full((*array.shape[:-1], pitch - row), np.nan, array.dtype)
    return np.concatenate([array, between], axis=-1)


_FIRST = ("rows and columns shared", "parts", "thin, gated", "odd, transposed, in parts", "f8, thin")
"""One of each way to share the work: the others take the same ways with other tiles."""
CASES: dict[str, tuple[Gemm, dict[str, int]]] = {
    # A workgroup has one tile or some, whose last boxes would begin behind the end; several share rows and columns.
    "some tiles": (
        Gemm.parse(shape="1000x1032x264", out="f16", layout="nt", epilogue="bias,relu"),
        {"bm": 64, "bn": 96},
    ),
    "transposed, in a batch": (
        Gemm.parse(shape="200x520x512", batch=2, layout="tt", epilogue="bias,residual,silu"),
        {"bm": 64, "bn": 128},
    ),
    "in a batch, with a depth that is no whole step": (
        Gemm.parse(shape="200x520x96", batch=3, layout="nt", out="f16"),
        {"bm": 64, "bn": 128},
    ),
    "rows and columns shared": (
        Gemm.parse(shape="512x1264x264", layout="nt", epilogue="bias"),
        {"bm": 64, "bn": 160, "both": 7},
    ),
    # The depth of a tile, in parts.
    "parts": (
        Gemm.parse(shape="384x520x2048", dtype="bf16", out="bf16", layout="tn"),
        {"bm": 128, "bn": 192, "fill": 2},
    ),
    # Few rows, by a cluster.
    "thin, gated": (
        Gemm.parse(shape="44x1024x1024", out="f16", epilogue="silu,gated"),
        {"bm": 128, "bn": 48, "fill": 1, "turned": 1},
    ),
    # Rows that are no whole 16 bytes: of what is read, and of the result.
    "odd": (Gemm.parse(shape="333x777x1111", out="f16", epilogue="relu"), {"bm": 128, "bn": 64}),
    "odd, transposed, in parts": (Gemm.parse(shape="205x259x2051", layout="tn"), {"bm": 128, "bn": 64, "fill": 2}),
    "odd, staged": (Gemm.parse(shape="203x390x1030", layout="tt"), {"bm": 128, "bn": 64, "fill": 1}),
    "odd, thin": (Gemm.parse(shape="17x779x1031", layout="nt"), {"bm": 64, "bn": 32, "fill": 1, "turned": 1}),
    # Two numbers in the place of one.
    "f8, thin": (f8("16x1024x2048", epilogue="bias"), {"bm": 64, "bn": 16, "fill": 1, "turned": 1}),
}


@pytest.mark.parametrize(
    ("problem", "parameters"),
    [pytest.param(*case, id=name, marks=[pytest.mark.long] * (name not in _FIRST)) for name, case in CASES.items()],
)
def test_it_computes_what_the_problem_asks_for(problem: Gemm, parameters: dict[str, int], tmp_path: Path) -> None:
    built = OnHost.build(problem, parameters, tmp_path)
    assert (built.check("copies").failure, built.check("products").failure) == (None, None)


THIN = Gemm.parse(shape="100x1024x1024", epilogue="bias"), {"bm": 192, "bn": 112, "fill": 1, "turned": 1}
DEEP = Gemm.parse(shape="512x1024x1024", layout="nt"), {"bm": 128, "bn": 128}
BROKEN: dict[str, tuple[tuple[Gemm, dict[str, int]], str, str, str]] = {
    "begins behind the end": (THIN, "BEYOND && at >= LENGTH ? 0 : at", "at", "begins behind the end"),
    "copied for others": (
        CASES["rows and columns shared"],
        *("s % SHARE != turn", "s % SHARE == turn", "the kernel hangs"),
    ),
    "a step given back too early": (
        DEEP,
        "if (s > 0 && t < MATES) arrive(before, all.mate(t))",
        "if (t < 1) arrive(full + 8, t)",
        "",
    ),
}


@pytest.mark.parametrize(("case", "old", "new", "said"), BROKEN.values(), ids=BROKEN)
def test_what_is_wrong_shows(case: tuple[Gemm, dict[str, int]], old: str, new: str, said: str, tmp_path: Path) -> None:
    """`said`: how the run ends; empty: with a wrong result."""
    assert any(old in path.read_text() for path in FOLDER.iterdir())
    problem, parameters = case
    broken = OnHost.build(problem, parameters, tmp_path, **{old: new})
    if said:
        done = broken.run(problem.inputs(0), late="products")
        assert not done.ok
        assert said in done.stderr
    else:
        assert broken.check("products").failure == "wrong-result"
