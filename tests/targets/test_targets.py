"""Every target that is claimed compiles for real, and every refusal says what would work."""

from __future__ import annotations

import platform
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.errors import UsageError
from autotuner.microkernels.variants import kernel_chip
from autotuner.problems import Gemm, Problem
from autotuner.problems.attention import Attention
from autotuner.problems.conv import Conv
from autotuner.problems.operations import OPERATIONS
from autotuner.problems.render import problem_mlir
from autotuner.targets import NO_DEVICE, PRODUCTS, Target, all_targets
from autotuner.targets.base import flag_name
from autotuner.tuning.plan import Plan

MakePlan = Callable[[Problem, str], Plan]


def small(op: str, dtype: str, acc: str) -> Problem:
    if op == "gemm":
        return Gemm.parse(shape="128x128x128", dtype=dtype, acc=acc)
    if op == "conv":
        return Conv.parse(shape="2x16x16x64", filter="3x3x64", dtype=dtype)
    return Attention.parse(shape="1x4x128x128x64", dtype=dtype)


@pytest.mark.parametrize("op", ["gemm", "conv", "attention"])
def test_every_claimed_type_compiles_on_its_target(op: str, builder: Builder, executor: Executor) -> None:
    """Each type and each target, but not all pairs of them."""
    jobs, seen = {}, set[tuple[str, str]]()
    for target in all_targets():
        known = target.types_of(OPERATIONS[op])
        new = [types for types in known if types not in seen] or known[:1]
        seen.update(new)
        for dtype, acc in new:
            problem = target.prepare(small(op, dtype, acc))
            jobs[target.name, dtype, acc] = executor.submit(
                builder.inspect, problem_mlir(problem), target.compile_flags, timeout=120
            )
    assert {target for target, *_ in jobs} == {
        target.name for target in all_targets() if target.types_of(OPERATIONS[op])
    }
    bad = {}
    for claim, job in jobs.items():
        try:
            text = job.result()
        except Exception as error:  # all claims are looked at before any is complained about
            bad[claim] = str(error)
        else:
            if "lowering_config" not in text:
                bad[claim] = "no dispatch was configured"
    assert not bad


def test_names_are_unique_and_every_product_is_a_known_chip() -> None:
    names = [t.name for t in all_targets()]
    assert len(set(names)) == len(names)
    assert set(PRODUCTS.values()) <= set(names)
    assert not set(PRODUCTS) & set(names)
    for product, chip in PRODUCTS.items():
        target = Target.parse(product)
        assert chip in (target.name, target.arch)
        assert target.name in (chip, product)
        assert any(flag.endswith(f"={target.name}") for flag in target.flags) or chip == "cpu"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("cpu", "cpu"),
        ("host", "cpu"),
        ("gfx942", "gfx942"),
        ("MI300X", "mi300x"),
        (" RX 7900 XTX ", "rx7900xtx"),
        ("RTX 5090", "sm_120"),
    ],
)
def test_chips_and_products_are_found_however_they_are_written(text: str, name: str) -> None:
    assert Target.parse(text).name == name


def test_a_product_that_iree_knows_gets_code_of_its_own(builder: Builder) -> None:
    problem = problem_mlir(Gemm.parse(shape="2048x2048x2048", dtype="bf16"))
    known = {one: Target.parse(one) for one in ("gfx942", "mi300x", "mi308x")}
    texts = {one: builder.inspect(problem, target.compile_flags, timeout=120) for one, target in known.items()}
    configured = {text.partition("lowering_config = ")[2].partition("workgroup_size")[0] for text in texts.values()}
    assert len(configured) > 1
    assert {target.kernel_chip for target in known.values()} == {"gfx942"}
    assert [target.units for target in known.values()] == [304, 304, 80]


@pytest.mark.parametrize("text", ["gfx943", "", "sm_80; rm -rf /"])
def test_an_unknown_target_lists_the_known(text: str) -> None:
    with pytest.raises(UsageError, match="unknown target") as caught:
        Target.parse(text)
    for known in ("cpu", "gfx942", "gfx950", "gfx1100", "sm_80", "mi300x"):
        assert known in caught.value.remedy
    assert ("Did you mean gfx94" in caught.value.remedy) == (text == "gfx943")


@pytest.mark.parametrize("text", ["sm_90a", "H200"])
def test_hopper_is_refused_with_the_target_that_runs_on_it(text: str) -> None:
    with pytest.raises(UsageError, match="no code generation") as caught:
        Target.parse(text)
    assert "--target sm_80" in caught.value.remedy
    assert "--chip sm_90" in caught.value.remedy


@pytest.mark.parametrize(
    ("target", "text", "chip"),
    [
        ("sm_80", "sm_90", "sm_90"),
        ("a100", "H200", "sm_90"),
        ("sm_80", "rtx4090", "sm_89"),
        ("mi300x", "MI325X", "gfx942"),
    ],
)
def test_kernels_are_for_the_chip_that_the_user_names(target: str, text: str, chip: str) -> None:
    found = Target.parse(target, chip=text)
    assert (found.kernel_chip, kernel_chip(found, NO_DEVICE)) == (chip, chip)
    assert found.compile_flags == Target.parse(target).compile_flags
    assert found.words == ["--target", found.name, "--chip", chip]


@pytest.mark.parametrize(
    ("target", "text", "what", "remedy"),
    [
        ("sm_80", "sm90", "unknown chip 'sm90'", "Did you mean sm_90?"),
        ("sm_80", "", "unknown chip ''", "sm_80 runs on: sm_80, sm_86"),
        ("sm_89", "a100", "code for sm_89 does not run there", "Use --target sm_80"),
        ("gfx942", "gfx950", "code for gfx942 does not run there", "Use --target gfx950"),
        ("gfx942", "h200", "code for gfx942 does not run there", "Use --target sm_80"),
        ("cpu", "sm_90", "is for GPUs", "--target"),
    ],
)
def test_a_chip_that_does_not_run_the_code_is_refused(target: str, text: str, what: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=what) as caught:
        Target.parse(target, chip=text)
    assert remedy in caught.value.remedy
    assert "\n" not in str(caught.value)


def test_a_device_of_another_chip_than_was_named_is_refused() -> None:
    target = Target.parse("sm_80", chip="sm_90")
    there = replace(target, backend=replace(target.backend, chip_there={"0": "sm_90", "1": "sm_80"}.get))
    assert kernel_chip(there, "cuda://0") == "sm_90"
    with pytest.raises(UsageError, match="--chip sm_90, and cuda://1 is sm_80"):
        kernel_chip(there, "cuda://1")


def test_user_flags_replace_the_targets_own_of_the_same_name() -> None:
    own = Target.parse("cpu")
    changed = Target.parse("cpu", flags=["--iree-llvmcpu-target-cpu=generic", "--iree-opt-level=O2"])
    names = [flag_name(f) for f in changed.compile_flags]
    assert len(names) == len(set(names))
    assert "--iree-llvmcpu-target-cpu=generic" in changed.compile_flags
    assert "--iree-llvmcpu-target-cpu=host" not in changed.compile_flags
    assert "--iree-opt-level=O2" in changed.compile_flags
    assert set(names) == {flag_name(f) for f in own.compile_flags} | {"--iree-opt-level"}
    assert "--iree-llvmcpu-target-cpu=host" in own.compile_flags


@pytest.mark.parametrize("flag", ["", "--", "-O2", "problem.mlir"])
def test_a_user_flag_that_is_none_is_refused(flag: str) -> None:
    with pytest.raises(UsageError, match="is not an iree-compile flag") as caught:
        Target.parse("cpu", flags=[flag])
    assert caught.value.remedy == "Write it as --flag=--name=value."


def test_a_flag_or_a_file_that_is_not_known_is_a_usage_error(builder: Builder, executor: Executor) -> None:
    for flag in ("--iree-no-such-flag", "--iree-codegen-tuning-spec-path=absent.mlir"):
        target = Target.parse("gfx942", flags=[flag])
        with pytest.raises(UsageError, match=flag) as caught:
            Plan.make(Gemm.parse(shape="128x128x128"), target, BuildExecutor.on(executor, builder), timeout=120)
        assert caught.value.remedy == "Check --flag."


@pytest.mark.parametrize(
    ("target", "problem", "can"),
    [
        ("sm_80", small("gemm", "f32", "f32"), "It can: f16 (--acc f32), bf16 (--acc f32), f16 (--acc f16)."),
        ("sm_80", small("conv", "i8", "i32"), "It can: f16, bf16."),
        ("gfx1100", small("attention", "f32", "f32"), "It can: f16, bf16."),
        ("gfx90a", small("conv", "f8", "f32"), "It can: f32, f16, bf16, i8."),
    ],
    ids=["gemm", "conv", "attention", "f8"],
)
def test_a_type_that_a_target_lacks_is_refused_with_those_it_has(target: str, problem: Problem, can: str) -> None:
    with pytest.raises(UsageError, match=f"{target} cannot tune {problem.op} of {problem.types[0]}") as caught:
        Target.parse(target).prepare(problem)
    assert caught.value.remedy == can


def test_f8_is_the_targets_own_f8() -> None:
    problem = Gemm.parse(shape="128x128x128", dtype="f8")
    elements = {}
    for name in ("cpu", "gfx942", "gfx950", "sm_89"):
        prepared = Target.parse(name).prepare(problem)
        elements[name] = prepared.operands[0].element.mlir
    assert elements == {"cpu": "f8E4M3FN", "gfx942": "f8E4M3FNUZ", "gfx950": "f8E4M3FN", "sm_89": "f8E4M3FN"}


OTHER = "aarch64" if platform.machine() == "x86_64" else "x86_64"
TRIPLE, PROCESSOR = "--iree-llvmcpu-target-triple", "--iree-llvmcpu-target-cpu"


def test_code_for_another_architecture_never_gets_this_machines_features() -> None:
    target = Target.parse("cpu", flags=[f"{TRIPLE}={OTHER}-unknown-linux-gnu"])
    assert (target.machine, target.foreign) == (OTHER, True)
    assert f"{PROCESSOR}=generic" in target.compile_flags
    assert f"{PROCESSOR}=host" not in target.compile_flags
    named = Target.parse("cpu", flags=[f"{TRIPLE}={OTHER}-linux-gnu", f"{PROCESSOR}=generic"])
    assert named.compile_flags.count(f"{PROCESSOR}=generic") == 1


def test_the_hosts_own_triple_changes_nothing() -> None:
    for flags in ([], [f"{TRIPLE}={platform.machine()}-linux-gnu"], [f"{PROCESSOR}=generic"]):
        target = Target.parse("cpu", flags=flags)
        assert (target.machine, target.foreign) == (platform.machine(), False)
        assert target.choose_device(None) == "local-task"
    assert f"{PROCESSOR}=host" in Target.parse("cpu", flags=[f"{TRIPLE}={platform.machine()}"]).compile_flags
    assert Target.parse("cpu", flags=[f"{TRIPLE}=arm64-linux-gnu"]).machine == "aarch64"
    assert not Target.parse("gfx942", flags=[f"{TRIPLE}={OTHER}-linux-gnu"]).foreign


def test_code_for_another_architecture_is_built_and_never_run() -> None:
    target = Target.parse("cpu", flags=[f"{TRIPLE}={OTHER}-linux-gnu"])
    assert target.choose_device("none") == "none"
    for device in (None, "local-task", "local-sync"):
        with pytest.raises(UsageError, match=rf"code for {OTHER} does not run here.*--device none"):
            target.choose_device(device)


# --- files in `--flag` are found from wherever the compiler runs ------------------------------------------------------


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spec.mlir").touch()
    (tmp_path / "host").touch()
    (tmp_path / "folder").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("flag", "becomes"),
    [
        ("--iree-codegen-tuning-spec-path=spec.mlir", "--iree-codegen-tuning-spec-path={here}/spec.mlir"),
        ("--iree-codegen-tuning-spec-path=./spec.mlir", "--iree-codegen-tuning-spec-path={here}/spec.mlir"),
        ("--iree-hal-dump-executable-sources-to=./folder", "--iree-hal-dump-executable-sources-to={here}/folder"),
        ("--iree-hal-substitute-x=NAME=spec.mlir", "--iree-hal-substitute-x=NAME={here}/spec.mlir"),
        ("--iree-x=absent.mlir", "--iree-x=absent.mlir"),
        ("--iree-llvmcpu-target-cpu=host", "--iree-llvmcpu-target-cpu=host"),
        ("--iree-opt-level=O3", "--iree-opt-level=O3"),
        ("--iree-opt-data-tiling", "--iree-opt-data-tiling"),
        ("--iree-x=/etc/hostname", "--iree-x=/etc/hostname"),
        ("--iree-x=" + "a." * 3000, "--iree-x=" + "a." * 3000),
    ],
)
def test_a_file_of_the_current_folder_is_given_by_its_whole_path(flag: str, becomes: str, here: Path) -> None:
    assert Target.parse("cpu", flags=[flag]).user_flags == (becomes.format(here=here),)
