"""A flagfile from a stranger has the flags that this project writes, with values of their form, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.carriers.flagfile import SPEC_FLAGS, Flagfile, flagfile_text
from autotuner.carriers.flags import RULES, SUBSTITUTION, SUBSTITUTIONS, objection
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.targets import all_targets

PIPELINE = "--iree-preprocessing-pass-pipeline="


def test_whatever_a_target_a_route_or_a_shipped_file_needs_is_accepted() -> None:
    for target in all_targets():
        assert not objection(target.compile_flags)
        assert not objection([f"{target.spec_flag}=/a folder/spec.mlir"])
        for route in target.routes:
            assert not objection([*target.compile_flags, *route.flags]), route.name
    carried = [f"{flag}=/x/spec.mlir" for flag in SPEC_FLAGS if flag != SUBSTITUTION]
    executables = [f"{SUBSTITUTION}=main$async_dispatch_{n}=/x/spec.mlir" for n in range(2)]
    assert not objection([*carried, *executables, f"{SUBSTITUTIONS}=/x", f"{OBJECTS_FLAG}=/x"])
    assert {SPEC_FLAG, OBJECTS_FLAG, SUBSTITUTIONS, *SPEC_FLAGS} <= RULES.keys()


@pytest.mark.parametrize(
    "flag",
    [
        "--iree-hal-preprocess-executables-with=sh cmd.sh",
        "--load=x.so",
        "-load=x.so",
        "-load",
        "--iree-vm-bytecode-source-listing=/tmp/x",
        f"{PIPELINE}builtin.module(iree-util-dump-module{{path=/tmp/x}})",
        f"{PIPELINE}builtin.module(iree-preprocessing-transpose-convolution-pipeline,iree-util-dump-module{{path=x}})",
        f"{PIPELINE}builtin.module(iree-linalg-ext-convert-conv2d-to-winograd{{replace-all-convs=true path=x}})",
        f"{PIPELINE}builtin.module(util.func(iree-linalg-ext-decompose-attention)",
        f"{PIPELINE}iree-util-dump-module(iree-linalg-ext-decompose-attention)",
        f"{PIPELINE}builtin.module()",
        PIPELINE,
        "--iree-llvmcpu-embedded-linker-path=/tmp/evil.sh",
        "--iree-hal-dump-executable-files-to=/tmp",
        "--iree-load-plugin=evil.so",
        "--mlir-pass-pipeline-crash-reproducer=/tmp/x",
        "--iree-llvmcpu-target-cpu=host --load=x.so",
        "--iree-llvmcpu-target-cpu",
        "--iree-hal-target-device=local[evil]",
        "--iree-opt-data-tiling=/tmp/x",
        "--iree-codegen-transform-dialect-library=evil.mlir@x.mlir",
        "--iree-codegen-tuning-spec-path=/dev/stdin",
        "--iree-hal-substitute-executable-configuration=name=evil.o",
        "--iree-hal-substitute-executable-configuration=../x=evil.mlir",
        "--iree-hal-executable-object-search-path=",
        "--iree-codegen-tuning-spec-path=/tmp/\x1b[31m.mlir",
        "--iree-codegen-tuning-spec-path=/tmp/a\n.mlir",
        "--o=/tmp/x",
        "-o",
        "--",
        "",
        "@other.flags",
        "model.mlir",
        "# a comment",
    ],
)
def test_a_flag_that_is_not_known_to_be_harmless_is_refused_by_name(flag: str, tmp_path: Path) -> None:
    path = tmp_path / "stranger.flags"
    path.write_text(flagfile_text(["--iree-hal-target-device=local", flag]) + ("''" if not flag else ""))
    with pytest.raises(UsageError) as refused:
        Flagfile.read(path)
    assert repr(flag.partition("=")[0])[1:-1] in str(refused.value)
    assert "--trust" in str(refused.value)
    assert str(refused.value).isprintable()
    assert Flagfile.read(path, trust=True).flags[-1] == flag
    if flag.startswith("--"):
        assert Flagfile.read(path, known=[flag]).flags[-1] == flag


def nested(levels: int) -> str:
    return PIPELINE + "util.func(" * levels + "iree-linalg-ext-decompose-attention" + ")" * levels


def test_a_pipeline_is_read_to_a_limited_depth() -> None:
    assert not objection([nested(7)])
    assert objection([nested(8)])
    assert objection([nested(100_000)])


def test_every_pass_of_a_pipeline_may_have_its_own_options() -> None:
    winograd = "iree-linalg-ext-convert-conv2d-to-winograd{replace-all-convs=true}"
    assert not objection([f"{PIPELINE}builtin.module(util.func({winograd},{winograd}),util.func({winograd}))"])
    assert objection([f"{PIPELINE}builtin.module({winograd[:-1]})"])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("--iree-opt-data-tiling\n--iree-opt-data-tiling=false\n", "twice"),
        ("--iree-opt-data-tiling\n@nested.flags\n", "'@nested.flags'"),
        ("--iree-llvmcpu-target-cpu host\n", "a processor's name"),
        ("--iree-opt-data-tiling\0--load=x.so\n", "control characters"),
        ("--iree-opt-data-tiling 'unfinished\n", "does not end"),
        ("--iree-opt-data-tiling\\\n--load=x.so\n", "control characters"),
        ('--lo"ad=x.so"\n', "'--load'"),
        ("-\\-load=x.so\n", "'--load'"),
        ("x" * (1 << 20) + "\n" * 9, "too large"),
    ],
)
def test_tricks_of_the_files_syntax_are_seen_through(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "stranger.flags"
    path.write_text(text)
    with pytest.raises(UsageError, match=why):
        Flagfile.read(path)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t"), min_size=1), min_size=1))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, flags: list[str]) -> None:
    path = tmp_path_factory.mktemp("flags") / "own.flags"
    path.write_text(flagfile_text(flags), encoding="utf-8")
    assert list(Flagfile.read(path, trust=True).flags) == flags


def test_the_compiler_reads_a_flagfile_as_we_do(tools: Tools, tmp_path: Path) -> None:
    """A folder whose name has all that LLVM's quoting is about."""
    folder = tmp_path / """it's a "back\\slash" folder"""
    folder.mkdir()
    (folder / "spec.mlir").write_text("module attributes {transform.with_named_sequence} {}")
    (tmp_path / "in.mlir").write_text("util.func public @f() { util.return }")
    flags = [*all_targets()[0].compile_flags, f"--iree-preprocessing-transform-spec-filename={folder}/none.mlir"]
    (tmp_path / "f.flags").write_text(flagfile_text(flags))
    command = [tools.iree_compile, tmp_path / "in.mlir", f"@{tmp_path / 'f.flags'}", "--compile-to=preprocessing"]
    done = subprocess.run([*map(str, command), "-o", "-"], capture_output=True, text=True, check=False)
    assert f"{folder}/none.mlir" in done.stderr.replace("\\\\", "\\").replace('\\"', '"').replace("\\'", "'")
