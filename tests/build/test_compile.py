"""iree-compile is called in one way: the same threads, the same errors seen, whoever asks."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import autotuner
from autotuner.carriers.calls import preprocess
from autotuner.errors import NoCandidateError
from autotuner.iree.compile import Compile, CompilerRefusal, compile_program, inspect
from autotuner.iree.folder import MODEL, MODULE, PROBLEM
from autotuner.iree.tools import Tools
from autotuner.problems import Gemm
from autotuner.problems.render import problem_mlir
from autotuner.programs.model import Model, ModelBuilder, as_configured
from autotuner.programs.structure import structure_in
from autotuner.system.cache import Cache
from autotuner.targets import Target

FLAGS = Target.parse("cpu").compile_flags
PRINTS_AN_ERROR = "--iree-preprocessing-pass-pipeline=builtin.module(no-such-pass)"
"""With it the compiler prints an error, makes a module and exits with 0."""
PACKAGE = Path(autotuner.__file__).parent


@pytest.fixture
def source() -> str:
    return problem_mlir(Gemm.parse(shape="16x16x16", dtype="f32"))


def test_an_error_with_exit_code_zero_is_seen_by_everybody(tools: Tools, source: str, tmp_path: Path) -> None:
    model, flags = tmp_path / "model.mlir", (*FLAGS, PRINTS_AN_ERROR)
    model.write_text(source)
    for program in (source, model):
        done = compile_program(Compile(program, flags, 120), tools, tmp_path / "job")
        assert (done.failure, "no-such-pass" in done.stderr) == ("compile-error", True)
        with pytest.raises(CompilerRefusal, match="no-such-pass"):
            inspect(Compile(program, flags, 120, stop="executable-configurations"), tools)
        with pytest.raises(CompilerRefusal, match="no-such-pass"):
            preprocess(tools, program, flags, timeout=120)
    builder = ModelBuilder(tools, Cache(tmp_path / "cache"), Model(model))
    job = builder.job(flags, timeout=120)
    assert builder.build(job).failure == "compile-error"
    assert builder.build_fresh(flags, folder=tmp_path / "fresh", timeout=120).failure == "compile-error"
    configured = builder.build(as_configured(job))
    assert configured.failure == "compile-error"
    with pytest.raises(NoCandidateError, match=r"no-such-pass.* The same by hand: \S*iree-compile \S*model\.mlir "):
        structure_in(configured, builder, flags=flags, target="cpu")


def test_the_dispatches_of_a_model_are_read_from_the_compile_of_its_module(
    tools: Tools, source: str, tmp_path: Path
) -> None:
    """One compile tells both, kept with the module; and it is the module that a user gets."""
    model = tmp_path / "model.mlir"
    model.write_text(source)
    builder = ModelBuilder(tools, Cache(tmp_path / "cache"), Model(model))
    made, again = (builder.build(builder.job(FLAGS, timeout=120)) for _ in range(2))
    assert (made.cached, again.cached) == (False, True)
    for one in (made, again):
        found = structure_in(one, builder, flags=FLAGS, target="cpu")
        assert [group.root.loops for group in found.groups] == [(16, 16, 16)]
        assert "linalg.matmul" in found.preprocessed
    # Where dumps lie is part of a module.
    job = Compile(model, FLAGS, 120, dumps=("configurations", "benchmarks", "binaries"))
    by_hand = compile_program(job, tools, tmp_path / "by-hand")
    assert made.vmfb.read_bytes() == by_hand.vmfb.read_bytes()


def test_only_a_whole_model_is_compiled_by_several_threads(tools: Tools, source: str, tmp_path: Path) -> None:
    one_thread = "--mlir-disable-threading"
    for stop in (None, "flow", "preprocessing"):
        assert one_thread in Compile(source, FLAGS, 1, stop=stop).command(tools)
        assert one_thread not in Compile(tmp_path / "model.mlir", FLAGS, 1, stop=stop).command(tools)


def test_a_model_has_one_name_where_it_is_compiled_and_its_own_for_whoever_repeats_it(
    tools: Tools, source: str, tmp_path: Path
) -> None:
    model = tmp_path / "-my modèle.mlir"
    model.write_text(source)
    whole = Compile(model, FLAGS, 120)
    assert (whole.command(tools)[1], whole.by_hand(tools)[1]) == (MODEL, str(model))
    assert whole.by_hand(tools, output="here.vmfb")[-1] == "here.vmfb"
    done = compile_program(whole, tools, tmp_path / "job")
    assert (done.failure, done.command) == (None, whole.by_hand(tools))
    assert [path.name for path in (tmp_path / "job").iterdir()] == [MODULE]
    of_a_problem = Compile(source, FLAGS, 120)
    assert of_a_problem.command(tools)[1] == PROBLEM
    assert of_a_problem.by_hand(tools) == of_a_problem.command(tools)


def test_one_module_composes_the_command_line() -> None:
    """Others may say which compiler is meant; only `iree/` runs it."""
    running = []
    texts = {path: path.read_text() for path in PACKAGE.rglob("*.py")}
    for path, text in texts.items():
        for node in ast.walk(ast.parse(text)) if "iree_compile" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("process.run", "process.start"):
                running += [path.parent.name] * ("iree_compile" in ast.unparse(node))
    assert set(running) <= {"iree"}
