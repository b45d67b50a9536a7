"""One way to ship: files are written, checked by a compile, and gone where that does not give the code that won."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autotuner.build import Compiled
from autotuner.build.ship import ship, write_parts, write_shipped
from autotuner.carriers.carrier import MicrokernelCarrier, Parts, SpecCarrier, SubstitutionCarrier, carrier_named
from autotuner.carriers.outputs import MICROKERNEL, MODEL, SPEC, Outputs, Suffixes
from autotuner.errors import EnvironmentFailure
from autotuner.specfiles.flagfile import Flagfile
from autotuner.system.workspace import Workspace
from autotuner.targets.backends import TUNING_SPEC

HEADER = "// Tuning spec by autotune 1\nmodule {}\n"
EXECUTABLE = "// Configured executable, to be substituted, by autotune 1\nmodule {}\n"
FLAGS = ("--iree-hal-target-device=local",)
GOOD = Compiled(None, "", 1.0, (), Path(), binary="the winner's")


def files(folder: Path, suffixes: Suffixes = SPEC) -> Outputs:
    return Outputs.at(folder / "specs" / "x.mlir", Workspace(folder), suffixes)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "specs").rglob("*") if path.is_file())


def test_what_gives_the_winners_binary_stays_and_its_flagfile_names_it(tmp_path: Path) -> None:
    seen: list[Path] = []

    def check(flagfile: Path) -> Compiled:
        seen.append(flagfile)
        return GOOD

    parts = Parts(SpecCarrier.name, HEADER, TUNING_SPEC)
    shipped = ship(files(tmp_path), parts, FLAGS, check=check, binary=GOOD.binary)
    assert (shipped.carrier, shipped.spec, shipped.objects) == ("spec", tmp_path / "specs" / "x.mlir", None)
    assert seen == [shipped.flagfile]
    assert Flagfile.read(shipped.flagfile).flags == (*FLAGS, f"{TUNING_SPEC}={shipped.spec}")


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (replace(GOOD, binary="another"), "gives it other code"),
        (replace(GOOD, failure="not-applied", stderr="nothing matched"), "does not apply: nothing matched"),
        (
            replace(GOOD, failure="compile-error", stderr="x.mlir:1:1: error: no"),
            "does not compile with what is written",
        ),
    ],
)
def test_what_does_not_hold_is_not_left_behind(tmp_path: Path, made: Compiled, words: str) -> None:
    parts = Parts(SpecCarrier.name, HEADER, TUNING_SPEC)
    with pytest.raises(EnvironmentFailure, match=words):
        ship(files(tmp_path), parts, FLAGS, check=lambda _: made, binary=GOOD.binary)
    assert left(tmp_path) == []


def test_executables_and_objects_go_into_folders_of_their_own(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.o"
    kernel.write_bytes(b"an object")
    one = write_shipped(
        files(tmp_path, MICROKERNEL), Parts(MicrokernelCarrier.name, HEADER, "--s", objects=(kernel,)), ()
    )
    assert one.objects is not None
    assert (one.objects / "kernel.o").read_bytes() == b"an object"
    assert Flagfile.read(one.flagfile, trust=True).folders == (str(one.objects),)
    other = write_shipped(
        files(tmp_path / "model", MODEL),
        Parts(SubstitutionCarrier.name, executables={"main_dispatch_0": EXECUTABLE}),
        (),
    )
    assert other.executables is not None
    assert Flagfile.read(other.flagfile).executables == (str(other.executables),)


def test_an_executable_that_was_dropped_is_not_there_the_next_time(tmp_path: Path) -> None:
    outputs = files(tmp_path, MODEL)
    for names in (("a", "b"), ("b",)):
        write_parts(outputs, Parts(SubstitutionCarrier.name, executables=dict.fromkeys(names, EXECUTABLE)))
        assert left(tmp_path) == [f"{name}.mlir" for name in names]


def test_what_a_result_calls_its_carrier_is_known_by_that_name() -> None:
    assert carrier_named("substitution").only_for
    assert not carrier_named("substitution").merges
    assert carrier_named("spec").merges
    assert carrier_named(None).name == "flags"
