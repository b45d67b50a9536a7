"""One's own build of IREE: found in a folder, told from others by its bytes, and warned of where parts disagree."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import pytest

from autotuner._version import IREE
from autotuner.build import Builder
from autotuner.build.executor import BuildExecutor
from autotuner.errors import ToolMissingError
from autotuner.iree import versions
from autotuner.iree.tools import Tools
from autotuner.iree.versions import program_digest
from autotuner.problems.attention import Attention
from autotuner.report.doctor import examine
from autotuner.system.cache import Cache
from autotuner.targets import Target
from autotuner.tuning.plan import Plan
from tests.support.command_line import in_this_process

Farm = Callable[..., Path]
NAMES = ("iree-compile", "iree-opt", "iree-run-module", "iree-benchmark-module")


@pytest.fixture
def farm(tools: Tools, tmp_path: Path) -> Farm:
    """farm(place): a folder like a build tree, with links to the wheels' programs in `place`."""

    def make(place: str = "tools", *, name: str = "build", without: str = "") -> Path:
        folder = tmp_path / name / place
        folder.mkdir(parents=True)
        real = (tools.iree_compile, tools.iree_opt, tools.iree_run_module, tools.iree_benchmark_module)
        for program, path in zip(NAMES, real, strict=True):
            if program != without:
                (folder / program).symlink_to(path.resolve())
        return tmp_path / name

    return make


def exchanged(folder: Path, program: str, text: str) -> None:
    """Puts a script in the place of a link."""
    path = next(folder.rglob(program))
    path.unlink()
    path.write_text(text)
    path.chmod(0o755)


def calling(real: Path, remark: str) -> str:
    return f'#!/bin/sh\n# {remark}\nexec "{real}" "$@"\n'


# --- finding --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "tools", "bin"])
def test_programs_are_found_in_build_and_install_trees(farm: Farm, place: str) -> None:
    found = Tools.find(farm(place))
    paths = (found.iree_compile, found.iree_opt, found.iree_run_module, found.iree_benchmark_module)
    assert [path.name for path in paths] == list(NAMES)
    assert {path.parent for path in paths} == {(found.folder or Path()) / place}


def test_the_environment_names_the_folder_and_the_option_overrules_it(
    farm: Farm, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = farm(name="one"), farm(name="other")
    monkeypatch.setenv("AUTOTUNE_IREE_TOOLS", str(one))
    assert Tools.find().folder == one
    assert Tools.find(other).folder == other
    monkeypatch.setenv("AUTOTUNE_IREE_TOOLS", "")
    assert Tools.find().folder is None


@pytest.mark.parametrize("name", NAMES[:2])
def test_a_program_that_is_missing_is_named_with_the_places(farm: Farm, name: str) -> None:
    folder = farm(without=name)
    with pytest.raises(ToolMissingError, match=name) as caught:
        _ = Tools.find(folder).iree_opt
    for place in (folder, folder / "tools", folder / "bin"):
        assert str(place) in caught.value.message
    assert "--iree-tools" in caught.value.remedy


# --- identity -------------------------------------------------------------------------------------------------------


def test_links_to_a_compiler_are_that_compiler(tools: Tools, farm: Farm) -> None:
    own = Tools.find(farm())
    assert own.identity == tools.identity
    assert own.programs == tools.programs
    assert own.build == tools.build
    assert own.arguments() == ["--iree-tools", str(own.folder)]
    assert tools.arguments() == []


def test_a_byte_more_is_another_compiler_though_it_says_the_same(tools: Tools, tmp_path: Path) -> None:
    """A build of one's own often has the version of the last one."""
    copies = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        shutil.copy(tools.iree_compile, folder / "iree-compile")
        library = tools.iree_compile.resolve().with_name("libIREECompiler.so")
        (folder / library.name).symlink_to(library)
        copies.append(replace(tools, iree_compile=folder / "iree-compile"))
    one, two = copies
    assert one.identity == two.identity
    with two.iree_compile.open("ab") as file:
        file.write(b"x")
    two = replace(two)
    assert one.version == two.version
    assert one.identity != two.identity
    assert one.build != two.build


def test_the_library_of_a_compiler_is_part_of_it(tools: Tools, tmp_path: Path) -> None:
    """iree-compile itself is a few kB: all of the compiler is in the library beside it."""
    compiler = tmp_path / "iree-compile"
    shutil.copy(tools.iree_compile, compiler)
    library = tmp_path / "libIREECompiler.so"
    digests = set()
    for text in ("one build", "another"):
        library.write_text(text)
        digests.add(program_digest(compiler))
    library.unlink()
    digests.add(program_digest(compiler))
    (tmp_path / "iree-lld").write_text("a linker")
    digests.add(program_digest(compiler))
    assert len(digests) == 4


# --- what goes together ---------------------------------------------------------------------------------------------


def test_the_installed_wheels_go_together(tools: Tools) -> None:
    assert tools.warnings() == []
    assert tools.release == versions.package("iree-base-compiler")


@pytest.mark.parametrize("version", ["0.1a1", "3.13.0rc20261016 @ 0123456789abcdef"])
def test_tools_of_another_build_than_the_bindings_are_warned_of(farm: Farm, version: str) -> None:
    folder = farm()
    exchanged(folder, "iree-compile", f"#!/bin/sh\necho 'IREE compiler version {version}'\n")
    (warning,) = Tools.find(folder).warnings()
    assert version[:20] in warning
    assert versions.bindings_version() in warning
    assert str(folder) in warning


def test_what_a_compiler_of_another_version_prints_is_read(
    farm: Farm, tools: Tools, executor: Executor, tmp_path: Path
) -> None:
    problem = Attention.parse(shape="1x2x128x128x64")
    folder = farm()
    disguise = "#!/bin/sh\n[ \"$1\" = --version ] && echo 'IREE compiler version 9.9.9' && exit\n"
    exchanged(folder, "iree-compile", f'{disguise}exec "{tools.iree_compile}" "$@"\n')
    own, chip = Tools.find(folder), Target.parse("gfx942")
    assert own.printing == ("--mlir-print-op-generic",)
    assert tools.printing == ()
    builder = Builder(own, Cache(tmp_path / "cache"))
    plan = Plan.make(chip.prepare(problem), chip, BuildExecutor.on(executor, builder), timeout=120)
    candidate = plan.candidate(plan.first[0], id="c0")
    build = builder.build(plan.job(candidate, timeout=120))
    assert (build.failure, build.applied) == (None, 1), build.stderr


def test_a_release_that_nobody_has_tried_is_warned_of(farm: Farm) -> None:
    folder = farm()
    exchanged(folder, "iree-compile", "#!/bin/sh\necho 'IREE compiler version 3.9.0'\n")
    bindings, untried = Tools.find(folder).warnings()
    assert "bindings" in bindings
    assert f"IREE 3.9.0 is untried: autotune is made for {IREE}" in untried


def test_wheels_of_two_releases_are_warned_of(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "package", lambda name: {"iree-base-runtime": "3.0.0"}.get(name, tools.release))
    (warning,) = replace(tools).warnings()
    assert "iree-base-runtime is 3.0.0" in warning
    assert "install the same release of both" in warning


def test_doctor_says_which_build_is_in_use_and_from_where(farm: Farm) -> None:
    folder = farm()
    exchanged(folder, "iree-compile", calling(Tools.find().iree_compile, "mine"))
    found = {finding.what: finding for finding in examine(folder)}
    assert str(folder / "tools") in found["iree-compile"].found
    assert Tools.find(folder).build in found["iree-compile"].found
    assert str(folder / "tools") in found["iree-run-module"].found
    assert "versions" not in found


# --- the commands ---------------------------------------------------------------------------------------------------


SHAPE = ("--shape", "16x16x16", "--dtype", "f32")


@pytest.mark.parametrize(
    "words",
    [
        ("gemm", *SHAPE, "--dry-run"),
        ("model", "MODEL.mlir", "--dry-run"),
        ("spec", "check", "SPEC.mlir"),
        ("doctor", "--json"),
    ],
    ids=" ".join,
)
def test_every_command_that_uses_iree_takes_another(tmp_path: Path, words: tuple[str, ...]) -> None:
    for name in ("MODEL.mlir", "SPEC.mlir"):
        (tmp_path / name).write_text("module {}")
    done = in_this_process(*words, "--iree-tools", str(tmp_path / "nothing"), cwd=tmp_path)
    assert done.returncode == 5
    assert "there is no program iree-compile in" in " ".join((done.stdout + done.stderr).split())
