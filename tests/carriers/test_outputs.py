"""Output files: what may be written, decided before any work is done."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotuner.carriers import outputs
from autotuner.carriers.carrier import carrier_named
from autotuner.carriers.outputs import MICROKERNEL, MODEL, Outputs, files_in
from autotuner.carriers.provenance import WRITTEN
from autotuner.errors import AutotuneError, UsageError
from autotuner.system.files import write_whole
from autotuner.system.workspace import Workspace
from autotuner.targets.backends import TUNING_SPEC

OURS = "// Tuning spec by autotune 0.1.0\nmodule {}\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace.open(tmp_path / "workspace")


@pytest.fixture
def files(workspace: Workspace) -> Outputs:
    return Outputs.at(workspace.root / "mine" / "m.mlir", workspace, MODEL)


@pytest.mark.parametrize("name", ["m.mlir", "m.flags", "m.executables/a.mlir", "m.objects/k.o"])
def test_a_file_of_somebody_else_is_refused_and_stays(files: Outputs, name: str) -> None:
    path = files.spec.parent / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("mine\n")
    with pytest.raises(UsageError, match="not written by autotune"):
        files.claim()
    with pytest.raises(UsageError, match="not written by autotune"):
        files.write(path, "other")
    files.clear()
    assert path.read_text() == "mine\n"


@pytest.mark.parametrize(
    "first",
    [
        "// my own spec, twice as fast by autotune 0.1.0",
        "// Tuning spec by autotune 0.1.0 and then changed by hand",
    ],
)
def test_a_file_that_only_speaks_of_autotune_is_not_its_own(files: Outputs, first: str) -> None:
    files.spec.parent.mkdir(parents=True)
    files.spec.write_text(f"{first}\nmodule {{}}\n")
    with pytest.raises(UsageError, match="not written by autotune"):
        files.claim()
    replace(files, force=True).claim()
    replace(files, force=True).write(files.spec, OURS)
    files.claim()


@pytest.mark.parametrize("title", [carrier_named(name).title for name in ("spec", "substitution", "microkernel")])
def test_every_header_of_a_spec_is_known_again(files: Outputs, title: str) -> None:
    for more in ("", ", merged: 2 entries of 2 specs", ", retuned: 1 kept"):
        files.write(files.spec, f"// {title} {WRITTEN}{more}\nmodule {{}}\n")
        replace(files, record=None).claim()


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_an_input_is_never_an_output(files: Outputs, link: object) -> None:
    files.spec.parent.mkdir()
    model = files.spec if link is None else files.spec.with_name("model.mlir")
    model.write_text(OURS)
    if callable(link):
        link(model, files.spec)
    with pytest.raises(UsageError, match="is an input"):
        files.claim([model])
    assert model.read_text() == OURS


def test_an_input_in_a_folder_of_the_outputs_is_refused(files: Outputs) -> None:
    files.objects.mkdir(parents=True)
    with pytest.raises(UsageError, match="is an input"):
        files.claim([files.objects / "kernel.o"])


def test_what_was_written_is_known_again_also_after_the_workspace_has_moved(files: Outputs, tmp_path: Path) -> None:
    files.claim()
    files.write(files.flagfile, "--iree-opt-data-tiling\n")  # flags alone: nothing in it says whose it is
    (tmp_path / "kernel.o").write_bytes(b"object")
    files.copy(tmp_path / "kernel.o")
    files.claim()
    (tmp_path / "workspace").rename(tmp_path / "moved")
    moved = Outputs.at(tmp_path / "moved" / "mine" / "m.mlir", Workspace.open(tmp_path / "moved"), files.suffixes)
    moved.claim()
    moved.clear()
    assert not any(path.exists() for path in moved.all)


@pytest.mark.parametrize("written", range(5))
def test_what_was_cut_off_while_it_wrote_is_known_again(
    files: Outputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    kernel, left = tmp_path / "kernel.o", [written]

    def ship(flags: str, code: bytes) -> None:
        files.clear()
        kernel.write_bytes(code)
        files.copy(kernel)
        files.write(files.flagfile, flags)

    def cut_off(*words: Any, **more: Any) -> None:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        write_whole(*words, **more)

    ship("--iree-opt-data-tiling\n", b"of an earlier run")
    monkeypatch.setattr(outputs, "write_whole", cut_off)
    with suppress(KeyboardInterrupt):
        ship("--iree-opt-level=O3\n", b"new")
    assert left == [0]
    files.claim()
    files.clear()
    assert not any(path.exists() for path in files.all)


def test_a_flagfile_that_was_changed_by_hand_is_not_written_over(files: Outputs) -> None:
    files.write(files.flagfile, "--iree-opt-data-tiling\n")
    files.flagfile.write_text("--iree-opt-data-tiling\n--iree-opt-level=O3\n")
    with pytest.raises(UsageError, match="changed since"):
        files.claim()


def test_a_flagfile_is_told_by_the_spec_that_it_names(tmp_path: Path) -> None:
    files = Outputs(tmp_path / "m.mlir")  # no workspace, no record: as `spec merge`
    files.write(files.spec, OURS)
    files.write(files.flagfile, f"{TUNING_SPEC}={files.spec}\n")
    files.claim()
    files.flagfile.write_text(f"{TUNING_SPEC}=/elsewhere/other.mlir\n")
    with pytest.raises(UsageError, match=r"m\.flags is there"):
        files.claim()
    files.flagfile.write_text(f"{TUNING_SPEC}={files.spec}\n")
    files.spec.write_text("module {}\n")
    with pytest.raises(UsageError, match=r"m\.mlir is there"):
        files.claim()


@pytest.mark.parametrize("where", ["/proc/a/b/x.mlir", "{}/file/x.mlir"])
def test_a_place_that_cannot_be_written_is_refused_at_once(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AutotuneError, match="cannot write"):
        Outputs(Path(where.format(tmp_path))).claim()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_folder_at_the_place_of_a_spec_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.mlir").mkdir()
    with pytest.raises(UsageError, match="is there"):
        Outputs(tmp_path / "m.mlir", MICROKERNEL).claim()


def test_files_are_found_in_the_words_of_options() -> None:
    assert set(files_in(["@a.npy", "1x2xf32=@b.bin", "model=w.irpa", "--iree-x=c.mlir"])) >= {
        Path(name) for name in ("a.npy", "b.bin", "w.irpa", "c.mlir")
    }
