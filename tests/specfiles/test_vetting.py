"""Specs, executables and models from strangers start no program and write no file; ours pass, whatever they are for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from iree.compiler import ir

from autotuner.carriers.flagfile import flagfile_text
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.programs.model import Model
from autotuner.specfiles.check import check
from autotuner.specfiles.entries import vet_file
from autotuner.specfiles.flagfile import PASSES, RULES
from autotuner.specfiles.vetting import FORMATS, MATHEMATICS, MODEL_DIALECTS, SPEC_OPS, SPEC_PASSES, vet_model, vet_spec
from autotuner.system import process
from autotuner.targets import Target
from tests.support.spec_files import FRAME, Answer

EXAMPLES = Path(__file__).with_name("examples")
SMALL = Gemm.parse(shape="64x32x48", dtype="f32")
PLAIN = FRAME.replace("HELPER", "").replace(
    "BODY", 'transform.match.operation_name %op ["linalg.matmul"] : !transform.any_op'
)
PREPROCESSING = (EXAMPLES / "preprocessing.mlir").read_text().partition("\n")[2]
DUMP = """%a = transform.apply_registered_pass "iree-util-dump-module" with options = {{"path" = "{path}"}}
      to %module : (!transform.any_op) -> !transform.any_op
    %x = transform.apply_registered_pass "inline" to %a : (!transform.any_op) -> !transform.any_op"""
EXECUTABLE = (EXAMPLES / "executable.mlir").read_text()
TARGET = '"llvm-cpu", "embedded-elf-x86_64", {target_triple = "x86_64-unknown-unknown-eabi-elf"}'


def executable(*, target: str, objects: str) -> str:
    return EXECUTABLE.replace("TARGET", target).replace("OBJECTS", objects)


def refusal(text: str, vet: Callable[..., None] = vet_spec) -> str:
    with ir.Context():
        module = ir.Module.parse(text)
        try:
            vet(module, name="the file")
        except UsageError as error:
            return str(error)
    return ""


def test_a_tuning_spec_and_an_executable_of_the_usual_kind_pass() -> None:
    assert not refusal(PLAIN)
    assert not refusal(PREPROCESSING.replace("PASS", ""))
    around = PREPROCESSING.replace("PASS", "").replace(
        "transform.with_named_sequence} {",
        """transform.with_named_sequence} {
  util.func private @around(%a: tensor<1xf32>) -> tensor<1xf32> {
    %b = util.call @called(%a) : (tensor<1xf32>) -> tensor<1xf32>
    util.return %b : tensor<1xf32>
  }""",
    )
    assert "util.call" in around
    assert not refusal(around), (
        "what folds a batch norm, or takes a batch as rows, calls the function around the kernel"
    )
    assert not refusal(executable(target=TARGET, objects=""))
    named = 'objects([#hal.executable.object<{path = "kernel.o"}>])'
    assert not refusal(executable(target=TARGET, objects=named))


@pytest.mark.parametrize("name", SPEC_PASSES)
def test_a_harmless_pass_is_run_without_options_other_than_numbers_and_empty_texts(name: str) -> None:
    word = (
        f'%x = transform.apply_registered_pass "{name}" OPTIONS to %module : (!transform.any_op) -> !transform.any_op'
    )
    assert not refusal(PREPROCESSING.replace("PASS", word.replace("OPTIONS", "")))
    numbers = 'with options = {"max-size-increase-threshold" = 0}'
    assert not refusal(PREPROCESSING.replace("PASS", word.replace("OPTIONS", numbers)))
    assert not refusal(
        PREPROCESSING.replace("PASS", word.replace("OPTIONS", 'with options = {"default-pipeline" = ""}'))
    )
    options = 'with options = {"default-pipeline" = "iree-util-dump-module{path=x}"}'
    assert f"'{name}'" in refusal(PREPROCESSING.replace("PASS", word.replace("OPTIONS", options)))


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (PREPROCESSING.replace("PASS", DUMP.format(path="/tmp/x")), "iree-util-dump-module"),
        (PREPROCESSING.replace("PASS", "transform.print %module : !transform.any_op"), "transform.print"),
        (
            PLAIN.replace("#iree_cpu.pipeline<DoubleTilingExpert>", '#iree_codegen.pass_pipeline<"func.func(cse)">'),
            "iree_codegen.pass_pipeline",
        ),
        (executable(target=TARGET.replace("embedded-elf", "system-elf"), objects=""), "system-elf-x86_64"),
        (
            executable(target=TARGET.replace("{", '{static_library_output = "/tmp/x", '), objects=""),
            "static_library_output",
        ),
        (
            executable(target=TARGET, objects='objects([#hal.executable.object<{path = "/etc/shadow"}>])'),
            "/etc/shadow",
        ),
        (
            executable(target=TARGET, objects='objects([#hal.executable.object<{path = "../x.o"}>])'),
            "../x.o",
        ),
        (
            executable(
                target=TARGET,
                objects='objects([#hal.executable.object<{path = "x.o", data = dense<1> : vector<4xi8>}>])',
            ),
            "native code",
        ),
        (
            executable(target=TARGET, objects="").replace(
                "{ return }", '{ llvm.inline_asm "syscall", "" : () -> ()\n return }'
            ),
            "llvm.inline_asm",
        ),
    ],
)
def test_what_no_spec_of_ours_has_is_refused_by_name(text: str, what: str) -> None:
    why = refusal(text)
    assert what in why
    assert "--trust" in why


HOSTILE = '#iree_codegen.pass_pipeline<"func.func(cse)">'
INFO = "#iree_codegen.translation_info<pipeline = #iree_cpu.pipeline<DoubleTilingExpert>, {{{}}}>"


@pytest.mark.parametrize(
    "value",
    [
        HOSTILE,
        '#iree_codegen<pass_pipeline<"func.func(cse)">>',
        f"[{{deep = [{HOSTILE}]}}]",
        INFO.format(f"x = {HOSTILE}"),
        INFO.format(f"x = [1, {{y = {HOSTILE}}}]"),
        INFO.format(f'x = "a\\"b", y = {HOSTILE}, z = "\\""'),
        INFO.format(f'x = "ends in \\\\", y = {HOSTILE}, z = "\\\\"'),
        INFO.format(f'"odd \\" name" = {HOSTILE}'),
        f"tensor<4xf32, {HOSTILE}>",
        f"(tensor<4xf32, {HOSTILE}>) -> ()",
        '#hal<executable.object<{path = "/etc/shadow"}>>',
        INFO.format('x = #hal.executable.object<{path = "kernel.o"}>'),
    ],
)
def test_a_hostile_attribute_is_found_however_it_is_spelled(value: str) -> None:
    texts = [
        f"module attributes {{iree.a = {value}}} {{}}",
        f"#alias = {value}\nmodule attributes {{iree.a = [#alias]}} {{}}",
    ]
    for text in texts if value.startswith("#") else texts[:1]:
        why = refusal(text)
        assert "pass_pipeline" in why or "hal.executable.object" in why or "/etc/shadow" in why, (text, why)


@pytest.mark.parametrize(
    "value", [f'"{HOSTILE[:14]}"', '"\\"#hal.x"', INFO.format('x = "#hal.x \\" #vm.y"'), '@"#hal.x"']
)
def test_text_that_only_looks_like_an_attribute_passes(value: str) -> None:
    assert not refusal(f"module attributes {{iree.a = {value}}} {{}}")


def model(attributes: str = "", body: str = "", name: str = "@main") -> str:
    return f"""util.func public {name}(%a: tensor<4xf32>) -> tensor<4xf32> {attributes} {{
      {body}
      %r = arith.addf %a, %a {{note = "x"}} : tensor<4xf32>
      util.return %r : tensor<4xf32>
    }}"""


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (model('attributes {preprocessing_pipeline = #util.preprocessing_pipeline<"cse">}'), "preprocessing_pipeline"),
        (
            'module attributes {hal.device.targets = [#hal.device.target<"local"> : !hal.device]} {}',
            "hal.device.target",
        ),
        (executable(target=TARGET, objects=""), "hal.executable"),
        (PLAIN, "transform.named_sequence"),
        (model(name='@"../../../x"'), "../../../x"),
        (f'module @"a/b" {{ {model()} }}', "a/b"),
        (model(body='llvm.inline_asm "syscall", "" : () -> ()'), "llvm.inline_asm"),
    ],
)
def test_a_model_that_is_more_than_mathematics_is_refused(text: str, what: str) -> None:
    assert what in refusal(text, vet_model)


def test_models_of_the_usual_exporters_pass() -> None:
    assert not refusal(problem_mlir(SMALL), vet_model)
    twiddles = "arith.constant dense<[(1.0, 0.0), (0.0, 1.0)]> : tensor<2xcomplex<f32>>"
    assert not refusal(f"func.func @f() {{ %0 = {twiddles}\n return }}", vet_model)
    assert not refusal(f"module @jit_f {{ {model()} }}", vet_model)
    assert not refusal(
        """module @torch {
          util.global private @w = #flow.parameter.named<"model"::"w"> : tensor<2x3xf32>
          func.func @main(%a: !torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32>
              attributes {torch.onnx_meta.ir_version = 8 : si64} {
            %0 = torch.operator "onnx.Relu"(%a) : (!torch.vtensor<[2,3],f32>) -> !torch.vtensor<[2,3],f32>
            return %0 : !torch.vtensor<[2,3],f32>
          }
          func.func @s(%a: tensor<2xf32>) -> tensor<2xf32> {
            %0 = stablehlo.add %a, %a : tensor<2xf32>
            %1 = tosa.abs %0 : (tensor<2xf32>) -> tensor<2xf32>
            return %1 : tensor<2xf32>
          }
        }""",
        vet_model,
    )


def test_a_model_that_writes_a_file_does_so_only_when_it_is_trusted(tools: Tools, tmp_path: Path) -> None:
    """IREE runs a pipeline that stands in an attribute of a function, whoever wrote it there."""
    written, path = tmp_path / "written", tmp_path / "model.mlir"
    pipeline = f'"builtin.module(iree-util-dump-module{{path={written}}})"'
    attributes = f"attributes {{preprocessing_pipeline = #util.preprocessing_pipeline<{pipeline}>}}"
    path.write_text(model(attributes, body="builtin.module {}"))
    with pytest.raises(UsageError, match="preprocessing_pipeline"):
        Model(path).opened(folder=tmp_path, tools=tools)
    assert not written.exists()
    trusted = Model(path, trust=True).opened(folder=tmp_path, tools=tools)
    flags = Target.parse("cpu").compile_flags
    process.run([tools.iree_compile, trusted.source, *flags, "-o", tmp_path / "x.vmfb"], timeout=120)
    assert written.exists()


def test_a_spec_that_writes_a_file_does_so_only_when_it_is_trusted(
    tmp_path: Path, autotune: Callable[..., Answer]
) -> None:
    written, spec, program = tmp_path / "written", tmp_path / "spec.mlir", tmp_path / "model.mlir"
    spec.write_text(PREPROCESSING.replace("PASS", DUMP.format(path=written)))
    program.write_text(problem_mlir(SMALL))
    words = ("spec", "check", spec, program, "--target", "cpu")
    answer = autotune(*words)
    assert answer.code == 2
    assert "iree-util-dump-module" in answer.err
    assert "--trust" in answer.err
    assert not written.exists()
    ab = ("ab", spec, "--shape", "64x32x48", "--dtype", "f32", "--device", "none", "--workspace", tmp_path)
    assert autotune(*ab).code == 2
    assert autotune("spec", "merge", spec, "-o", tmp_path / "merged.mlir").code == 2
    assert not written.exists()
    autotune(*words, "--trust")
    assert written.exists()


def test_a_hostile_model_is_refused_by_every_command_that_takes_one(
    tmp_path: Path, autotune: Callable[..., Answer]
) -> None:
    path, spec = tmp_path / "model.mlir", tmp_path / "spec.mlir"
    path.write_text(model('attributes {preprocessing_pipeline = #util.preprocessing_pipeline<"cse">}'))
    spec.write_text(PLAIN)
    common = ("--device", "none", "--workspace", tmp_path)
    for words in (
        ("model", path, *common),
        ("model", path, "--dry-run", *common),
        ("ab", "default", "default", "--model", path, *common),
        ("ab", "default", "default", "--model", path, "--dry-run", *common),
        ("spec", "check", spec, path, "--target", "cpu"),
    ):
        answer = autotune(*words)
        assert answer.code == 2, words
        assert "preprocessing_pipeline" in answer.err


def test_executables_that_a_flagfile_names_are_looked_into(tools: Tools, tmp_path: Path) -> None:
    spec, folder = tmp_path / "spec.mlir", tmp_path / "spec.executables"
    spec.write_text(PLAIN)
    folder.mkdir()
    flags = [*Target.parse("cpu").compile_flags, f"--iree-codegen-tuning-spec-path={spec}"]
    flags.append(f"--iree-hal-substitute-executable-configurations-from={folder}")
    spec.with_suffix(".flags").write_text("\n".join(flags))
    (folder / "main_dispatch_0.mlir").write_text(executable(target=TARGET, objects=""))
    assert check(spec, tools=tools).sound
    (folder / "main_dispatch_1.o").write_bytes(b"\x7fELF")
    with pytest.raises(UsageError, match="native code"):
        check(spec, tools=tools)
    (folder / "main_dispatch_1.o").rename(folder / "b.mlir")
    with pytest.raises(UsageError, match=r"b\.mlir"):
        check(spec, tools=tools)
    bad = executable(target=TARGET.replace("embedded-elf", "system-elf"), objects="")
    (folder / "b.mlir").write_text(bad)
    with pytest.raises(UsageError, match="system-elf"):
        check(spec, tools=tools)
    assert check(spec, tools=tools, trust=True).sound


@pytest.mark.parametrize("text", ["nonsense", "module {" * 5000 + "}" * 5000, "module attributes {a = " + "[" * 5000])
def test_what_does_not_parse_is_a_plain_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.mlir"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"spec\.mlir is n"):
        vet_file(path)


def test_the_docs_list_what_is_accepted() -> None:
    page = (Path(__file__).parents[2] / "docs" / "vetting.md").read_text()
    words = {word.strip("`,.;:()") for word in page.split()}
    assert not SPEC_OPS - words
    assert not {*MATHEMATICS, *MODEL_DIALECTS, *SPEC_PASSES, *FORMATS, *RULES, *PASSES} - words


def test_a_hostile_flagfile_starts_nothing_whoever_reads_it(tmp_path: Path, autotune: Callable[..., Answer]) -> None:
    ran, script, spec = tmp_path / "ran", tmp_path / "command.sh", tmp_path / "spec.mlir"
    script.write_text(f"touch '{ran}'\ncat\n")
    spec.write_text(PLAIN)
    flag = f"--iree-hal-preprocess-executables-with=sh {script}"
    flags = spec.with_suffix(".flags")
    flags.write_text(flagfile_text([*Target.parse("cpu").compile_flags, flag]))
    common = ("--shape", "64x32x48", "--dtype", "f32", "--device", "none", "--workspace", tmp_path)
    for words in (
        ("ab", f"@{flags}", *common),
        ("ab", spec, *common),
        ("ab", flags, "--dry-run", *common),
        ("spec", "check", spec),
        ("spec", "merge", spec, spec, "-o", tmp_path / "merged.mlir"),
    ):
        answer = autotune(*words)
        assert answer.code == 2, words
        assert "--iree-hal-preprocess-executables-with" in answer.err
    assert not ran.exists()
    assert not (tmp_path / "merged.flags").exists()
    assert autotune("ab", f"@{flags}", "--trust", *common).code == 0
    assert ran.exists()
