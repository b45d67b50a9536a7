"""Is a spec fit for use: flagfile, objects, this machine; and what of it applies to a program."""

from __future__ import annotations

import io
import json
import platform
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from autotuner.carriers.carrier import FileHeader, VariantCarrier
from autotuner.carriers.flagfile import flagfile_text
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.microkernels.variants import Kernel, find_variants
from autotuner.problems import Gemm, Problem
from autotuner.problems.conv import Conv
from autotuner.problems.render import problem_mlir
from autotuner.specfiles.applied import applied
from autotuner.specfiles.check import Report, check, check_objects
from autotuner.specfiles.entries import read_spec
from autotuner.specfiles.merge import merge
from autotuner.targets import Target
from autotuner.tuning.plan import Plan
from tests.support.spec_files import FRAME, TIMED, Answer, make_spec

MakePlan = Callable[[Problem, str], Plan]
SMALL, OTHER = Gemm.parse(shape="64x32x48", dtype="f32"), Gemm.parse(shape="96x64x128", dtype="f32")


@dataclass(frozen=True)
class CarriedConfig:
    """A kernel's spec, what carries it, and what it calls."""

    spec: str
    flag: str
    objects: Sequence[Path]
    flags: Sequence[str]


def errors(report: Report) -> list[str]:
    return [finding.text for finding in report.findings if finding.level == "error"]


def ship(path: Path, text: str, flags: list[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.with_suffix(".flags").write_text(flagfile_text(flags))
    return path


@pytest.fixture
def shipped(make_plan: MakePlan, tmp_path: Path) -> Path:
    plan = make_plan(SMALL, "plain")
    path = tmp_path / "specs" / "small.mlir"
    return ship(path, make_spec(plan), [*plan.target.compile_flags, f"{plan.target.spec_flag}={path}"])


def test_what_was_shipped_is_sound_where_it_lies(shipped: Path, tools: Tools) -> None:
    report = check(shipped, tools=tools)
    assert report.sound, report.findings
    assert report.uses is None


def test_an_onnx_file_is_not_what_a_spec_is_checked_in(shipped: Path, tools: Tools, tmp_path: Path) -> None:
    (tmp_path / "net.onnx").touch()
    with pytest.raises(UsageError, match=r"net\.onnx is an ONNX file: a spec is checked in what IREE imports\."):
        check(shipped, tools=tools, model=tmp_path / "net.onnx")


def lacking(report: Report) -> list[str]:
    """What its flagfile should have."""
    return [line for finding in report.findings for line in finding.lines]


def test_a_set_that_was_copied_is_told_what_its_flagfile_must_say(shipped: Path, tools: Tools, tmp_path: Path) -> None:
    shutil.copytree(shipped.parent, tmp_path / "else where")
    copied = tmp_path / "else where" / shipped.name
    shutil.rmtree(shipped.parent)
    report = check(copied, tools=tools)
    *others, gone = copied.with_suffix(".flags").read_text().splitlines()
    assert f"{gone} names what is not there" in errors(report)[0]
    copied.with_suffix(".flags").write_text("\n".join([*others, *lacking(report)]) + "\n")
    assert check(copied, tools=tools).sound


def test_cuda_needs_another_flag_than_the_others(make_plan: MakePlan, tools: Tools, tmp_path: Path) -> None:
    plan = make_plan(Gemm.parse(shape="256x128x64"), "sm_80")
    path = tmp_path / "spec.mlir"
    flags, right = list(plan.target.compile_flags), f"--iree-codegen-transform-dialect-library={path}"
    text = make_spec(plan, provenance=replace(TIMED, target="sm_80"))
    ship(path, text, [*flags, f"--iree-codegen-tuning-spec-path={path}"])
    assert lacking(check(path, tools=tools)) == [right]
    ship(path, text, [*flags, right])
    assert check(path, tools=tools).sound
    assert lacking(check(path, tools=tools, target=Target.parse("sm_89"))) == ["--iree-cuda-target=sm_89"]
    ship(path, text, ["--iree-hal-target-device=hip", "--iree-rocm-target=gfx942", right])
    assert lacking(check(path, tools=tools)) == list(plan.target.flags)


def test_entries_are_counted_in_a_program_and_the_unused_are_named(
    make_plan: MakePlan, tools: Tools, tmp_path: Path, autotune: Callable[..., Answer]
) -> None:
    plans = [make_plan(problem, "plain") for problem in (SMALL, OTHER)]
    merged = merge([make_spec(plan) for plan in plans], tools=tools)
    path = tmp_path / "spec.mlir"
    path.write_text(merged.text)
    model = tmp_path / "model.mlir"
    model.write_text(problem_mlir(OTHER))
    answer = autotune("spec", "check", path, model, "--json")
    assert answer.code == 0
    uses = json.loads(answer.out)["applied"]
    assert [(use["name"], use["dispatches"], use["calls"], use["lost"]) for use in uses] == [
        (f"match_{SMALL.name}", 0, 0, 0),
        (f"match_{OTHER.name}", 1, 1, 0),
    ]
    answer = autotune("spec", "check", path, model)
    assert f"never matches: match_{SMALL.name}" in answer.out
    model.write_text(problem_mlir(Gemm.parse(shape="32x32x32", dtype="f32")))
    assert autotune("spec", "check", path, model).code == 3
    model.write_text("nonsense")
    answer = autotune("spec", "check", path, model)
    assert answer.code == 2
    assert "not a program that IREE reads" in answer.err
    assert autotune("spec", "check", path, tmp_path / "none.mlir").code == 2


def test_calls_of_one_dispatch_are_counted(make_plan: MakePlan, tools: Tools, tmp_path: Path) -> None:
    """Twice the same product: the compiler makes one dispatch of it and calls it twice."""
    plan = make_plan(Gemm.parse(shape="48x48x48", dtype="f32"), "plain")
    model = tmp_path / "model.mlir"
    tensor = "tensor<48x48xf32>"
    model.write_text(
        f"""func.func @main(%a: {tensor}, %b: {tensor}) -> {tensor} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {tensor}
  %fill = linalg.fill ins(%zero : f32) outs(%empty : {tensor}) -> {tensor}
  %once = linalg.matmul ins(%a, %b : {tensor}, {tensor}) outs(%fill : {tensor}) -> {tensor}
  %twice = linalg.matmul ins(%once, %b : {tensor}, {tensor}) outs(%fill : {tensor}) -> {tensor}
  return %twice : {tensor}
}}
"""
    )
    (use,) = applied(make_spec(plan), model, plan.target.compile_flags, tools)
    assert (use.dispatches, use.calls, use.lost, use.ops) == (1, 2, 0, ("linalg.matmul",))


def test_specs_of_others_are_instrumented_as_well(tools: Tools, tmp_path: Path, make_plan: MakePlan) -> None:
    """One action for several matchers, no marker, no provenance, no flagfile."""
    plans = [make_plan(problem, "gfx942") for problem in (Gemm.parse(shape=s) for s in ("256x128x64", "128x256x64"))]
    text = merge([make_spec(plan, provenance=None) for plan in plans], tools=tools).text
    text = "\n".join(line for line in text.splitlines() if "__autotune_applied__" not in line)
    model = tmp_path / "model.mlir"
    model.write_text(problem_mlir(plans[1].problem))
    uses = applied(text, model, Target.parse("gfx942").compile_flags, tools)
    assert [use.dispatches for use in uses] == [0, 1]


def test_a_configuration_that_a_later_pass_drops_is_called_lost(
    make_plan: MakePlan, tools: Tools, tmp_path: Path
) -> None:
    """A convolution of one image on a processor: a spec matches it, and its lowering_config does not arrive."""
    plan = make_plan(Conv.parse(shape="1x12x12x16", filter="3x3x32", pad="1x1", dtype="f32"), "plain")
    model = tmp_path / "model.mlir"
    model.write_text(plan.source)
    body = """%filter = transform.get_operand %op[1] : (!transform.any_op) -> !transform.any_value
    transform.iree.match.cast_compatible_type %filter = tensor<3x3x16x32xf32> : !transform.any_value"""
    config = "vector_common_parallel = [1, 4, 8, 0, 0, 0], vector_reduction = [0, 0, 0, 1, 1, 4]"
    text = FRAME.replace("HELPER", "").replace("BODY", body)
    text = text.replace("vector_common_parallel = [8, 8, 0], vector_reduction = [0, 0, 4]", config)
    text = text.replace("DoubleTilingExpert", "ConvTileAndDecomposeExpert")
    (use,) = applied(text, model, plan.target.compile_flags, tools)
    assert (use.dispatches, use.lost) == (0, 1)
    assert use.matched


def test_a_substituted_executable_applies_to_its_program_only(
    make_plan: MakePlan, tools: Tools, tmp_path: Path
) -> None:
    plan = make_plan(Conv.parse(shape="1x12x12x16", filter="3x3x32", pad="1x1", dtype="f32"), "plain")
    candidate = plan.candidate(next(c for c in plan.first if c["route"] == "plain"), id="c")
    text = candidate.carrier.carried(FileHeader(provenance=TIMED)).spec or ""
    model = tmp_path / "model.mlir"
    model.write_text(plan.source)
    (use,) = applied(text, model, plan.target.compile_flags, tools)
    assert (use.dispatches, use.calls, use.lost) == (1, 1, 0)
    model.write_text(problem_mlir(SMALL))
    (use,) = applied(text, model, plan.target.compile_flags, tools)
    assert not use.matched


# --- microkernels ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(make_plan: MakePlan, tmp_path_factory: pytest.TempPathFactory) -> CarriedConfig:
    """The C kernel that comes with autotune, and the flags of the processor."""
    problem = Gemm.parse(shape="64x64x64", dtype="f32")
    plan = make_plan(problem, "plain")
    workspace = tmp_path_factory.mktemp("kernel")
    variants, _ = find_variants([Kernel("sgemm_c")], problem, chip=plan.target.kernel_chip, workspace=workspace)
    plan = plan.with_kernels(variants, alone=True)
    carrier = plan.candidate(plan.first[0], id="c").carrier
    assert isinstance(carrier, VariantCarrier)
    (instance,) = (call.instance for call in carrier.built.calls)
    carried = carrier.carried(FileHeader(provenance=TIMED))
    return CarriedConfig(carried.spec or "", carried.spec_flag, instance.objects, plan.target.compile_flags)


@pytest.fixture
def kernel(made: CarriedConfig, tmp_path: Path) -> Path:
    """It, shipped as `ship` does it."""
    path = tmp_path / "shipped" / "kernel.mlir"
    folder = path.with_suffix(".objects")
    folder.mkdir(parents=True)
    for source in made.objects:
        shutil.copy(source, folder)
    return ship(
        path, made.spec, [*made.flags, f"{made.flag}={path}", f"--iree-hal-executable-object-search-path={folder}"]
    )


def test_objects_are_verified_by_hash_and_machine(kernel: Path, tools: Tools, tmp_path: Path) -> None:
    report = check(kernel, tools=tools)
    assert report.sound, report.findings
    assert any(f"for {platform.machine()}, as shipped" in finding.text for finding in report.findings)
    model = tmp_path / "model.mlir"
    model.write_text(problem_mlir(Gemm.parse(shape="64x64x64", dtype="f32")))
    report = check(kernel, tools=tools, model=model)
    assert [use.dispatches for use in report.uses or ()] == [1]
    model.write_text(problem_mlir(SMALL))
    assert not check(kernel, tools=tools, model=model).matches
    (object_file,) = kernel.with_suffix(".objects").iterdir()
    whole = object_file.read_bytes()
    object_file.write_bytes(whole + b"x")
    assert "another one than was shipped" in errors(check(kernel, tools=tools))[0]
    object_file.unlink()
    assert "is not in" in errors(check(kernel, tools=tools))[0]


def finding_for(there: str | None, objects: Path, spec: Path) -> str:
    """What is said of an object where such a chip is: IREE compiles for sm_80, whatever later one it is."""
    target = Target.parse("sm_80")
    target = replace(target, backend=replace(target.backend, chip_there=lambda _: there))
    file = read_spec(spec.read_text())
    file = replace(file, entries=(replace(file.entries[0], objects=(objects.name,)),), hashes={})
    (finding,) = check_objects(file, objects.parent, target)
    return finding.level


@pytest.mark.parametrize(("there", "level"), [("sm_90", "ok"), ("sm_80", "error"), ("sm_100", "error"), (None, "note")])
def test_a_kernel_of_a_later_chip_is_what_the_device_there_can_run(
    there: str | None, level: str, kernel: Path, tmp_path: Path
) -> None:
    ptx = tmp_path / "kernel.ptx"
    ptx.write_text(".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry kernel()\n{\nret;\n}\n")
    assert finding_for(there, ptx, kernel) == level


def test_an_object_whose_names_are_visible_is_an_error_where_its_call_crashes(kernel: Path) -> None:
    (object_file,) = kernel.with_suffix(".objects").iterdir()
    whole = bytearray(object_file.read_bytes())
    table = ELFFile(io.BytesIO(whole)).get_section_by_name(".symtab")
    assert isinstance(table, SymbolTableSection)
    (place,) = [i for i, symbol in enumerate(table.iter_symbols()) if symbol.name.startswith("sgemm_")]
    at = table["sh_offset"] + place * table["sh_entsize"] + 5  # st_other
    for machine, name, visibility in ((183, "aarch64", 0), (183, "aarch64", 2), (62, "x86_64", 0)):
        whole[18], whole[at] = machine, visibility
        object_file.write_bytes(whole)
        target = Target.parse("cpu", flags=[f"--iree-llvmcpu-target-triple={name}-linux-gnu"])
        # The hash in the spec is that of the object as it was shipped.
        file = replace(read_spec(kernel.read_text()), hashes={})
        (finding,) = check_objects(file, object_file.parent, target)
        crashes = (name, visibility) == ("aarch64", 0)
        assert finding.level == ("error" if crashes else "ok")
        assert ("-fvisibility=hidden" in finding.text) == crashes


OTHER_MACHINE = "aarch64" if platform.machine() == "x86_64" else "x86_64"


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('cpu_features = "', 'cpu_features = "+from-the-future,', "+from-the-future"),
        # Another release knows of more features of the same processor, which it has not.
        ('cpu_features = "', 'cpu_features = "-from-another-release,', "-from-another-release"),
        (f'target_triple = "{platform.machine()}', f'target_triple = "{OTHER_MACHINE}', "aarch64, x86_64"),
    ],
)
def test_an_executable_of_another_processor_or_release_is_found_out_though_it_compiles(
    old: str, new: str, names: str, kernel: Path, tools: Tools
) -> None:
    kernel.write_text(kernel.read_text().replace(old, new))
    (found,) = errors(check(kernel, tools=tools))
    assert f"only one of it and IREE {tools.release} for cpu names {names}: `autotune retune` " in found
