"""Flagfiles: read as iree-compile reads them; from a stranger only with the flags that this project writes."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotuner.carriers.flagfile import SUBSTITUTIONS, flagfile_text, use_line
from autotuner.carriers.microkernel import OBJECTS_FLAG, SPEC_FLAG
from autotuner.carriers.render import SUBSTITUTION
from autotuner.errors import UsageError
from autotuner.iree.tools import Tools
from autotuner.problems.operations import OPERATIONS
from autotuner.specfiles.flagfile import SPEC_FLAGS, Flagfile, objection
from autotuner.system import process
from autotuner.targets import all_targets
from autotuner.targets.backends import TUNING_SPEC

PIPELINE = "--iree-preprocessing-pass-pipeline="
AWKWARD = [
    "plain",
    "two words",
    "back\\slash",
    "both ' and \" and \\",
    "ends in \\",
    "été/文件",
    "tab\tand\u00a0wide space",
    "$HOME;`id`#no comment",
]


@pytest.mark.parametrize("value", AWKWARD)
def test_iree_compile_reads_a_flagfile_as_we_do(value: str, tmp_path: Path, tools: Tools) -> None:
    """It names the first flag that it does not know."""
    file = tmp_path / "x.flags"
    flags = (f"--no-such-flag={value}", value, f"--last={value}")
    file.write_text(flagfile_text(flags), encoding="utf-8")
    assert Flagfile.read(file, trust=True).flags == flags
    done = process.run([tools.iree_compile, "-", f"@{file}"], timeout=60)
    assert f"Unknown command line argument '--no-such-flag={value}'" in done.stderr


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\n\t"), min_size=1), min_size=1))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, flags: list[str]) -> None:
    path = tmp_path_factory.mktemp("flags") / "own.flags"
    path.write_text(flagfile_text(flags), encoding="utf-8")
    assert list(Flagfile.read(path, trust=True).flags) == flags


def test_a_line_to_paste_is_quoted_for_the_shell() -> None:
    path = Path("/tmp") / "a b\\c\"d'é, x" / "x.flags"
    assert shlex.split(use_line(path)) == ["iree-compile", "your_program.mlir", f"@{path}", "-o", "your_program.vmfb"]
    assert use_line(Path("specs/x.flags")) == "iree-compile your_program.mlir @specs/x.flags -o your_program.vmfb"


def test_files_that_are_gone_are_those_of_the_same_name_in_the_folder(tmp_path: Path) -> None:
    there, folder = tmp_path / "there.mlir", tmp_path / "moved"
    there.write_text("")
    moved = {
        f"{TUNING_SPEC}=": "a.mlir",
        f"{SUBSTITUTION}=main_dispatch_1=": "b.mlir",
        f"{SUBSTITUTIONS}=": "a.executables",
        f"{OBJECTS_FLAG}=": "a.objects",
    }
    stay = ("--iree-opt-level=O3", f"{SPEC_FLAG}={tmp_path}/there.mlir")
    given = (*stay, *(f"{flag}gone/{name}" for flag, name in moved.items()))
    found = (*stay, *(f"{flag}{folder}/{name}" for flag, name in moved.items()))
    assert Flagfile(tmp_path / "a.flags", given).found_in(folder).flags == found


def test_files_that_are_there_are_named_by_their_whole_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b=c.mlir").write_text("")
    given = f"{SUBSTITUTION}=main$async_dispatch_0="
    found = Flagfile(Path("a.flags"), (f"{given}b=c.mlir",)).found_in(tmp_path / "elsewhere")
    assert found.flags == (f"{given}{tmp_path / 'b=c.mlir'}",)


def test_whatever_a_target_a_route_or_a_shipped_file_needs_is_accepted() -> None:
    for target in all_targets():
        assert not objection(target.compile_flags)
        assert not objection([f"{target.spec_flag}=/a folder/spec.mlir"])
        for route in (route for one in OPERATIONS.values() for route in target.routes_for(one.smallest())):
            assert not objection([*target.compile_flags, *route.flags]), route.name
    carried = [f"{flag}=/x/spec.mlir" for flag in SPEC_FLAGS if flag != SUBSTITUTION]
    executables = [f"{SUBSTITUTION}=main$async_dispatch_{n}=/x/spec.mlir" for n in range(2)]
    assert not objection([*carried, *executables, f"{SUBSTITUTIONS}=/x", f"{OBJECTS_FLAG}=/x"])
    winograd = "iree-linalg-ext-convert-conv2d-to-winograd{replace-all-convs=true}"
    assert not objection([f"{PIPELINE}builtin.module(util.func({winograd},{winograd}),util.func({winograd}))"])


@pytest.mark.parametrize(
    "flag",
    [
        "--iree-hal-preprocess-executables-with=sh cmd.sh",
        "--load=x.so",
        "-load",
        f"{PIPELINE}builtin.module(iree-util-dump-module{{path=/tmp/x}})",
        f"{PIPELINE}builtin.module(iree-preprocessing-transpose-convolution-pipeline,iree-util-dump-module{{path=x}})",
        f"{PIPELINE}builtin.module(iree-linalg-ext-convert-conv2d-to-winograd{{replace-all-convs=true path=x}})",
        f"{PIPELINE}builtin.module(iree-linalg-ext-convert-conv2d-to-winograd{{replace-all-convs=true)",
        f"{PIPELINE}builtin.module(util.func(iree-linalg-ext-decompose-attention)",
        f"{PIPELINE}iree-util-dump-module(iree-linalg-ext-decompose-attention)",
        PIPELINE,
        "--iree-llvmcpu-embedded-linker-path=/tmp/evil.sh",
        "--iree-hal-dump-executable-files-to=/tmp",
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
        "-o",
        "--",
        "@other.flags",
        "model.mlir",
    ],
)
def test_a_flag_that_is_not_known_to_be_harmless_is_refused_by_name(flag: str, tmp_path: Path) -> None:
    path = tmp_path / "stranger.flags"
    path.write_text(flagfile_text(["--iree-hal-target-device=local", flag]))
    with pytest.raises(UsageError) as refused:
        Flagfile.read(path)
    assert repr(flag.partition("=")[0])[1:-1] in str(refused.value)
    assert "--trust" in str(refused.value)
    assert str(refused.value).isprintable()
    assert Flagfile.read(path, trust=True).flags[-1] == flag
    if flag.startswith("--"):
        assert Flagfile.read(path, known=[flag]).flags[-1] == flag


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("--iree-opt-data-tiling\n--iree-opt-data-tiling=false\n", "twice"),
        ("--iree-opt-data-tiling\n@nested.flags\n", "'@nested.flags'"),
        ("--iree-llvmcpu-target-cpu\n", "a processor's name"),
        ("--iree-opt-data-tiling\0--load=x.so\n", "control characters"),
        *(
            (line, "is not one flag, quoted as a whole")
            for line in ("--a=1 --load=x.so", "'--a'", '"--a', "--a\\\n--load=x.so", '--lo"ad=x.so"', '"--a\\b"')
        ),
    ],
)
def test_tricks_of_the_files_syntax_are_seen_through(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "stranger.flags"
    path.write_text(text)
    with pytest.raises(UsageError, match=why):
        Flagfile.read(path)
