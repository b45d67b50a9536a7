"""Specs that the real compiler takes, matches and embeds: every problem, named and generic, for both kinds of GPU."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from autotuner.build import Builder
from autotuner.carriers.calls import kernel_calls, preprocess, prove
from autotuner.carriers.carrier import MicrokernelCarrier
from autotuner.carriers.microkernel import spec_mlir
from autotuner.errors import EnvironmentFailure, UsageError
from autotuner.iree.processor import executable_target
from autotuner.iree.tools import Tools
from autotuner.microkernels.instance import Access, Binding, Call, Instance
from autotuner.patterns.forms import Forms
from autotuner.patterns.operations import Reading, forms_of, read_operations
from autotuner.problems import Gemm, Operand, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.dtypes import element_type
from autotuner.problems.render import problem_mlir
from autotuner.system import process
from autotuner.targets import Target
from tests.support.kernels import job_of, spec_flags
from tests.support.patterns import example

GEMM = Gemm.parse(shape="64x96x32")
PADDED = Conv.parse(shape="2x8x8x16", filter="3x3x32", pad="1x1")
PTX = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry kernel() { ret; }
"""
Order = Mapping[int, tuple[int, ...]]


def instance(
    problem: Problem,
    *,
    chip: str = "gfx942",
    order: Order | None = None,
    zeroed: bool = False,
    out_first: bool = False,
    writes: str = "",
    scratch: Mapping[int, bool] | None = None,
    parts: int = 1,
    objects: tuple[Path, ...] = (Path("kernel.hsaco"),),
) -> Instance:
    """A kernel of the right form; what it computes is not asked here."""
    bindings = []
    output = len(problem.operands) - 1
    for number, operand in enumerate(problem.operands):
        axes = (order or {}).get(number, ())
        shape = tuple(operand.shape[axis] for axis in axes) if axes else operand.shape
        written = number == output
        element = element_type(writes) if written and writes else operand.element
        access: Access = "write" if written else "read"
        tensor, many = Operand(shape, element), parts if written else 1
        bindings.append(Binding(number, access, tensor, axes, zeroed=zeroed and written, parts=many))
    if out_first:
        bindings.insert(0, bindings.pop())
    for place, is_zeroed in (scratch or {}).items():
        bindings.insert(place, Binding.scratch(128, zeroed=is_zeroed))
    subgroup = 64 if chip.startswith("gfx") else 32
    return Instance(
        "kernel", "kernel", chip, objects, tuple(bindings), (1, -2, 4294967295), (256, 1, 1), subgroup, 1024, (7, 8, 9)
    )


@dataclass(frozen=True)
class Case:
    """A problem, and what is odd about its kernel."""

    problem: Problem
    kernel: Instance

    @classmethod
    def of(cls, problem: Problem, **odd: Any) -> Case:
        return cls(problem, instance(problem, **odd))


FILTERS_LAST: Order = {1: (3, 0, 1, 2)}
TRANSPOSED: Order = {2: (1, 0)}
CASES = {
    **{
        f"{layout}-{batch}": Case.of(Gemm.parse(shape="64x96x32", layout=layout, batch=batch))
        for layout, batch in (("nn", 1), ("nt", 3), ("tn", 1), ("tt", 3))
    },
    "rounded": Case.of(Gemm.parse(shape="64x96x32", out="f16")),
    "rounded behind an epilogue": Case.of(Gemm.parse(shape="64x96x32", out="f16", epilogue="bias,residual,relu")),
    "i8": Case.of(Gemm.parse(shape="64x96x32", dtype="i8"), zeroed=True),
    "zeroed": Case.of(GEMM, zeroed=True),
    "out first": Case.of(GEMM, out_first=True),
    "other order, zeroed, first": Case.of(GEMM, order=TRANSPOSED, zeroed=True, out_first=True),
    "scratch": Case.of(GEMM, scratch={3: False}),
    "zeroed scratch, and other": Case.of(GEMM, scratch={2: True, 4: False, 5: False}, order=TRANSPOSED),
    "zeroed scratch behind the result": Case.of(GEMM, scratch={3: True}),
    "other type and order": Case.of(GEMM, writes="f16", order=TRANSPOSED, zeroed=True),
    "in parts": Case.of(GEMM, parts=3),
    "in parts, rounded": Case.of(Gemm.parse(shape="64x96x32", out="f16", batch=2), parts=2, writes="f32"),
    "i8 in parts": Case.of(Gemm.parse(shape="64x96x32", dtype="i8"), parts=4),
    "padded": Case.of(PADDED, order=FILTERS_LAST, zeroed=True),
    "channels first": Case.of(replace(PADDED, layout="nchw-fchw")),
    "grouped": Case.of(replace(PADDED, groups=4)),
    "depthwise": Case.of(Conv.parse(shape="2x8x8x16", filter="3x3x16", groups=16, pad="1x1")),
    "attention": Case.of(Attention.parse(shape="1x2x64x64x32")),
    "causal": Case.of(Attention.parse(shape="1x2x64x64x32", causal=True)),
}


def test_every_problem_is_replaced_by_its_kernel(tools: Tools, executor: Executor, tmp_path: Path) -> None:
    flags = Target.parse("gfx942").compile_flags

    def trouble(number: int, case: Case) -> str:
        problem, kernel = case.problem, case.kernel
        call = Call(kernel, problem)
        source, spec = tmp_path / f"{number}.mlir", tmp_path / f"{number}-spec.mlir"
        source.write_text(problem_mlir(problem))
        spec.write_text(spec_mlir([call], header=[problem.name]))
        text = preprocess(tools, source, [*flags, *spec_flags(spec, [kernel])], timeout=120)
        kernels = kernel_calls([call])
        proof = prove(text, kernels)
        return "" if proof.found == (1,) else f"{proof}"

    jobs = {name: executor.submit(trouble, i, case) for i, (name, case) in enumerate(CASES.items())}
    assert {name: job.result() for name, job in jobs.items()} == dict.fromkeys(CASES, "")


def test_a_model_keeps_what_is_not_meant(tools: Tools, tmp_path: Path) -> None:
    """Named and generic products are found; a sum that goes on, a shape of another layout and a pad of ones are not."""
    transposed = replace(GEMM, layout="nt")
    problems: list[Problem] = [GEMM, transposed, PADDED]
    calls = [Call(replace(instance(p), name=p.name, symbol=f"kernel{i}"), p) for i, p in enumerate(problems)]
    source, spec = Path(__file__).with_name("model.mlir"), tmp_path / "spec.mlir"
    spec.write_text(spec_mlir(calls))
    flags = [*Target.parse("gfx942").compile_flags, *spec_flags(spec, [c.instance for c in calls])]
    proof = prove(preprocess(tools, source, flags, timeout=120), kernel_calls(calls))
    assert proof.found == (2, 1, 0)
    assert not proof.applied
    left = [line.split("(")[0] for line in proof.instead]
    assert left == ["linalg.matmul", "linalg.conv_2d_nhwc_hwcf"]
    assert "which starts from hal.dispatch.extern" in proof.instead[0]
    reason = proof.reason(kernel_calls(calls))
    assert reason.startswith(f"{PADDED.name} is not called\nthe program has:\n")
    assert "tensor<2x10x10x16xf16>" in reason


@pytest.fixture(scope="module")
def hsaco(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Any code object for gfx942 will do: one of the compiler's own."""
    folder = tmp_path_factory.mktemp("hsaco")
    source = folder / "problem.mlir"
    source.write_text(problem_mlir(Gemm.parse(shape="16x16x16")))
    dump = f"--iree-hal-dump-executable-binaries-to={folder}"
    flags = [*Target.parse("gfx942").compile_flags, dump]
    assert process.run([tools.iree_compile, source, *flags, "-o", folder / "module.vmfb"], timeout=120).ok
    (found,) = folder.glob("*.hsaco")
    return found


@pytest.mark.parametrize(
    ("case", "target"),
    [("out first", "mi300x"), ("padded", "sm_80"), ("attention", "gfx942"), ("zeroed scratch, and other", "a100")],
)
def test_the_object_is_in_the_module(case: str, target: str, builder: Builder, hsaco: Path, tmp_path: Path) -> None:
    chip = Target.parse(target).arch
    ptx = tmp_path / "kernel.ptx"
    ptx.write_text(PTX)
    problem, kernel = CASES[case].problem, CASES[case].kernel
    path = hsaco if chip == "gfx942" else ptx
    kernel = replace(kernel, chip=chip, objects=(path,), subgroup_size=64 if chip == "gfx942" else 32)
    build = builder.build(job_of(Call(kernel, problem), Target.parse(target).compile_flags))
    assert build.ok, build.stderr
    assert path.read_bytes().rstrip()[:400] in build.vmfb.read_bytes()


@pytest.mark.parametrize(
    ("case", "repeatable"), [("zeroed", False), ("scratch", True), ("zeroed scratch, and other", True)]
)
def test_what_leaves_its_scratch_as_it_was_may_be_repeated_and_what_adds_to_its_result_not(
    case: str, repeatable: bool, tmp_path: Path
) -> None:
    path = tmp_path / "kernel.hsaco"
    path.write_bytes(b"")
    kernel = replace(CASES[case].kernel, objects=(path,))
    assert MicrokernelCarrier((Call(kernel, CASES[case].problem),), "").carried().repeatable is repeatable


def stream_of(case: Case, tools: Tools, folder: Path, program: str | None = None) -> str:
    """A program with the kernel, for an NVIDIA GPU, as it is submitted; else the problem's own."""
    ptx = folder / "kernel.ptx"
    ptx.write_text(PTX)
    kernel = replace(case.kernel, chip="sm_80", objects=(ptx,), subgroup_size=32)
    source, spec, out = (folder / name for name in ("problem.mlir", "spec.mlir", "stream.mlir"))
    source.write_text(program or problem_mlir(case.problem))
    spec.write_text(spec_mlir([Call(kernel, case.problem)]))
    flags = [*Target.parse("sm_80").compile_flags, *spec_flags(spec, [kernel]), "--compile-to=stream"]
    done = process.run([tools.iree_compile, source, *flags, "-o", out], timeout=120)
    assert done.ok, done.stderr
    return out.read_text()


def test_scratch_is_zeroed_in_the_submission_of_its_call(tools: Tools, tmp_path: Path) -> None:
    """A constant would be copied by one of its own: so a call took two."""
    text = stream_of(CASES["zeroed scratch, and other"], tools, tmp_path)
    assert (text.count("stream.cmd.execute"), text.count("stream.cmd.fill")) == (1, 1)


def test_a_model_with_kernels_that_have_scratch_is_submitted_at_once(tools: Tools, tmp_path: Path) -> None:
    """Each part of it would have buffers and a submission of its own: on an H200 some 100 microseconds."""
    program = Path(__file__).with_name("twice.mlir").read_text()
    text = stream_of(CASES["zeroed scratch behind the result"], tools, tmp_path, program)
    assert text.count("stream.cmd.dispatch @extern") == 2
    assert (text.count("stream.cmd.execute"), text.count("stream.cmd.fill")) == (1, 2)


def test_parts_are_added_up_and_rounded_in_one_dispatch(tools: Tools, tmp_path: Path) -> None:
    text = stream_of(CASES["in parts, rounded"], tools, tmp_path)
    assert [text.count(f"stream.cmd.{word} ") for word in ("dispatch", "copy", "fill")] == [2, 0, 0]


def test_a_processors_target_is_the_compilers_own(builder: Builder) -> None:
    cpu = Target.parse("cpu")
    text = builder.inspect(problem_mlir(Gemm.parse(shape="16x16x16", dtype="f32")), cpu.compile_flags, timeout=120)
    assert executable_target(text).startswith('#hal.executable.target<"llvm-cpu", "embedded-elf-')
    with pytest.raises(EnvironmentFailure, match="no executable"):
        executable_target("module {}")
    with pytest.raises(ValueError, match="executable target"):
        spec_mlir([Call(instance(GEMM, chip="x86_64"), GEMM)])


def test_flags_name_every_folder_once(tmp_path: Path) -> None:
    one = instance(GEMM, objects=(tmp_path / "a" / "x.o", tmp_path / "a" / "y.o"))
    two = instance(GEMM, objects=(tmp_path / "b" / "z.o",))
    assert spec_flags("spec.mlir", [one, two, one]) == (
        "--iree-preprocessing-transform-spec-filename=spec.mlir",
        f"--iree-hal-executable-object-search-path={tmp_path / 'a'}",
        f"--iree-hal-executable-object-search-path={tmp_path / 'b'}",
    )


def test_an_object_whose_name_cannot_stand_in_a_spec_is_refused() -> None:
    with pytest.raises(UsageError, match="cannot stand in a spec"):
        spec_mlir([Call(replace(instance(GEMM), objects=(Path('a"b.o'),)), GEMM)])


def test_a_header_line_cannot_leave_its_comment() -> None:
    with pytest.raises(ValueError, match="line break"):
        spec_mlir([Call(instance(GEMM), GEMM)], header=["a\nmodule {}"])


@pytest.fixture(scope="module")
def pieces(tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Reading]]:
    """A program of products with epilogues, and what is read of it."""
    source = tmp_path_factory.mktemp("pieces") / "model.mlir"
    source.write_text(example("pieces"))
    text = preprocess(tools, source, Target.parse("gfx942").compile_flags, timeout=120)
    return source, [operation.readings[0] for operation in read_operations(text)]


def preprocessed(source: Path, calls: list[Call], forms: list[Forms], tools: Tools, spec: Path) -> str:
    spec.write_text(spec_mlir(calls, forms=forms))
    flags = [*Target.parse("gfx942").compile_flags, *spec_flags(spec, [call.instance for call in calls])]
    return preprocess(tools, source, flags, timeout=120)


def test_an_operation_and_its_epilogue_are_replaced_as_one_piece(
    pieces: tuple[Path, list[Reading]], tools: Tools, tmp_path: Path
) -> None:
    """Its forms are the program's own; of the piece nothing is left that the kernel without an epilogue would take."""
    source, readings = pieces
    ends = ["_bias_relu", "_bias_clip0to6", "_bias_clipm1to6", "_bias_silu", "_bias_residual", ""]
    assert [r.problem.name for r in readings] == [f"gemm_64x96x32_f32_f32_nn{end}" for end in ends]
    kernels = [replace(instance(r.problem), symbol=f"kernel{i}") for i, r in enumerate(readings)]
    calls = [Call(kernel, r.problem) for kernel, r in zip(kernels, readings, strict=True)]
    text = preprocessed(source, calls, [forms_of([one]) for one in readings], tools, tmp_path / "spec.mlir")
    proof = prove(text, kernel_calls(calls))
    assert proof.found == (1, 1, 1, 1, 1, 1)
    assert not proof.instead
    assert "arith.select" not in text
    assert "math.exp" not in text


def test_constants_are_sunk_only_into_what_a_spec_looks_for(
    pieces: tuple[Path, list[Reading]], tools: Tools, tmp_path: Path
) -> None:
    """Each takes the compiler long in a large program, and most are none of a kernel's."""
    (source, readings), spec = pieces, tmp_path / "spec.mlir"
    sunk = [forms_of([reading]).sunk for reading in readings]
    compared, silu = ("arith.cmpf", "arith.select"), ("arith.addf", "arith.divf")
    assert sunk == [compared, (), compared, silu, (), ()]
    calls = [Call(instance(readings[0].problem), readings[0].problem)]
    text = preprocessed(source, calls, [forms_of(readings[:1])], tools, spec)
    matched = [line for line in spec.read_text().splitlines() if "match.operation_name %user" in line]
    assert [line.partition("[")[2].partition("]")[0] for line in matched] == [
        '"arith.cmpf", "arith.select"', '"arith.cmpf", "arith.select"', '"arith.select"',
    ]  # fmt: skip
    assert prove(text, kernel_calls(calls)).found == (1,)
